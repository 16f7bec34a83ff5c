"""Reads a bundle with requests and requests-toolbelt."""

import requests
import requests_toolbelt
from requests_toolbelt.multipart.decoder import MultipartDecoder

import compare

url, root = compare.arguments()
session = requests.Session()
# Straight to the server, whatever proxy the environment names.
session.trust_env = False
answer = session.get(url, timeout=30)
answer.raise_for_status()
bundle = MultipartDecoder.from_response(answer)
compare.report(
    f"requests-toolbelt {requests_toolbelt.__version__}",
    root,
    [(part.headers[b"Content-Location"].decode("ascii"), part.content) for part in bundle.parts],
)
