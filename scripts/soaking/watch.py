"""What Axon takes while it is soaked, sampled each second, and whether its memory grows."""
import math
import os
import statistics
import sys
import threading
import time

from measuring.processes import cpu_secs, descriptors, pss_kib, threads

# The first part of a life in which memory may still grow: buffers, threads and pages of the program are used for the
# first time.
WARM_UP = 0.2

# Samples of neighbouring seconds resemble each other; medians of this many blocks are independent enough.
MAX_BLOCKS = 40
MIN_BLOCKS = 6

# Of the normal distribution: 99 % lie within.
QUANTILE = 2.576

# What may be added over the steady part, however surely: the allocator's high-water mark is reached again and again by
# chance, a little higher each time.
TOLERATED_KIB = 512


class Watch(threading.Thread):
    """Samples Axon and nginx each second."""

    def __init__(self, daemon, nginx_pids):
        super().__init__(name="watch", daemon=True)
        self.axon, self.nginx_pids = daemon, nginx_pids
        self.samples, self.over, self.begun = [], threading.Event(), time.monotonic()

    def run(self):
        before, due = None, self.begun
        while not self.over.wait(max(due - time.monotonic(), 0)):
            due += 1
            sample = self.sample()
            cpu = sample.pop("cpu_secs")
            if before and before["life"] == sample["life"] and cpu is not None and before["cpu_secs"] is not None:
                sample["cpu"] = (cpu - before["cpu_secs"]) / (sample["at"] - before["at"])
            before = {**sample, "cpu_secs": cpu}
            self.samples.append(sample)

    def sample(self):
        life, pid, alive = self.axon.life, self.axon.pid, self.axon.stack.backend.alive()
        now = {"at": time.monotonic() - self.begun, "time": time.time(), "life": life,
               "nginx_pss_kib": pss_kib(self.nginx_pids)}
        alive = alive and is_axon(pid)
        return {**now, "pss_kib": pss_kib([pid]) if alive else None, "descriptors": descriptors(pid) if alive else None,
                "threads": threads(pid) if alive else None, "cpu_secs": cpu_secs([pid]) if alive else None,
                "cpu": None}

    def finish(self):
        self.over.set()
        self.join()
        return self.samples


def is_axon(pid):
    """Not yet while it is still the Python that will become Axon."""
    try:
        return os.readlink(f"/proc/{pid}/exe") != os.path.realpath(sys.executable)
    except OSError:
        return False


# ---- Does it grow? ------------------------------------------------------------------------------------------


def steady(samples):
    """Time and memory of the longest life, without its first part and without its last second."""
    lives = {}
    for sample in samples:
        if sample["pss_kib"]:
            lives.setdefault(sample["life"], []).append((sample["at"], sample["pss_kib"]))
    longest = max(lives.values(), key=len, default=[])
    return longest[math.ceil(len(longest) * WARM_UP):-1]


def growth(points):
    """The slope of memory over time and its 99 % confidence interval, in KiB a second, and the verdict.

    The slope is that of Theil and Sen, the median of the slopes of all pairs of points, of block medians; the interval
    is Sen's, from the variance of Kendall's S. Neither supposes a distribution, and single peaks do not move them.
    """
    size = max(1, len(points) // MAX_BLOCKS)
    blocks = [points[at:at + size] for at in range(0, len(points) - size + 1, size)]
    if len(blocks) < MIN_BLOCKS:
        return None
    medians = [tuple(statistics.median(column) for column in zip(*block)) for block in blocks]
    slopes = sorted((later[1] - one[1]) / (later[0] - one[0])
                    for index, one in enumerate(medians) for later in medians[index + 1:])
    count = len(medians)
    spread = QUANTILE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = slopes[max(math.floor((len(slopes) - spread) / 2), 0)]
    high = slopes[min(math.ceil((len(slopes) + spread) / 2), len(slopes) - 1)]
    secs = points[-1][0] - points[0][0]
    return {"kib_per_sec": statistics.median(slopes), "low": low, "high": high, "secs": secs, "points": len(points),
            "grows": low * secs > TOLERATED_KIB}
