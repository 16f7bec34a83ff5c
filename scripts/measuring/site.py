"""The payloads: which files are asked for, and their content."""
import random

from measuring import KIB

# name: (how many files, KiB of each). Pairs of payloads move the same bytes, once as one file and once as two.
PAYLOADS = {"T1": (1, 8), "T2": (2, 4), "T3": (1, 64), "T4": (2, 32),
            "T5": (1, 256), "T6": (2, 128), "T7": (1, 512), "T8": (2, 256)}
KINDS = ["health", "invalid", *PAYLOADS]


def make_site(root):
    """The files, the same every time. The two files of a payload differ, so that an exchange would be seen."""
    root.mkdir()
    for count, size in PAYLOADS.values():
        for index in range(count):
            name = file_name(size, index)
            (root / name).write_bytes(random.Random(name).randbytes(size * KIB))
    for path in [root, *root.iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def file_name(size, index):
    return f"{size}k-{'ab'[index]}.bin"


def files_of(kind):
    count, size = PAYLOADS.get(kind, (0, 0))
    return [file_name(size, index) for index in range(count)]


def target_of(kind):
    if kind == "health":
        return "/api/health"
    if kind == "invalid":
        return "/api/stream-files?file1=none.bin"
    return "/api/stream-files?" + "&".join(f"file{i + 1}={name}" for i, name in enumerate(files_of(kind)))
