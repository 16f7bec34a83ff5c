"""Things broken on purpose: each must be noticed, and nothing else must be complained about."""
import random

from measuring import multipart, say
from soaking.records import Records
from soaking.tally import Tally
from soaking.watch import growth, steady


def run(soak):
    """Exit code 1 if something was not noticed. `soak` runs a short one with faults, and gives its report."""
    results = [
        *slopes(), *lost_records(), *loose_multipart(),
        # Such a file has another tag, too; and where it was being sent, that answer is cut, and recorded.
        noticed(soak(["byte", "held"]), "a byte changed in place, connections held", {"bytes", "descriptors"},
                {"status", "log"}, "still/0.bin"),
        # What reaches nobody is in no log.
        noticed(soak(["stopped"]), "nobody listens", {"status"}, {"log"}, "502"),
    ]
    say("")
    for right, what in results:
        print(f"self-test: {'as it should be' if right else 'NOT NOTICED, OR A FAULT THAT IS NONE'}: {what}")
    return int(not all(right for right, _ in results))


def noticed(report, what, kinds, besides, words):
    """Whether these kinds of fault were found, said in these words, and no others but those that may come with them."""
    told = [f"{wrong['kind']}: {wrong['what']}" for wrong in report["told"]]
    found = set(report["wrong"])
    right = kinds <= found <= kinds | besides and any(words in line for line in told)
    if not right:
        print("\n".join(told))
    return right, f"{what}: {', '.join(sorted(report['wrong'])) or 'nothing'}"


def slopes():
    """Series of a minute and of ten, with the noise and the start of real ones."""
    for secs, leak in [(60, 20), (600, 2)]:
        for grows in (False, True):
            chance = random.Random(secs)
            samples = [{"at": at, "life": 1, "pss_kib": 5000 + min(at, secs // 10) * 10 + at * leak * grows
                        + chance.gauss(0, 60) + chance.choice([0] * 19 + [900])} for at in range(secs)]
            found = growth(steady(samples))
            series = f"{secs} s with {f'a leak of {leak}' if grows else 'no'} KiB a second"
            yield found["grows"] == grows, f"{series}: {found['kib_per_sec']:+.2f}, surely {found['low']:+.2f}"


def lost_records():
    """A record that is missing, one too many, and neither."""
    name = "0123456789abcdef0123456789abcdef"
    asked = f'{{"time":"x","id":"{name}","status":200,"connect":"0.000"'.encode()
    record = ('{"timestamp":"2026-11-30T22:11:08.000000Z","level":"INFO","message":"request","request_id":"%s"}'
              % name).encode()
    for count, right in [(0, False), (1, True), (2, False)]:
        tally = Tally(quiet=True)
        records = Records("nowhere", "nowhere", tally)
        records.of_nginx(asked)
        for _ in range(count):
            records.of_axon(record)
        records.judge()
        yield (not tally.wrong["log"]) == right, f"a request with {count} records"


def loose_multipart():
    """Bodies that a generous reader would take."""
    boundary = "0123456789abcdef0123456789abcdef"
    body = (f"--{boundary}\r\nContent-Length: 3\r\n\r\nabc\r\n"
            f"--{boundary}\r\nContent-Length: 0\r\n\r\n\r\n--{boundary}--\r\n").encode()
    bodies = {
        "a strict one": body, "something in front": b"\r\n" + body, "something behind": body + b"\r\n",
        "no closing line": body[:-4], "a length that is too small": body.replace(b"Length: 3", b"Length: 2"),
        "one that is too large": body.replace(b"Length: 3", b"Length: 4"),
    }
    for what, spoilt in bodies.items():
        try:
            found = len(multipart.parts(f"multipart/mixed; boundary={boundary}", spoilt, ["mixed"]))
        except multipart.Malformed:
            found = None
        yield found == (2 if spoilt == body else None), f"multipart, {what}"
