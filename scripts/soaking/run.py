"""The soak itself: starts everything, keeps it busy, stops it, and judges."""
import math
import re
import shutil
import subprocess
import threading
import time
import traceback

from measuring import Failure, wrk
from measuring.processes import cpu_secs, descriptors, family, settled_descriptors, threads
from measuring.site import PAYLOADS
from measuring.stack import Stack, run_directory
from measuring.verification import verify
from soaking.client import TIMEOUT_SECS, connected, packet
from soaking.daemon import Daemon
from soaking.library import Library
from soaking.records import Records
from soaking.rough import BadPackets, Cutter, DirectReader, NeverSender, Replacer, SlowSender
from soaking.tally import CUT_ON_SOCKET, CUT_THROUGH_NGINX, Tally
from soaking.verified import Reader, SlowReader, query_of
from soaking.watch import Watch, growth, steady

# How many of each run at once. All of it leaves a part of two CPUs idle, so that what is seen is Axon's and not that
# of a machine with too much to do.
CLIENTS = {Reader: 4, SlowReader: 2, DirectReader: 2, SlowSender: 1, NeverSender: 1, Cutter: 2, BadPackets: 2,
           Replacer: 1}

# wrk asks for each payload with so many connections, and each waits so long before it asks again.
WRK_CONNECTIONS = 4
WRK_DELAY_MS = (10, 30)

# Restarts come in the first and in the last part only, so that one life is long enough to see whether memory grows.
RESTARTS_AT = (0.04, 0.08, 0.12, 0.88, 0.92, 0.96)
RESTARTS_AT_OF_SHORT = (0.12, 0.88)
SHORT_SECS = 120
ROTATION_SECS = 60

# How long descriptors may take to be back at idle, and how much CPU an idle Axon may use in a second.
IDLE_SECS = 15
IDLE_CPU = 0.1

# What a cut answer is in both logs; anything else there is a fault.
CUT_RECORD = ("ERROR", "an answer was cut")
CUT_IN_NGINX = "upstream prematurely closed connection"

# At start, where processes may open few descriptors: no fault of Axon, and more than is needed here.
OF_THE_MACHINE = "few descriptors"


class Soak:
    """One run. `faults` are those of the self-test."""

    def __init__(self, binary, secs, conf, seed, faults=(), quiet=False):
        self.secs, self.faults, self.seed = secs, faults, seed
        self.tally, self.over = Tally(quiet), threading.Event()
        self.dir = run_directory("axon-soak.")
        self.held, self.loads = [], {}
        # A client that fell over its own feet would do less, and less would be noticed.
        threading.excepthook = lambda failed: self.tally.fault(
            "process", f"{failed.thread.name}: {''.join(traceback.format_exception(*failed[:3]))}")
        try:
            root = self.dir / "site"
            root.mkdir()
            self.root, self.library = root, Library(root, seed)
            self.stack = Stack("axon", self.dir, conf, logs=True)
            self.daemon = Daemon(self.stack, binary, root, self.dir, self.tally)
            self.records = Records(self.daemon.log, self.stack.dir / "nginx" / "access.log", self.tally)
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise

    def run(self, progress):
        """All of it; the report."""
        try:
            return self.measured(progress)
        finally:
            # Where something ended it early, nobody needs to hear what the clients say of that.
            self.tally.quiet = True
            self.over.set()
            for process in self.loads.values():
                process.kill()
            self.let_go()
            self.stack.stop()
            shutil.rmtree(self.dir, ignore_errors=True)

    def measured(self, progress):
        self.daemon.start()
        self.stack.start_nginx()
        self.records.start()
        wire_lens = {kind: self.verified_once(kind) for kind in PAYLOADS}
        idle = {"descriptors": settled_descriptors(self.daemon.pid), "threads": threads(self.daemon.pid)}
        watch = Watch(self.daemon, family(self.stack.nginx.pid))
        for kind in PAYLOADS:
            self.loads[kind] = self.start_wrk(kind)
        clients = [kind(self, f"{self.seed}{number}") for kind, count in CLIENTS.items() for number in range(count)]
        for thread in [watch, *clients]:
            thread.start()
        self.operate(watch.begun, lambda: progress(self, watch))
        self.over.set()
        for thread in clients:
            thread.join()
        for kind, process in list(self.loads.items()):
            self.finish_wrk(kind, process, wire_lens[kind])
        samples = watch.finish()
        idle_after = self.judge_idle(idle)
        self.let_go()
        if "stopped" not in self.faults:
            for kind in PAYLOADS:
                self.verified_once(kind)
            self.daemon.stop()
        self.stack.nginx.stop()
        self.records.finish()
        for sample in samples:
            sample["requests_per_sec"] = self.records.rate_before(sample["time"])
        slope = growth(steady(samples))
        self.judge(slope)
        return self.report(samples, slope, idle, idle_after)

    # ---- While it runs ----------------------------------------------------------------------------------

    def operate(self, begun, progress):
        """Restarts, rotations and faults, each at its time."""
        due = []
        if self.secs >= 20:
            restarts = RESTARTS_AT_OF_SHORT if self.secs < SHORT_SECS else RESTARTS_AT
            due += [(self.secs * part, self.daemon.restart) for part in restarts]
        pause = min(ROTATION_SECS, self.secs / 4)
        due += [(pause * number, self.daemon.rotate) for number in range(1, math.ceil(self.secs / pause))]
        faults = {"byte": self.library.falsify, "stopped": self.daemon.withdraw, "held": self.hold}
        due += [(self.secs / 3, faults[fault]) for fault in self.faults]
        due.sort(key=lambda event: event[0])
        while (now := time.monotonic() - begun) < self.secs or due:
            if due and now >= due[0][0]:
                event = due.pop(0)[1]
                if event == self.daemon.rotate and "stopped" in self.faults:
                    continue
                event()
            progress()
            time.sleep(0.1)
            for process in (self.stack.nginx, self.stack.backend):
                if not process.alive() and "stopped" not in self.faults:
                    raise Failure(f"{process.name} has ended by itself:\n{process.last_words()}")

    def start_wrk(self, kind):
        script = self.dir / f"{kind}.lua"
        least, most = WRK_DELAY_MS
        script.write_text(wrk.script_text(f"function delay() return math.random({least}, {most}) end"))
        command = wrk.command(self.stack.url(kind), round(self.secs), script, WRK_CONNECTIONS, threads=1,
                              timeout_secs=TIMEOUT_SECS)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def finish_wrk(self, kind, process, wire_len):
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            return self.tally.fault("process", f"wrk did not end with {kind}")
        del self.loads[kind]
        seen = wrk.figures(process.returncode, out, err)
        self.tally.done("requests of wrk", seen["requests"])
        self.tally.done("bytes read by wrk", seen["bytes"])
        errors = {name: seen[name] for name in ("connect", "read", "write", "timeout") if seen[name]}
        if errors:
            self.tally.fault("status", f"wrk, {kind}: socket errors {errors}", sum(errors.values()))
        if seen["non_2xx"]:
            what = f"wrk, {kind}: {seen['non_2xx']} of {seen['requests']} answers were not 2xx"
            self.tally.fault("status", what, seen["non_2xx"])
        elif wire_len:
            least, most = wrk.expected_bytes("axon", kind, seen["requests"], wire_len, WRK_CONNECTIONS)
            if not least <= seen["bytes"] <= most:
                what = f"wrk, {kind}: {seen['bytes']} bytes, {seen['requests']} answers have {least} to {most}"
                self.tally.fault("bytes", what)

    def verified_once(self, kind):
        """One payload while nothing is replaced; its length on the wire."""
        wrong, wire_len = verify(self.stack, kind, self.root)
        if wrong:
            self.tally.fault("bytes", f"{kind}: {wrong}")
        return wire_len

    def hold(self):
        """The fault of the self-test: somebody who never lets go."""
        for number in range(3):
            connection = connected(self.stack.socket, small_buffer=True)
            self.held.append(connection)
            connection.sendall(packet(query_of(self.library.large)))
            connection.recv(1)
            self.records.answered_nameless()

    def let_go(self):
        while self.held:
            self.held.pop().close()

    # ---- Afterwards -------------------------------------------------------------------------------------

    def judge_idle(self, idle):
        """Waits until it holds no more than before, then looks whether it is at rest."""
        if "stopped" in self.faults:
            return None
        pid, deadline = self.daemon.pid, time.monotonic() + IDLE_SECS
        while (now := descriptors(pid)) > idle["descriptors"] and time.monotonic() < deadline:
            time.sleep(0.1)
        if now > idle["descriptors"]:
            what = f"{now} {IDLE_SECS} s after the last request, {idle['descriptors']} before the first"
            self.tally.fault("descriptors", what, now - idle["descriptors"])
        before, begun = cpu_secs([pid]), time.monotonic()
        time.sleep(2)
        used = (cpu_secs([pid]) - before) / (time.monotonic() - begun)
        if used > IDLE_CPU:
            self.tally.fault("process", f"axon uses {used:.0%} of a CPU and has nothing to do")
        return {"descriptors": now, "threads": threads(pid), "cpu": used}

    def judge(self, slope):
        if slope is None and not self.faults:
            self.tally.fault("memory", "too few samples to tell whether it grows")
        if slope and slope["grows"]:
            what = "it grows by {kib_per_sec:.2f} KiB a second, surely by {low:.2f}, for {secs:.0f} s"
            self.tally.fault("memory", what.format(**slope))
        did, complaints = self.tally.did, self.records.complaints
        through, direct = did[CUT_THROUGH_NGINX], did[CUT_ON_SOCKET]
        for kind, count in complaints.items():
            if kind != CUT_RECORD and OF_THE_MACHINE not in kind[1]:
                self.tally.fault("log", f"{count} x {kind[0]} {kind[1]!r}", count)
        if complaints[CUT_RECORD] != through + direct:
            what = f"{complaints[CUT_RECORD]} records of cut answers, clients have seen {through + direct}"
            self.tally.fault("log", what)
        self.nginx_complaints = nginx_complaints(self.stack.dir / "nginx" / "error.log")
        for kind, count in self.nginx_complaints.items():
            if kind != CUT_IN_NGINX:
                self.tally.fault("log", f"nginx, {count} x {kind}", count)
        if (cut := self.nginx_complaints.get(CUT_IN_NGINX, 0)) != through:
            self.tally.fault("log", f"nginx has seen {cut} answers cut, its clients {through}")
        if words := (self.stack.backend.last_words()):
            self.tally.fault("log", f"axon wrote to standard error: {words[:500]}")
        server_errors = {status: count for status, count in self.records.nginx_statuses.items() if status >= 500}
        if server_errors:
            self.tally.fault("status", f"nginx has answered {server_errors}", sum(server_errors.values()))

    def report(self, samples, slope, idle, idle_after):
        tally, records = self.tally, self.records
        return {
            "seconds": self.secs, "seed": self.seed, "wrong": dict(tally.wrong), "told": tally.told,
            "verified": dict(tally.verified), "verified_bytes": tally.verified_bytes, "did": dict(tally.did),
            "requests": records.total, "statuses": by_status(records.nginx_statuses),
            "statuses_of_clients": by_status(tally.statuses),
            "ends": dict(records.ends), "nameless": records.nameless,
            "complaints": {f"{level} {message}": count for (level, message), count in records.complaints.items()},
            "complaint_samples": records.samples, "nginx_complaints": self.nginx_complaints,
            "lives": self.daemon.life, "restart_gaps_secs": self.daemon.gaps, "rotations": self.daemon.rotations,
            "growth": slope, "idle_before": idle, "idle_after": idle_after, "samples": samples,
            "clients": {kind.__name__: count for kind, count in CLIENTS.items()},
            "wrk": {"connections": WRK_CONNECTIONS, "delay_ms": WRK_DELAY_MS},
        }


def by_status(counts):
    return {str(status): counts[status] for status in sorted(counts, key=str)}


def nginx_complaints(path):
    """What nginx's error log says, without what differs from line to line."""
    found = {}
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        text = re.sub(r"^\S+ \S+ \[(\w+)\] \d+#\d+: (?:\*\d+ )?", r"\1: ", line).split(", client:")[0]
        kind = CUT_IN_NGINX if CUT_IN_NGINX in text else re.sub(r"\d+", "N", text)[:150]
        found[kind] = found.get(kind, 0) + 1
    return found
