"""A strict reader of multipart bodies: every byte has to be where the lengths and the delimiters before it say."""
import re
import typing

from measuring.answers import header


class Malformed(Exception):
    """What a body has that a strict reader does not take."""


class Part(typing.NamedTuple):
    """One part: its head without the empty line, and its content."""
    head: bytes
    content: bytes


def parts(media_type, body, subtypes):
    """The parts of a whole body of one of these subtypes. Content is found by what each part says of its length, so
    that what it contains cannot matter; between the parts there may be nothing but delimiters."""
    kind = re.fullmatch(rf"multipart/({'|'.join(subtypes)}); boundary=([0-9A-Za-z_-]{{32,70}})(; type=\"[^\"]*\")?",
                        media_type or "")
    if not kind:
        raise Malformed(f"Content-Type is {media_type}")
    found, at, delimiter = [], 0, b"--" + kind[2].encode()
    closing = b"\r\n" + delimiter + b"--\r\n"
    while not (found and body.startswith(closing, at)):
        opening = (b"\r\n" if found else b"") + delimiter + b"\r\n"
        if not body.startswith(opening, at):
            raise Malformed(f"no delimiter before part {len(found) + 1}, at byte {at}")
        end = body.find(b"\r\n\r\n", at + len(opening))
        head = body[at + len(opening):max(end, 0)]
        length = length_of(head) if end >= 0 else None
        if length is None:
            raise Malformed(f"part {len(found) + 1} has no head with a length")
        at = end + 4 + length
        if at > len(body):
            raise Malformed(f"the body ends in the middle of part {len(found) + 1}")
        found.append(Part(head, body[end + 4:at]))
    if len(body) != at + len(closing):
        raise Malformed(f"{len(body) - at - len(closing)} bytes behind the closing line")
    return found


def length_of(head):
    """Content-Length, or in multipart/byteranges that of the range; None without either."""
    if found := re.fullmatch(r"[0-9]{1,18}", header(head, "content-length") or ""):
        return int(found[0])
    found = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/[0-9]+", header(head, "content-range") or "")
    return int(found[2]) + 1 - int(found[1]) if found and int(found[2]) >= int(found[1]) else None
