"""Under which conditions something was measured: machine, versions, settings."""
import os
import pathlib
import platform
import re
import subprocess

from measuring import KIB, REPO


def first_line(*command):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    except OSError:
        return None
    text = (done.stdout + done.stderr).strip()
    return text.splitlines()[0].strip() if text else None


def versions(binary, built_here):
    """Of everything that takes part; `commit` is that of this repository, if Axon was built from it."""
    commit = None
    if built_here and (REPO / ".git").exists():
        commit = first_line("git", "-C", REPO, "describe", "--always", "--dirty", "--exclude=*")
    return {
        "axon": first_line(binary, "--version"), "commit": commit,
        "nginx": (first_line("nginx", "-v") or "").replace("nginx version: ", ""),
        "wrk": re.sub(r" Copyright.*", "", first_line("wrk", "-v") or ""),
        "kernel": re.match(r"[\d.]*", platform.release())[0], "rustc": first_line("rustc", "--version"),
    }


def machine(cpus, pinned):
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.*)$", info, re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M) \
        if os.path.exists("/etc/os-release") else None
    return {"cpu": model[1].strip() if model else platform.machine(), "cores": len(cpus),
            "memory_mib": int(memory[1]) // KIB, "system": system[1] if system else "Linux", "pinned": pinned}


def nginx_settings(conf):
    """The directives that decide speed, as they stand in the file that was used."""
    wanted = ("worker_processes|worker_connections|sendfile|tcp_nopush|tcp_nodelay|access_log|gzip|keepalive_requests|"
              "uwsgi_buffering|uwsgi_buffer_size|uwsgi_buffers|uwsgi_busy_buffers_size|uwsgi_max_temp_file_size|"
              "uwsgi_request_buffering")
    return {name: " ".join(value.split())
            for name, value in re.findall(rf"^\s*({wanted})\s+([^;]*);", conf, re.M)}
