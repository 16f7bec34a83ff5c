"""Is an answer the right one?"""
import http.client
import json

from measuring import multipart
from measuring.answers import header
from measuring.site import files_of, target_of


def verify(stack, kind, root):
    """Compare one answer with what it must be; return (what is wrong or None, its length on the wire)."""
    try:
        head, body, wire_len = stack.ask(target_of(kind))
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"no answer: {error}", None
    status = int(head.split(b" ", 2)[1])
    expected = 404 if kind == "invalid" else 200
    if status != expected:
        return f"status {status}, not {expected}", wire_len
    contents = []
    for name in files_of(kind):
        try:
            contents.append((name, (root / name).read_bytes()))
        except OSError as error:
            return f"{name} cannot be read to compare it: {error}", wire_len
    wrong = None
    if kind == "health":
        wrong = None if json.loads(body) == {"status": "available"} else "not the health answer"
    elif contents and stack.name == "axon":
        wrong = wrong_in_axon(head, body, contents)
    elif contents:
        wrong = wrong_in_stream(body, contents)
    if stack.name == "axon" and header(head, "content-length") != str(len(body)):
        wrong = wrong or f"Content-Length is {header(head, 'content-length')}, the body has {len(body)} bytes"
    return wrong, wire_len


def wrong_in_axon(head, body, contents):
    """One file is the body. Several are its parts, each where the lengths before it say."""
    if len(contents) == 1:
        return None if body == contents[0][1] else difference(body, contents[0][1], contents[0][0])
    try:
        parts = multipart.parts(header(head, "content-type"), body, ["mixed"])
    except multipart.Malformed as malformed:
        return str(malformed)
    if len(parts) != len(contents):
        return f"{len(parts)} parts for {len(contents)} files"
    for number, (part, (name, content)) in enumerate(zip(parts, contents), 1):
        if header(part.head, "content-location") != name:
            return f"part {number} is not {name}"
        if part.content != content:
            return difference(part.content, content, name)
    return None


def wrong_in_stream(body, contents):
    """The original's framing is its own affair: every file must be there, whole and in order."""
    at = 0
    for name, content in contents:
        at = body.find(content, at)
        if at < 0:
            return f"{name} is not in the answer"
        at += len(content)
    return None


def difference(got, wanted, name):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    return f"{len(got)} bytes where {name} has {len(wanted)}; the first difference is at byte {at}"
