"""Axon's lives: started with a socket that somebody else holds, stopped and started again; and its log, moved away."""
import os
import signal
import socket
import subprocess
import sys
import time

from measuring.processes import Process
from measuring.stack import group_of_nginx, serve_command

# How many connections may wait while nobody accepts; the kernel cuts it to net.core.somaxconn.
BACKLOG = 4096

# A stop waits for running answers. None here takes a third of it.
STOP_SECS = 60

# Long enough for a machine that is busy with other things.
START_SECS = 15

# Becomes Axon with the socket as descriptor 3, as a service manager would start it: the process id stays the same.
EXEC = """
import os, sys
listening = int(sys.argv[1])
if listening != 3:
    os.dup2(listening, 3)
    os.close(listening)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Daemon:
    """Holds the listening socket as a service manager does: requests wait for the next life instead of failing."""

    def __init__(self, stack, binary, root, run, tally):
        self.stack, self.tally, self.log = stack, tally, run / "axon.log"
        command, self.env = serve_command(binary, root, None, self.log, ["--secret-file", run / "secret",
                                                                         "--head-timeout", "5s"])
        self.command = list(map(str, command))
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(stack.socket))
        if os.geteuid() == 0 and group_of_nginx():
            subprocess.run(["chgrp", "www-data", stack.socket], check=True)
        stack.socket.chmod(0o660)
        self.listening.listen(BACKLOG)
        self.life, self.gaps, self.rotations = 0, [], 0

    @property
    def pid(self):
        return self.stack.backend.pid

    def start(self):
        number = self.listening.fileno()
        command = [sys.executable, "-c", EXEC, number, *self.command]
        self.stack.backend = Process("axon", command, self.stack.dir / "backend.log", env=self.env, pass_fds=[number])
        self.life += 1

    def stop(self):
        """SIGTERM, and a look at how it ended."""
        process = self.stack.backend.process
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECS)
        except subprocess.TimeoutExpired:
            return self.tally.fault("process", f"axon did not end within {STOP_SECS} s of SIGTERM")
        if code != 0:
            self.tally.fault("process", f"axon ended with {code} after SIGTERM: {self.stack.backend.last_words()}")

    def restart(self):
        """As `systemctl restart` does it: the old one has ended before the new one starts."""
        begun = time.monotonic()
        self.stop()
        self.start()
        if self.wait_for(self.stack.healthy, "axon does not answer after a restart"):
            self.gaps.append(time.monotonic() - begun)

    def rotate(self):
        """Moves both logs away and has them opened anew."""
        of_nginx = self.stack.dir / "nginx" / "access.log"
        for path, pid, how in [(self.log, self.pid, signal.SIGHUP), (of_nginx, self.stack.nginx.pid, signal.SIGUSR1)]:
            moved = path.with_suffix(".moved")
            path.rename(moved)
            os.kill(pid, how)
            self.wait_for(path.exists, f"{path.name} was not opened anew")
            # Whoever still has it open goes on with it; the disk is not filled by it.
            moved.unlink()
        self.rotations += 1

    def wait_for(self, condition, what):
        deadline = time.monotonic() + START_SECS
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        self.tally.fault("process", f"{what} in {START_SECS} s")
        return False

    def withdraw(self):
        """The fault of the self-test: nobody listens any more."""
        self.listening.close()
        self.stop()
