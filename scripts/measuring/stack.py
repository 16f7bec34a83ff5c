"""A backend behind an nginx of its own, with the project's nginx.conf."""
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from measuring import Failure
from measuring.answers import dechunked, header, some
from measuring.processes import Process
from measuring.site import target_of

# An answer that takes longer hangs.
TIMEOUT_SECS = 10


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_directory(prefix):
    """A new folder. It stands in nginx.conf and in a socket's name, which has 107 bytes at most."""
    temp = os.environ.get("TMPDIR", "/tmp")
    directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=temp if len(temp) < 60 and " " not in temp else "/tmp"))
    directory.chmod(0o755)
    return directory


class Stack:
    """A backend and an nginx of its own in front of it, with a folder of its own.

    With a CPU both are pinned to it. Without `logs` nginx writes its access log to /dev/null.
    """

    def __init__(self, name, run, conf, cpu=None, logs=False):
        self.name, self.cpu = name, cpu
        self.dir = run / name
        self.socket, self.port = self.dir / "backend.sock", free_port()
        (self.dir / "nginx").mkdir(parents=True)
        self.dir.chmod(0o755)
        if not logs:
            (self.dir / "nginx" / "access.log").symlink_to("/dev/null")
        self.conf = self.dir / "nginx.conf"
        self.conf.write_text(self.adapted(conf))
        self.backend = self.nginx = None

    def adapted(self, conf):
        conf, sockets = re.subn(r"unix:[^ ;]*(?=.*# set: socket$)", f"unix:{self.socket}", conf, flags=re.M)
        conf, listens = re.subn(r"listen [^ ;]*(?=.*# set: listen$)", f"listen 127.0.0.1:{self.port}", conf, flags=re.M)
        if (sockets, listens) != (1, 1):
            raise Failure("nginx.conf has lost its marks '# set: socket' and '# set: listen'.")
        if self.cpu is not None:
            conf = re.sub(r"^worker_processes auto;", "worker_processes 1;", conf, flags=re.M)
        return conf

    def start(self, command, env):
        self.backend = Process(self.name, command, self.dir / "backend.log", self.cpu, env)
        self.wait_for(self.socket.exists, "made no socket")
        self.start_nginx()

    def start_nginx(self):
        user = ""
        if os.geteuid() == 0:
            user = " user www-data www-data;" if group_of_nginx() else " user root;"
        self.nginx = Process("nginx", ["nginx", "-p", self.dir / "nginx", "-c", self.conf, "-g", f"daemon off;{user}"],
                             self.dir / "nginx.log", self.cpu)
        self.wait_for(self.healthy, "does not answer /api/health through nginx")

    def wait_for(self, condition, what):
        for _ in range(150):
            if condition():
                return
            if dead := [p for p in (self.backend, self.nginx) if p and not p.alive()]:
                raise Failure(f"{dead[0].name} ended at once:\n{dead[0].last_words()}")
            time.sleep(0.1)
        raise Failure(f"{self.name} {what} in fifteen seconds:\n{self.backend.last_words()}")

    def healthy(self):
        try:
            return b" 200 " in self.ask("/api/health")[0].split(b"\r\n")[0]
        except (OSError, ValueError):
            return False

    def url(self, kind):
        return f"http://127.0.0.1:{self.port}{target_of(kind)}"

    def ask(self, target):
        """One answer as it comes over the connection: head, body, and how many bytes both had on the wire."""
        request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_SECS) as connection:
            connection.sendall(request)
            received = b""
            while b"\r\n\r\n" not in received:
                received += some(connection)
            head, _, rest = received.partition(b"\r\n\r\n")
            length = header(head, "content-length")
            if length is not None:
                while len(rest) < int(length):
                    rest += some(connection)
                body, wire_len = rest, len(head) + 4 + len(rest)
            elif (header(head, "transfer-encoding") or "").lower() == "chunked":
                while not rest.endswith(b"0\r\n\r\n"):
                    rest += some(connection)
                body, wire_len = dechunked(rest), len(head) + 4 + len(rest)
            else:
                raise ValueError("the answer has no length")
            return head, body, wire_len

    def stop(self):
        # nginx first: then nothing is asked of the backend any more, and it ends at once.
        for process in (self.nginx, self.backend):
            if process:
                process.stop()


def serve_command(binary, root, address, log, more=()):
    """What starts Axon so that nginx may reach it, and its environment. Without an address it is given a socket."""
    command = [binary, "serve", "--root", root, *(["--uwsgi", address] if address else []), "--log-file", log, *more]
    if os.geteuid() == 0 and group_of_nginx():
        command += ["--socket-group", "www-data"]
    # The options are the defaults, whatever the environment holds.
    return command, {name: value for name, value in os.environ.items() if not name.startswith("AXON_")}


def group_of_nginx():
    return subprocess.run(["id", "-u", "www-data"], capture_output=True).returncode == 0
