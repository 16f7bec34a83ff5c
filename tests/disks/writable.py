"""A disk to unpack onto that can do little, as those of rclone and others: a FUSE file system for the tests.

Usage: writable.py MOUNT DIRECTORY

Everything is kept in DIRECTORY. There are no files without a name, no second names (EPERM), and no rename that leaves
alone what is there. What is written below /late is lost, which is told by fsync and by close alone (EDQUOT).
"""

import errno
import os
import sys

import fusepy

FACTS = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_mtime", "st_atime", "st_ctime")


class WritableDisk(fusepy.Operations):
    def __init__(self, directory):
        self.directory = directory

    def at(self, path):
        return self.directory + path

    def getattr(self, path, handle=None):
        found = os.lstat(self.at(path))
        return {name: getattr(found, name) for name in FACTS}

    def readdir(self, path, handle):
        return [".", "..", *os.listdir(self.at(path))]

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def create(self, path, mode, info=None):
        return os.open(self.at(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)

    def open(self, path, flags):
        return os.open(self.at(path), os.O_RDWR)

    def read(self, path, size, offset, handle):
        return os.pread(handle, size, offset)

    def write(self, path, data, offset, handle):
        return len(data) if path.startswith("/late/") else os.pwrite(handle, data, offset)

    def flush(self, path, handle):
        if path.startswith("/late/"):
            raise fusepy.FuseOSError(errno.EDQUOT)

    def fsync(self, path, only_data, handle):
        self.flush(path, handle)

    def release(self, path, handle):
        os.close(handle)

    def utimens(self, path, times=None):
        os.utime(self.at(path), times)

    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    def unlink(self, path):
        os.unlink(self.at(path))

    def link(self, target, source):
        raise fusepy.FuseOSError(errno.EPERM)


if __name__ == "__main__":
    mount, directory = sys.argv[1:]
    # Whoever runs the program may write: the tests mount as root and unpack as somebody else.
    others = {"allow_other": True} if os.geteuid() == 0 else {}
    fusepy.FUSE(WritableDisk(directory), mount, foreground=True, **others)
