"""Clients that behave badly, and the one that replaces files."""
import random
import socket
import struct
import threading

from measuring import REPO
from soaking.client import Pace, ask_directly, connected, packet
from soaking.tally import CUT_ON_SOCKET
from soaking.verified import checked_bundle, checked_file, query_of

# What a packet that was spoilt may still be answered with.
ANSWERS_TO_BAD_PACKETS = {200, 206, 304, 400, 403, 404, 405, 408, 412, 413, 414, 415, 416, 431, 501, 505}


class Rough(threading.Thread):
    """Does something over and over until it is told to stop; what happens is `act`."""

    pause_secs = 0.1

    def __init__(self, soak, seed):
        super().__init__(name=f"{type(self).__name__}-{seed}", daemon=True)
        self.soak, self.library, self.tally, self.over = soak, soak.library, soak.tally, soak.over
        self.random, self.number = random.Random(f"{type(self).__name__} {seed}"), 0

    def run(self):
        while not self.over.wait(self.random.uniform(0, 2 * self.pause_secs)):
            try:
                self.act()
            except (OSError, ValueError) as error:
                self.tally.fault("status", f"{type(self).__name__}: no answer: {error!r}")

    def request_id(self):
        """A name for a request that nginx does not see, and a record that it must leave."""
        self.number += 1
        name = f"{self.name}-{self.number}"
        self.soak.records.asked(name)
        return name

    def expect(self, answer, statuses, what):
        self.tally.answered(answer.status)
        if answer.status not in statuses:
            self.tally.fault("status", f"{what}: {answer.status}, not {statuses}")
        return answer.status in statuses


class Replacer(Rough):
    """Replaces files by rename."""

    pause_secs = 0.25

    def act(self):
        self.library.replace_one()
        self.tally.done("files replaced by rename")


class DirectReader(Rough):
    """Reads slowly from the socket itself, where little is buffered, bundles of more files than are held open."""

    def act(self):
        names = self.random.choices(self.library.small, k=self.random.randint(20, 60))
        names.insert(self.random.randrange(20), self.random.choice(self.library.large))
        request = packet(query_of(names), self.request_id())
        answer = ask_directly(self.soak.stack.socket, request, pace=Pace(32 * 1024, self.random.uniform(0.01, 0.03)))
        if not self.expect(answer, [200], "slow reader of the socket"):
            return
        if answer.whole:
            checked_bundle(self.library, self.tally, "slow bundle from the socket", names, answer)
        elif self.library.changed(names, answer.begun, answer.ended):
            self.tally.done(CUT_ON_SOCKET)
        else:
            self.tally.fault("bytes", f"cut after {answer.extent()}, and no file has changed")


class SlowSender(Rough):
    """Sends its request in pieces, in time."""

    def act(self):
        name = self.random.choice(self.library.small)
        request = packet(query_of([name]), self.request_id())
        answer = ask_directly(self.soak.stack.socket, request, pieces=self.random.randint(2, 8), piece_pause_secs=0.1)
        if self.expect(answer, [200], "slow sender"):
            checked_file(self.library, self.tally, "slowly asked", name, answer)


class NeverSender(Rough):
    """Never sends the end of its request."""

    def act(self):
        with connected(self.soak.stack.socket) as connection:
            connection.sendall(packet(query_of(["none"]))[:self.random.choice([1, 3, 4, 40])])
            # Its record has a name that Axon makes up.
            self.soak.records.answered_nameless()
            answer = bytearray()
            while piece := connection.recv(65536):
                answer += piece
        self.tally.done("requests that never ended")
        status = int(answer.split(b" ", 2)[1]) if answer else None
        self.tally.answered(status)
        if status != 408:
            self.tally.fault("status", f"a request that never ended: {status}, not 408")


class Cutter(Rough):
    """Asks, reads a little or nothing, and is gone: closed, or reset."""

    pause_secs = 0.05

    def act(self):
        names = self.random.choices(self.library.names, k=self.random.randint(1, 6))
        names.append(self.random.choice(self.library.large))
        direct = self.random.random() < 0.3
        if direct:
            address, request = self.soak.stack.socket, packet(query_of(names), self.request_id())
        else:
            address = ("127.0.0.1", self.soak.stack.port)
            request = f"GET {query_of(names)} HTTP/1.1\r\nHost: soak.test\r\nConnection: close\r\n\r\n".encode()
        with connected(address, small_buffer=True) as connection:
            connection.sendall(request)
            left = self.random.choice([0, 1, 1000, 100_000, 500_000])
            while left > 0 and (piece := connection.recv(min(left, 65536))):
                left -= len(piece)
            if not direct and self.random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tally.done("clients that cut")


class BadPackets(Rough):
    """Sends what is no request, or hardly one."""

    pause_secs = 0.02

    def __init__(self, soak, seed):
        super().__init__(soak, seed)
        corpus = sorted((REPO / "tests" / "corpus").glob("*.uwsgi"))
        self.corpus = [data for data in (path.read_bytes() for path in corpus) if data]
        if not self.corpus:
            raise FileNotFoundError(f"no packets in {REPO / 'tests' / 'corpus'}")

    def spoilt(self):
        how = self.random.randrange(5)
        if how == 0:
            return self.random.randbytes(self.random.choice([1, 3, 4, 5, 64, 5000, 70_000]))
        packets = [*self.corpus, packet(query_of(self.random.choices(self.library.small, k=3)))]
        data = bytearray(self.random.choice(packets))
        if how == 1:
            del data[self.random.randrange(len(data)):]
        elif how == 2:
            data[1:3] = self.random.randbytes(2)
        else:
            for _ in range(self.random.choice([1, 2, 8])):
                data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data)

    def act(self):
        data, answer = self.spoilt(), bytearray()
        with connected(self.soak.stack.socket) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                # It has had enough, and says so below.
                pass
            try:
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionError:
                pass
        self.tally.done("bad packets")
        if not answer.startswith(b"HTTP/1.1 "):
            if len(answer) not in (0, 4):
                self.tally.fault("bytes", f"a bad packet of {len(data)} bytes got {bytes(answer[:40])!r}")
            return
        self.soak.records.answered_nameless()
        status = int(answer[9:12])
        self.tally.answered(status)
        if status not in ANSWERS_TO_BAD_PACKETS:
            self.tally.fault("status", f"a bad packet got {status}: {data[:80].hex()}")
