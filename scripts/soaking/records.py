"""Reads both logs as they grow, and finds the one record of Axon that each request must leave."""
import collections
import json
import os
import re
import threading
import time

# A file that was moved away is read for so long after its last line: nginx's workers open the new one a little later.
KEPT_SECS = 20

NGINX_LINE = re.compile(rb'\{"time":"[^"]*","id":"([0-9a-f]{32})"')
UPSTREAM = re.compile(rb'"status":(\d+),.*"connect":"([^"]*)"')
REQUEST_ID = re.compile(rb'"request_id":"([^"]*)"')
FROM_NGINX = re.compile(rb"[0-9a-f]{32}")
# The names that the clients of Axon's own socket give.
FROM_CLIENT = re.compile(rb"[A-Za-z]+-[0-9]+-[0-9]+")


class Followed:
    """A log that others write to, move away and open anew."""

    def __init__(self, path):
        self.path, self.open = path, []

    def lines(self):
        """The lines that have come since."""
        try:
            inode = os.stat(self.path).st_ino
            if all(inode != known for known, *_ in self.open):
                self.open.append([inode, open(self.path, "rb"), b"", time.monotonic()])
        except FileNotFoundError:
            pass
        for entry in self.open:
            data = entry[1].read()
            if data:
                entry[3] = time.monotonic()
                *whole, entry[2] = (entry[2] + data).split(b"\n")
                yield from whole
        for entry in self.open[:-1]:
            if time.monotonic() - entry[3] > KEPT_SECS:
                entry[1].close()
                self.open.remove(entry)

    def close(self):
        for entry in self.open:
            entry[1].close()


class Records(threading.Thread):
    """Matches what nginx and the clients of the socket have asked with what Axon has recorded."""

    def __init__(self, axon_log, nginx_log, tally):
        super().__init__(name="records", daemon=True)
        self.axon, self.nginx, self.tally = Followed(axon_log), Followed(nginx_log), tally
        self.lock, self.over = threading.Lock(), threading.Event()
        # Either of the two may be read first; what is left at the end has no counterpart.
        self.without_record, self.without_request = set(), set()
        self.nameless = {"answered": 0, "recorded": 0}
        self.total, self.requests_at = 0, collections.Counter()
        self.nginx_statuses, self.ends = collections.Counter(), collections.Counter()
        self.complaints, self.samples = collections.Counter(), []

    def rate_before(self, clock):
        """How many records have a time in the whole second before this one."""
        return self.requests_at[time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(clock - 1)).encode()]

    def asked(self, name):
        """A request of this name was sent to the socket: it must leave a record."""
        with self.lock:
            self.match(name.encode(), self.without_record, self.without_request)

    def answered_nameless(self):
        """A request without a name was answered: it must leave a record under a name that Axon makes."""
        with self.lock:
            self.nameless["answered"] += 1

    def run(self):
        while not self.over.wait(0.2):
            self.read()

    def read(self):
        with self.lock:
            for line in self.nginx.lines():
                self.of_nginx(line)
            for line in self.axon.lines():
                self.of_axon(line)

    def of_nginx(self, line):
        found, upstream = NGINX_LINE.match(line), UPSTREAM.search(line)
        if not found or not upstream:
            return self.tally.fault("log", f"not a line of nginx: {line[:200]!r}")
        self.nginx_statuses[int(upstream[1])] += 1
        # Empty where nothing was handed over, a dash where nobody took it.
        if upstream[2] not in (b"", b"-"):
            self.match(found[1], self.without_record, self.without_request)

    def of_axon(self, line):
        name = REQUEST_ID.search(line)
        if not name or b'"level":"INFO","message":"request"' not in line:
            return self.of_other(line)
        self.total += 1
        # {"timestamp":"2026-11-30T22:11:08.…
        self.requests_at[line[14:33]] += 1
        if b'"cut":"' in line:
            self.ends[json.loads(line)["cut"]] += 1
        if FROM_NGINX.fullmatch(name[1]) or FROM_CLIENT.fullmatch(name[1]):
            self.match(name[1], self.without_request, self.without_record)
        else:
            self.nameless["recorded"] += 1

    def of_other(self, line):
        try:
            record = json.loads(line)
            level, message = record["level"], record["message"]
        except (ValueError, KeyError):
            return self.tally.fault("log", f"not a record: {line[:200]!r}")
        if level != "INFO":
            self.complaints[level, message] += 1
            if len(self.samples) < 100:
                self.samples.append(line.decode(errors="replace")[:500])

    @staticmethod
    def match(name, mine, others):
        if name in others:
            others.remove(name)
        else:
            mine.add(name)

    def finish(self):
        """Reads to the ends, once nobody writes any more, and tells what has no counterpart."""
        self.over.set()
        self.join()
        self.read()
        self.axon.close()
        self.nginx.close()
        self.judge()

    def judge(self):
        for names, what in [(self.without_record, "requests have no record"),
                            (self.without_request, "records have no request, or are a second one")]:
            if names:
                self.tally.fault("log", f"{len(names)} {what}: {b', '.join(sorted(names)[:5]).decode()}")
        if self.nameless["answered"] != self.nameless["recorded"]:
            self.tally.fault("log", f"{self.nameless['answered']} requests without a name were answered, "
                                    f"{self.nameless['recorded']} recorded")
