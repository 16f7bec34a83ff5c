"""The files that are served while they are replaced, with every version of them that there was."""
import hashlib
import os
import random
import threading
import time

from measuring import KIB
from measuring.site import PAYLOADS, files_of

# Names that need escaping somewhere: in a query, in a head, in JSON.
AWKWARD = ["a space.txt", "ü.txt", 'a "quote".txt', "100%.txt", "a&b=c;d.txt", "+plus+.txt", "sub/deep/er.txt"]

# How long a version that was replaced is remembered: longer than any download takes.
REMEMBERED_SECS = 90


class Version:
    """Content that a file had, and from when to when."""

    def __init__(self, content):
        self.content, self.digest = content, digest(content)
        self.born = self.died = None

    def lived(self, begun, ended):
        """Whether somebody who asked at `begun` and had the answer at `ended` may have seen it."""
        return self.born <= ended and (self.died is None or self.died >= begun)


class Library:
    """A folder of files. Those in `still` stay as they are; all others are replaced by rename now and then."""

    def __init__(self, root, seed):
        self.root, self.incoming = root, root.parent / "incoming"
        self.random, self.lock, self.versions, self.number = random.Random(seed), threading.Lock(), {}, 0
        self.payload = sorted({name for kind in PAYLOADS for name in files_of(kind)})
        self.small = [f"small/{number:02}.txt" for number in range(60)] + AWKWARD
        self.large = [f"large/{number}.bin" for number in range(4)]
        self.still = [f"still/{number}.bin" for number in range(4)] + ["still/empty.txt"]
        self.incoming.mkdir()
        for name in [*self.payload, *self.small, *self.large, *self.still]:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            self.replace(name)
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o755)

    @property
    def names(self):
        return [*self.small, *self.large, *self.payload, *self.still]

    def replace(self, name):
        """A new version, complete before it gets its name."""
        version = Version(self.random.randbytes(self.new_len(name)))
        self.number += 1
        path = self.incoming / str(self.number)
        path.write_bytes(version.content)
        path.chmod(0o644)
        with self.lock:
            known = self.versions.setdefault(name, [])
            # Before the rename and after it: between the two either one may be seen.
            version.born = time.monotonic()
            known.append(version)
        os.replace(path, self.root / name)
        now = time.monotonic()
        with self.lock:
            if len(known) > 1:
                known[-2].died = now
            known[:] = [old for old in known if old.died is None or old.died > now - REMEMBERED_SECS]

    def replace_one(self):
        """Whichever: most often a small one."""
        group = self.random.choices([self.small, self.payload, self.large], [10, 5, 1])[0]
        self.replace(self.random.choice(group))

    def new_len(self, name):
        """Payloads keep their size, or the bytes of so many answers could not be told."""
        if name in self.payload:
            return int(name.split("k-")[0]) * KIB
        if name in self.large:
            return self.random.randrange(512 * KIB, 4096 * KIB)
        if name in self.still:
            return 0 if name.endswith("empty.txt") else 100 * KIB
        return self.random.randrange(1, 20 * KIB)

    def seen(self, name, begun, ended):
        """The versions of a file that a request in this time may have seen."""
        with self.lock:
            return [version for version in self.versions[name] if version.lived(begun, ended)]

    def knows(self, name, content, begun, ended):
        """Whether a file had this content then, by its hash."""
        found = digest(content)
        return any(version.digest == found for version in self.seen(name, begun, ended))

    def blame(self, name, content):
        """What content is that a file did not have."""
        return f"{'an old version' if self.knows(name, content, 0, time.monotonic()) else 'no version'} of it"

    def changed(self, names, begun, ended):
        """Whether one of the files was replaced in this time, or may have been."""
        return any(len(self.seen(name, begun, ended)) > 1 for name in names)

    def falsify(self):
        """Changes one byte of a file in place and leaves size and name as they were: the fault of the self-test."""
        name = self.still[0]
        with open(self.root / name, "r+b") as file:
            file.seek(self.random.randrange(100 * KIB))
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        return name


def digest(content):
    return hashlib.sha256(content).digest()
