"""Clients that download through nginx and compare every byte with what it must be."""
import json
import random
import threading
import time
import urllib.parse

from measuring import multipart
from soaking.client import Client, Pace
from soaking.library import digest
from soaking.tally import CUT_THROUGH_NGINX

SHAPES = ["mixed", "form-data", "related"]

# As many files as Axon keeps open of a bundle (src/store/local.rs). Others are opened again when their turn comes, and
# where one of them was replaced meanwhile the answer is cut, as it must be.
MAX_HELD_FILES = 15

# How often a download that was cut is gone on with. Files are replaced a few times a second.
MAX_ATTEMPTS = 40


def query_of(names, more=()):
    pairs = [(f"file{number}", name) for number, name in enumerate(names, 1)]
    return "/api/stream-files?" + urllib.parse.urlencode([*pairs, *more], quote_via=urllib.parse.quote)


def checked_file(library, tally, kind, name, answer):
    """Whether a whole answer is a version of this file that it had meanwhile."""
    if library.knows(name, answer.body, answer.begun, answer.ended):
        tally.right(kind, len(answer.body))
        return True
    tally.fault("bytes", f"{kind}: {name} with {len(answer.body)} bytes is {library.blame(name, answer.body)}")
    return False


def checked_bundle(library, tally, kind, names, answer, shape="mixed"):
    """Whether a whole answer is the bundle of these files, each in a version that it had meanwhile."""
    try:
        parts = multipart.parts(answer.header("content-type"), answer.body, [shape])
    except multipart.Malformed as malformed:
        return tally.fault("bytes", f"{kind}: {malformed}")
    if len(parts) != len(names) or answer.header("axon-parts") != str(len(names)):
        said = answer.header("axon-parts")
        return tally.fault("bytes", f"{kind}: {len(parts)} parts for {len(names)} files, Axon-Parts {said}")
    for part, name in zip(parts, names):
        location = multipart.header(part.head, "content-location")
        if location != urllib.parse.quote(name, safe="/-._~"):
            return tally.fault("bytes", f"{kind}: the part of {name} says {location}")
        if not library.knows(name, part.content, answer.begun, answer.ended):
            return tally.fault("bytes", f"{kind}: the part of {name} is {library.blame(name, part.content)}")
    tally.right(kind, sum(len(part.content) for part in parts))
    return True


class Reader(threading.Thread):
    """Downloads one thing after the other until it is told to stop."""

    def __init__(self, soak, seed):
        super().__init__(name=f"reader-{seed}", daemon=True)
        self.library, self.tally, self.over = soak.library, soak.tally, soak.over
        self.random, self.client = random.Random(seed), Client(soak.stack.port)

    def run(self):
        kinds = [self.single, self.bundle, self.list, self.ranges, self.ranges_of_bundle, self.resumed,
                 self.revalidated, self.refused]
        while not self.over.wait(self.random.uniform(0, 0.06)):
            kind = self.random.choice(kinds)
            try:
                kind()
            except (OSError, ValueError) as error:
                self.client.close()
                self.tally.fault("status", f"{kind.__name__}: no answer: {error}")
        self.client.close()

    def ask(self, expected, target, **how):
        """An answer that has one of the expected statuses and is whole, or None."""
        answer = self.client.ask(target, **how)
        self.tally.answered(answer.status)
        if answer.status not in expected:
            asked = f"{how.get('method', 'GET')} {target[:200]} {how.get('headers', '')}"
            self.tally.fault("status", f"{answer.status}, not {expected}: {asked}")
            return None
        if not answer.whole:
            self.tally.fault("bytes", f"cut after {answer.extent()}: {target[:200]}")
            return None
        return answer

    # ---- What is downloaded -----------------------------------------------------------------------------

    def single(self):
        name = self.random.choice(self.library.names)
        if answer := self.ask([200], query_of([name])):
            checked_file(self.library, self.tally, "one file", name, answer)

    def bundle(self):
        names, shape = self.some(2, 12), self.random.choice(SHAPES)
        if self.random.random() < 0.5:
            answer = self.ask([200], query_of(names, [("format", shape)]))
        else:
            answer = self.ask([200], query_of(names), headers=[("Accept", f"multipart/{shape}")])
        if answer:
            checked_bundle(self.library, self.tally, "bundle", names, answer, shape)

    def list(self):
        """A list in JSON."""
        names = self.some(2, MAX_HELD_FILES, self.library.small)
        body = json.dumps({"files": names, "format": "mixed"}, ensure_ascii=False).encode()
        headers = [("Content-Type", "application/json")]
        if answer := self.ask([200], "/api/stream-files", method="POST", headers=headers, body=body):
            checked_bundle(self.library, self.tally, "bundle of a list", names, answer)

    def ranges(self):
        """One range or several of one file."""
        name = self.random.choice([*self.library.large, *self.library.payload])
        field, spans = self.some_ranges(4 * 1024 if name.startswith("4k") else 8 * 1024)
        if not (answer := self.ask([206], query_of([name]), headers=[("Range", field)])):
            return
        for version in self.library.seen(name, answer.begun, answer.ended):
            if self.has_ranges(answer, version.content, spans):
                return self.tally.right("ranges of a file", len(answer.body))
        self.tally.fault("bytes", f"ranges: {field} of {name} are not those of a version of it")

    def ranges_of_bundle(self):
        names = self.some(2, 6)
        if not (whole := self.ask([200], query_of(names))):
            return
        if not checked_bundle(self.library, self.tally, "bundle", names, whole):
            return
        field, spans = self.some_ranges(len(whole.body))
        headers = [("Range", field), ("If-Range", whole.header("etag"))]
        if not (answer := self.ask([200, 206], query_of(names), headers=headers)):
            return
        if answer.status == 206 and self.has_ranges(answer, whole.body, spans):
            self.tally.right("ranges of a bundle", len(answer.body))
        elif answer.status == 206:
            self.tally.fault("bytes", f"ranges: {field} of a bundle of {len(names)} are not what the whole has there")
        elif self.justified(whole, answer, names):
            checked_bundle(self.library, self.tally, "bundle", names, answer)

    def resumed(self):
        """A bundle that is cut, by the client or because a file was replaced, and gone on with."""
        names = self.some(2, 4) if self.random.random() < 0.5 else self.some(20, 40, self.library.small)
        if self.random.random() < 0.3:
            names.append(self.random.choice(self.library.large))
        body, first, cuts = b"", None, self.random.randrange(1, 4)
        for attempt in range(MAX_ATTEMPTS):
            limit = self.random.randrange(1, 1 << 20) if attempt < cuts else None
            headers = [("Range", f"bytes={len(body)}-"), ("If-Range", first.header("etag"))] if body else []
            answer = self.client.ask(query_of(names), headers=headers, limit=limit)
            self.tally.answered(answer.status)
            if answer.status == 200:
                if body and not self.justified(first, answer, names):
                    return
                body, first = answer.body, answer
            elif answer.status == 206 and self.continues(answer, len(body)):
                body += answer.body
            else:
                span = answer.header("content-range")
                return self.tally.fault("status", f"resumed at byte {len(body)}: {answer.status}, Content-Range {span}")
            if not answer.whole and (limit is None or len(answer.body) < limit) and not self.provoked(names, answer):
                return
            if len(body) == int(first.header("content-length")):
                checked_bundle(self.library, self.tally, "resumed bundle", names, first._replace(body=body))
                return
        self.tally.done("downloads given up because files changed too often")

    def revalidated(self):
        """A second request that asks whether it is still the same."""
        names = self.some(1, 5)
        if not (first := self.ask([200], query_of(names))):
            return
        time.sleep(self.random.uniform(0, 0.3))
        method = self.random.choice(["GET", "GET", "HEAD"])
        headers = [("If-None-Match", first.header("etag"))]
        if not (second := self.ask([200, 304], query_of(names), method=method, headers=headers)):
            return
        if second.status == 304:
            if second.header("etag") != first.header("etag") or not self.unchanged(names, first, second):
                return self.tally.fault("bytes", f"revalidated: 304 where a file of {names} had changed")
            return self.tally.right("revalidated, unchanged", 0)
        if self.justified(first, second, names) and method == "GET":
            if len(names) == 1:
                checked_file(self.library, self.tally, "revalidated, changed", names[0], second)
            else:
                checked_bundle(self.library, self.tally, "revalidated, changed", names, second)

    def refused(self):
        """What must be answered with an error, and with this one."""
        name = urllib.parse.quote(self.random.choice(self.library.small))
        status, method, target, headers = self.random.choice([
            (404, "GET", "/api/stream-files?file1=none.txt", []),
            (404, "GET", f"/api/stream-files?file1={name}&file2=none.txt", []),
            (404, "GET", "/api/stream-files?file1=../incoming/1", []),
            (404, "GET", "/api/stream-files?file1=.hidden", []),
            (404, "GET", "/somewhere/else", []),
            (400, "GET", f"/api/stream-files?file1={name}&unknown=1", []),
            (400, "GET", "/api/stream-files", []),
            (405, "DELETE", f"/api/stream-files?file1={name}", []),
            (415, "POST", "/api/stream-files", [("Content-Type", "text/plain")]),
            (416, "GET", f"/api/stream-files?file1={name}", [("Range", "bytes=99999999-")]),
            (412, "GET", f"/api/stream-files?file1={name}", [("If-Match", '"none"')])])
        answer = self.ask([status], target, method=method, headers=headers)
        if answer and answer.header("content-type") != "application/problem+json":
            self.tally.fault("bytes", f"{status} for {target} comes as {answer.header('content-type')}")
        elif answer and json.loads(answer.body)["status"] == status:
            self.tally.right("error", len(answer.body))

    # ---- Whether it is right ----------------------------------------------------------------------------

    def some(self, least, most, names=None):
        return self.random.choices(names or self.library.names, k=self.random.randint(least, most))

    def some_ranges(self, length):
        """A Range field and what it means: ranges in their order that neither overlap nor touch."""
        edges = sorted(self.random.sample(range(length - 1), 2 * self.random.choice([1, 1, 2, 3])))
        spans = [(first, last) for first, last in zip(edges[::2], edges[1::2])]
        spans = [span for at, span in enumerate(spans) if at == 0 or span[0] > spans[at - 1][1] + 1]
        return "bytes=" + ",".join(f"{first}-{last}" for first, last in spans), spans

    def has_ranges(self, answer, whole, spans):
        """Whether a 206 has these ranges of this whole, by the hash of each."""
        if len(spans) == 1:
            parts = [multipart.Part(answer.head, answer.body)]
        else:
            try:
                parts = multipart.parts(answer.header("content-type"), answer.body, ["byteranges"])
            except multipart.Malformed as malformed:
                self.tally.fault("bytes", f"ranges: {malformed}")
                return False
        wanted = [(f"bytes {first}-{last}/{len(whole)}", digest(whole[first:last + 1])) for first, last in spans]
        return wanted == [(multipart.header(part.head, "content-range"), digest(part.content)) for part in parts]

    def continues(self, answer, at):
        """Whether a 206 goes on at this byte and promises the rest."""
        span = f"bytes {at}-{at + int(answer.header('content-length')) - 1}/{at + int(answer.header('content-length'))}"
        return answer.header("content-range") == span

    def unchanged(self, names, first, second):
        """Whether each of the files may have been the same at both times."""
        seen = [self.library.seen(name, second.begun, second.ended) for name in names]
        return all(any(version.lived(first.begun, first.ended) for version in versions) for versions in seen)

    def justified(self, first, second, names):
        """Whether a whole answer may have taken the place of a part or of "unchanged": a file was replaced."""
        if first.header("etag") == second.header("etag") or not self.library.changed(names, first.begun, second.ended):
            self.tally.fault("status", f"a whole answer although none of {len(names)} files has changed")
            return False
        return True

    def provoked(self, names, answer):
        """Whether an answer may have been cut: a file that was not held open was replaced meanwhile."""
        if len(names) <= MAX_HELD_FILES or not self.library.changed(names, answer.begun, answer.ended):
            self.tally.fault("bytes", f"cut after {answer.extent()} without a reason, {len(names)} files")
            return False
        self.tally.done(CUT_THROUGH_NGINX)
        return True


class SlowReader(Reader):
    """Takes large bundles slowly, for a few seconds each."""

    def run(self):
        while not self.over.wait(self.random.uniform(0, 0.5)):
            # The small ones come after more than the kernel takes for a client that does not read.
            names = self.random.choices(self.library.large, k=3)
            names += self.random.choices(self.library.small, k=self.random.choice([2, 60]))
            try:
                answer = self.client.ask(query_of(names), pace=Pace(64 * 1024, self.random.uniform(0.005, 0.03)))
            except (OSError, ValueError) as error:
                self.tally.fault("status", f"slow reader: no answer: {error}")
                continue
            self.tally.answered(answer.status)
            if answer.status != 200:
                self.tally.fault("status", f"slow reader: {answer.status}")
            elif answer.whole:
                checked_bundle(self.library, self.tally, "slow bundle", names, answer)
            else:
                self.provoked(names, answer)
