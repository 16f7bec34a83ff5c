"""Requests as bytes on a connection: HTTP to nginx, uwsgi packets straight to Axon's socket."""
import socket
import struct
import time
import typing

from measuring.answers import header

# Whatever takes longer hangs. A restart makes requests wait for as long as the slowest running answer takes.
TIMEOUT_SECS = 60


class Answer(typing.NamedTuple):
    """What came. `whole` says that the body has the bytes that the head promises; times are of the monotonic clock."""
    status: int
    head: bytes
    body: bytes
    whole: bool
    begun: float
    ended: float

    def header(self, name):
        return header(self.head, name)

    def extent(self):
        """How much of it there is, in words."""
        return f"{len(self.body)} bytes of {self.header('content-length')}"


class Pace(typing.NamedTuple):
    """How a slow client reads: so many bytes, then a pause."""
    piece_len: int
    pause_secs: float


class Client:
    """One client of nginx. It keeps its connection as long as it may."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, target, method="GET", headers=(), body=b"", limit=None, pace=None):
        """One request and its answer. With a `limit` the connection is dropped after that many bytes of the body."""
        begun = time.monotonic()
        if self.connection is None:
            self.connection = connected(("127.0.0.1", self.port), small_buffer=bool(limit is not None or pace))
        fields = [("Host", "soak.test"), *headers]
        if body or method == "POST":
            fields.append(("Content-Length", len(body)))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        try:
            self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            answer, extra = read_answer(self.connection, method == "HEAD", begun, limit, pace)
        except BaseException:
            self.close()
            raise
        if extra:
            self.close()
            raise ValueError(f"{len(extra)} bytes behind the answer")
        if not answer.whole or limit is not None or pace or (answer.header("connection") or "").lower() == "close":
            self.close()
        return answer

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def connected(address, small_buffer=False):
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    connection = socket.socket(family)
    if small_buffer:
        # Or the kernel takes megabytes for a client that has read nothing yet.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    connection.settimeout(TIMEOUT_SECS)
    connection.connect(address if isinstance(address, tuple) else str(address))
    return connection


def read_answer(connection, is_head, begun, limit=None, pace=None):
    """An answer, and what came behind it."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            raise ValueError(f"the connection ended in the head of an answer, after {len(received)} bytes")
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = header(head, "content-length")
    if is_head or status in (204, 304):
        length = 0
    elif length is None:
        raise ValueError(f"an answer with status {status} has no length")
    length, body = int(length), bytearray(rest)
    wanted = length if limit is None else min(length, limit)
    while len(body) < wanted:
        piece = connection.recv(pace.piece_len if pace else 1 << 18)
        if not piece:
            break
        body += piece
        if pace:
            time.sleep(pace.pause_secs)
    body, extra = bytes(body[:length]), bytes(body[length:])
    return Answer(status, head, body, len(body) == length, begun, time.monotonic()), extra


# ---- Without nginx ------------------------------------------------------------------------------------------


def packet(target, request_id=None, method="GET", headers=()):
    """A request as nginx would send it: modifier, length, modifier, then names and values with their lengths."""
    path, _, query = target.partition("?")
    variables = [("REQUEST_METHOD", method), ("PATH_INFO", path), ("QUERY_STRING", query), ("CONTENT_LENGTH", ""),
                 ("SERVER_PROTOCOL", "HTTP/1.1"), ("HTTP_HOST", "soak.test"), ("REMOTE_ADDR", "192.0.2.7"), *headers]
    if request_id:
        variables.append(("HTTP_X_REQUEST_ID", request_id))
    block = b"".join(struct.pack("<H", len(text)) + text
                     for variable in variables for text in (word.encode() for word in variable))
    return b"\0" + struct.pack("<H", len(block)) + b"\0" + block


def ask_directly(path, request, pace=None, limit=None, pieces=1, piece_pause_secs=0.0):
    """Sends a packet to the socket, in one or several pieces, and reads the answer to its end."""
    begun = time.monotonic()
    with connected(path, small_buffer=bool(pace or limit is not None)) as connection:
        step = -(-len(request) // pieces)
        for start in range(0, len(request), step):
            connection.sendall(request[start:start + step])
            time.sleep(piece_pause_secs)
        answer, extra = read_answer(connection, False, begun, limit, pace)
        if not extra and answer.whole and limit is None:
            extra = connection.recv(65536)
        if extra:
            raise ValueError(f"{len(extra)} bytes behind the answer")
        return answer
