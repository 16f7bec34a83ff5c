"""Reads a bundle with nothing but Python's standard library: urllib.request and email."""

import email
import email.policy
import platform
import urllib.request

import compare

url, root = compare.arguments()
# Straight to the server, whatever proxy the environment names.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(url, timeout=30) as answer:
    head = f"Content-Type: {answer.headers['Content-Type']}\r\n\r\n".encode()
    bundle = email.message_from_bytes(head + answer.read(), policy=email.policy.HTTP)
assert bundle.is_multipart() and not bundle.defects, bundle.defects
parts = list(bundle.iter_parts())
assert not any(part.defects for part in parts), [part.defects for part in parts]
compare.report(
    f"email of Python {platform.python_version()}",
    root,
    [(part["Content-Location"], part.get_payload(decode=True)) for part in parts],
)
