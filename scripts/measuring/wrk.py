"""Load with wrk, and its figures."""
import json
import re
import subprocess

from measuring import KIB, Failure
from measuring.site import PAYLOADS

# wrk counts an answer that took longer as a time-out. Nothing that is measured takes a tenth of it unless something
# hangs.
TIMEOUT_SECS = 10
# nginx's Connection header is five bytes shorter ("close" for "keep-alive") in the last answer of a connection.
CLOSE_SAVES = 5
KEEPALIVE_REQUESTS = 10000

# wrk's own text rounds the bytes to three digits; its script interface gives them exactly.
WRK_SCRIPT = '''
local threads = {}
function setup(thread) table.insert(threads, thread) end
@COUNT@
function done(summary, latency, requests)
  local e, unexpected = summary.errors, 0
  for _, thread in ipairs(threads) do unexpected = unexpected + (thread:get("unexpected") or 0) end
  io.write(string.format(
    '\\nBENCH {"requests":%.0f,"bytes":%.0f,"microseconds":%.0f,"connect":%.0f,"read":%.0f,"write":%.0f,' ..
    '"timeout":%.0f,"non_2xx":%.0f,"unexpected":%.0f,"p50":%.0f,"p90":%.0f,"p99":%.0f,"max":%.0f}\\n',
    summary.requests, summary.bytes, summary.duration, e.connect, e.read, e.write, e.timeout, e.status, unexpected,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
'''
# Only where every answer is expected to be an error, which wrk's own count cannot tell from other errors. It makes
# wrk parse and copy each answer, so it is left out where content is measured.
WRK_COUNT = '''
unexpected = 0
function response(status, headers, body) if status ~= @STATUS@ then unexpected = unexpected + 1 end end
'''


def script_text(more=""):
    """A script for wrk that gives exact figures; `more` is Lua of one's own."""
    return WRK_SCRIPT.replace("@COUNT@", more)


def counting(status):
    """Lua that counts answers with another status than this one."""
    return WRK_COUNT.replace("@STATUS@", str(status))


def command(url, seconds, script, connections, threads=2, timeout_secs=TIMEOUT_SECS):
    return ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{timeout_secs}s",
            "-s", str(script), url]


def figures(returncode, out, err):
    """What a run of wrk with such a script has counted."""
    found = re.search(r"^BENCH (\{.*\})$", out, re.M)
    if returncode or not found:
        raise Failure(f"wrk failed with {returncode}: {' '.join((err or out).split())[-500:]}")
    return json.loads(found[1])


def run(url, seconds, script, connections, cpu=None):
    """One run; its figures."""
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None else []
    done = subprocess.run([*pinned, *command(url, seconds, script, connections)], capture_output=True, text=True)
    return figures(done.returncode, done.stdout, done.stderr)


def expected_bytes(name, kind, requests, wire_len, connections):
    """At least those of the answers that were counted; at most one begun for each connection on top."""
    closes = requests // KEEPALIVE_REQUESTS + connections
    least, most = requests * wire_len - closes * CLOSE_SAVES, (requests + connections) * wire_len
    if name != "axon":
        # It says no length, so nginx sends chunks, and how many depends on how it happens to read.
        count, size = PAYLOADS.get(kind, (0, 0))
        body = count * size * KIB
        least, most = requests * body, int(most * 1.05)
    return [least, most]
