"""Run a command and stop a thread of it: the thread, not the process.

    hold_thread.py NAME COMMAND...

Each line on standard input: `hold` stops the first thread whose name begins with NAME, `release` lets it go on; each is
answered with the same line once it is done. At the end of input the command is told to end (SIGTERM), and its exit code
is ours. It is done by ptrace(2), which a parent may do to its child without being root.
"""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

ATTACH, DETACH = 16, 17  # sys/ptrace.h
WAIT_ALL = 0x40000000  # __WALL: threads of other processes are waited for, too

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) == -1:
        number = ctypes.get_errno()
        sys.exit(f"ptrace of a child is not allowed here: {os.strerror(number)} (see kernel.yama.ptrace_scope)")


def main():
    name, command = sys.argv[1], sys.argv[2:]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    held = None
    for line in sys.stdin:
        if line.strip() == "hold":
            tasks = sorted(pathlib.Path(f"/proc/{child.pid}/task").iterdir(), key=lambda task: int(task.name))
            held = next(int(task.name) for task in tasks if (task / "comm").read_text().startswith(name))
            ptrace(ATTACH, held)
            os.waitpid(held, WAIT_ALL)
        else:
            ptrace(DETACH, held)
        print(line, end="", flush=True)
    child.send_signal(signal.SIGTERM)
    sys.exit(child.wait())


main()
