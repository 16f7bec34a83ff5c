"""What the Python readers share: the files they are to find, and the line that says what they found."""

import hashlib
import json
import os
import sys
import urllib.parse


def arguments():
    """The URL of a bundle and the directory that its files come from."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} URL ROOT")
    return sys.argv[1], os.fsencode(sys.argv[2])


def report(client, root, parts):
    """Compare each (Content-Location, content) with the file of that name, and print one line of JSON.

    Exit 0 if all are the same.
    """
    found = []
    for location, content in parts:
        name = urllib.parse.unquote_to_bytes(location)
        with open(os.path.join(root, name), "rb") as file:
            same = hashlib.sha256(file.read()).digest() == hashlib.sha256(content).digest()
        found.append({"location": location, "length": len(content), "same": same})
    print(json.dumps({"client": client, "parts": found}))
    sys.exit(0 if all(part["same"] for part in found) else 1)
