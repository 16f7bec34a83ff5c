"""HTTP answers as they come over a connection, byte by byte."""
import re


def some(connection):
    piece = connection.recv(1 << 20)
    if not piece:
        raise ValueError("the connection ended in the middle of the answer")
    return piece


def header(head, name):
    found = re.search(rb"^%s:[ \t]*(.*?)\r?$" % name.encode(), head, re.M | re.I)
    return found[1].decode("latin-1") if found else None


def dechunked(body):
    out, at = [], 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(out)
        out.append(body[end + 2:end + 2 + size])
        at = end + 2 + size + 2
