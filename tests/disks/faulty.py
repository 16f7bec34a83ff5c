"""A disk whose files fail, crawl or hang, as their names say: a FUSE file system for the tests.

Usage: faulty.py MOUNT GATE

    fine-*          is read at once
    slow-MS-*       takes so many milliseconds for every read
    broken-OFFSET-* cannot be read from this offset on (EIO)
    hung-*          is not read before the file GATE exists
    locked-*        cannot be opened (EIO)

and `mount` is a directory, for another file system to be mounted on. A file has LEN bytes, a slow one SLOW_LEN; the one
at an offset is that offset modulo 251. Nothing is kept in memory by the kernel, so every read arrives here. Ends when
it is unmounted.
"""

import errno
import os
import stat
import sys
import time

import fusepy

LEN = 1_000_000
SLOW_LEN = 100_000_000
# More than the kernel asks for at once.
PATTERN = bytes(range(251)) * 2000
MODIFIED = 1_700_000_000
KINDS = ("fine", "slow", "broken", "hung", "locked")


class FaultyDisk(fusepy.Operations):
    def __init__(self, gate):
        self.gate = gate

    def getattr(self, path, handle=None):
        if path in ("/", "/mount"):
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        kind = path[1:].split("-")[0]
        if kind not in KINDS:
            raise fusepy.FuseOSError(errno.ENOENT)
        size = SLOW_LEN if kind == "slow" else LEN
        return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": size, "st_mtime": MODIFIED}

    def open(self, path, flags):
        if path.startswith("/locked-"):
            raise fusepy.FuseOSError(errno.EIO)
        return 0

    def read(self, path, size, offset, handle):
        kind, *numbers = path[1:].split("-")
        if kind == "slow":
            time.sleep(int(numbers[0]) / 1000)
        elif kind == "broken" and offset + size > int(numbers[0]):
            raise fusepy.FuseOSError(errno.EIO)
        elif kind == "hung":
            while not os.path.exists(self.gate):
                time.sleep(0.02)
        left = (SLOW_LEN if kind == "slow" else LEN) - offset
        start = offset % 251
        return PATTERN[start : start + max(0, min(size, left))]


if __name__ == "__main__":
    mount, gate = sys.argv[1:]
    # Whoever runs the server may look: the tests mount as root and serve as somebody else.
    others = {"allow_other": True} if os.geteuid() == 0 else {}
    fusepy.FUSE(FaultyDisk(gate), mount, foreground=True, direct_io=True, ro=True, **others)
