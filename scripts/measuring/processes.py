"""Processes that are started here, and what they take: CPU time, memory."""
import glob
import os
import pathlib
import re
import signal
import subprocess
import threading
import time


class Process:
    """One of ours, in a group of its own, ended by its id and nothing else."""

    def __init__(self, name, command, log, cpu=None, env=None, pass_fds=()):
        self.name, self.log = name, log
        pinned = ["taskset", "-c", str(cpu)] if cpu is not None else []
        with open(log, "ab") as out:
            self.process = subprocess.Popen([*pinned, *map(str, command)], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, env=env, start_new_session=True, pass_fds=pass_fds)

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def stop(self, how=signal.SIGTERM):
        if self.alive():
            self.process.send_signal(how)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()

    def last_words(self):
        return pathlib.Path(self.log).read_text(errors="replace").strip()[-2000:]


def family(pid):
    """A process and everything below it."""
    parents = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = pathlib.Path(stat).read_text()
            parents[int(text.split()[0])] = int(text.rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def cpu_secs(pids):
    """User and system time, in steps of the kernel's clock tick (10 ms)."""
    ticks = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        except (OSError, IndexError):
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_secs(cpu):
    """What a CPU spent on processes, or on other guests of its host."""
    line = re.search(rf"^cpu{cpu} (.*)$", pathlib.Path("/proc/stat").read_text(), re.M)[1].split()
    user, nice, system, steal = (int(line[column]) for column in (0, 1, 2, 7))
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def pss_kib(pids):
    """Proportional set size; None where it may not be read."""
    total = 0
    for pid in pids:
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        except FileNotFoundError:
            pass
        except (OSError, TypeError):
            return None
    return total


def descriptors(pid):
    """How many it has open; None where it has ended."""
    return entries(pid, "fd")


def threads(pid):
    """How many it has; None where it has ended."""
    return entries(pid, "task")


def entries(pid, directory):
    try:
        return len(os.listdir(f"/proc/{pid}/{directory}"))
    except OSError:
        return None


def settled_descriptors(pid, most_secs=15):
    """The same, once it has been the same for a second: a thread may still be starting, the last request not be quite
    over. What it is after so many seconds, if that does not come."""
    seen, deadline = [], time.monotonic() + most_secs
    while len(seen) < 20 or (len(set(seen[-20:])) > 1 and time.monotonic() < deadline):
        seen.append(descriptors(pid))
        time.sleep(0.05)
    return seen[-1]


class MemorySampler(threading.Thread):
    """The largest memory of groups of processes while it runs."""

    def __init__(self, groups):
        super().__init__(daemon=True)
        self.groups, self.peaks, self.over = groups, {}, threading.Event()

    def run(self):
        while True:
            for name, pids in self.groups.items():
                if (now := pss_kib(pids)) is not None:
                    self.peaks[name] = max(now, self.peaks.get(name, 0))
            if self.over.wait(0.5):
                return

    def finish(self):
        self.over.set()
        self.join()
        return self.peaks
