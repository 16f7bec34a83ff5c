"""What scripts/bench and scripts/soak have in common: Axon behind nginx, load, what processes take, and the pages."""
import os
import pathlib
import sys

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
KIB = 1024


class Failure(Exception):
    """Ends the run with a message."""


def say(text):
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    print(f"{bold}{text}{plain}", flush=True)


def command_typed(script):
    """What was typed, without what decides only where the figures go."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word == "--out":
            next(words, None)
        elif not word.startswith(("--out=", "--update-docs")):
            kept.append(word)
    return " ".join([script, *kept])
