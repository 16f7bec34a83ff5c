"""What all clients have seen, counted in one place."""
import collections
import threading

# How many of each kind of fault are told in words; all are counted.
MAX_TOLD = 20

# What clients have seen and both logs must say as often.
CUT_THROUGH_NGINX = "answers cut through nginx because a file was replaced"
CUT_ON_SOCKET = "answers cut on the socket because a file was replaced"


class Tally:
    """Counts from any thread. What is wrong is `status`, `bytes`, `memory`, `descriptors`, `log` or `process`."""

    def __init__(self, quiet=False):
        self.quiet, self.lock = quiet, threading.Lock()
        self.statuses, self.verified, self.did = collections.Counter(), collections.Counter(), collections.Counter()
        self.wrong, self.told, self.verified_bytes = collections.Counter(), [], 0

    def answered(self, status):
        """An answer that a client has read the head of."""
        with self.lock:
            self.statuses[status] += 1

    def right(self, kind, length):
        """A body that was hashed and is the right one."""
        with self.lock:
            self.verified[kind] += 1
            self.verified_bytes += length

    def done(self, what, count=1):
        """Something else that happened and is to be counted."""
        with self.lock:
            self.did[what] += count

    def fault(self, kind, what, count=1):
        """Something that must not be."""
        with self.lock:
            self.wrong[kind] += count
            if sum(1 for told in self.told if told["kind"] == kind) < MAX_TOLD:
                self.told.append({"kind": kind, "what": what})
                if not self.quiet:
                    print(f"    WRONG ({kind}): {what}", flush=True)
