"""Lets httplint, the library of REDbot, judge answers as they come over the wire.

Usage: http_lint.py HOST:PORT '[[METHOD, TARGET, [[NAME, VALUE], ...]], ...]'

Prints one line of JSON: for each request the status, and each note with its level.
"""

import json
import socket
import sys

from httplint import HttpRequestLinter, HttpResponseLinter


def exchange(host, port, request):
    """Everything that comes back until the connection ends."""
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def split(raw):
    """The status line's pieces, the header fields, the content."""
    head, separator, content = raw.partition(b"\r\n\r\n")
    assert separator, raw
    status_line, *lines = head.split(b"\r\n")
    fields = [tuple(line.split(b":", 1)) for line in lines]
    assert all(len(field) == 2 for field in fields), lines
    version, code, phrase = status_line.split(b" ", 2)
    return (version.removeprefix(b"HTTP/"), code, phrase), fields, content


def flatten(notes):
    """Each note, and those that stand beneath it."""
    for note in notes:
        yield note
        yield from flatten(note.subnotes)


def judge(host, port, method, target, extra):
    """The status of an answer, and the notes on it."""
    address = f"{host}:{port}"
    sent = [("Host", address), ("User-Agent", "axon-test"), ("Connection", "close"), *extra]
    head = "".join(f"{name}: {value}\r\n" for name, value in sent)
    raw = exchange(host, port, f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode())

    asked = HttpRequestLinter()
    asked.process_request_topline(method.encode(), target.encode(), b"1.1")
    asked.process_headers([(name.encode(), value.encode()) for name, value in sent])
    asked.finish_content(True)

    answer = HttpResponseLinter(_related=asked)
    answer.is_head_response = method == "HEAD"
    top, fields, content = split(raw)
    answer.process_response_topline(*top)
    answer.process_headers(fields)
    answer.feed_content(content)
    answer.finish_content(True)
    notes = [{"level": note.level.value, "subject": note.subject, "summary": str(note)} for note in flatten(answer.notes)]
    return {"status": answer.status_code, "notes": notes}


address, cases = sys.argv[1:]
host, port = address.rsplit(":", 1)
answers = [judge(host, int(port), *case) for case in json.loads(cases)]
print(json.dumps({"answers": answers}))
