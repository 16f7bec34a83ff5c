"""What scripts/bench found, as Markdown, as a chart, and in the pages of this repository."""
import html

from measuring import KIB, pages
from measuring.pages import STYLE, table


# ---- Words --------------------------------------------------------------------------------------------------


def describe(payload):
    """What is asked for: `2 × 4 KiB`."""
    if payload["files"]:
        return f"{payload['files']} × {payload['file_bytes'] // KIB} KiB"
    return {"health": "JSON", "invalid": "no such file"}.get(payload["name"], "")


def errors(report):
    """The one line that says whether the rates are those of right answers."""
    results = [(name, result) for payload in report["payloads"] for name, result in payload["results"].items()]
    requests = sum(result["requests"] for _, result in results)
    statuses = sum(result["unexpected_status"] for _, result in results)
    sockets = {kind: sum(result["socket_errors"][kind] for _, result in results)
               for kind in ("connect", "read", "write", "timeout")}
    listed = ", ".join(f"{kind} {count}" for kind, count in sockets.items())
    return (f"{requests:,} requests, {statuses:,} answers with an unexpected status (non-2xx; for `invalid`, not 404), "
            f"{sum(sockets.values()):,} socket errors ({listed}), {len(report['wrong'])} checks failed")


def largest_share_of_others(report):
    """What others took at most of the CPU that was measured; 0 where nothing was pinned and it cannot be told."""
    rounds = [figures for payload in report["payloads"] for result in payload["results"].values()
              for figures in result["rounds"]]
    return max((figures["cpu_share_of_others"] or 0 for figures in rounds), default=0)


def conditions(report):
    """Machine, versions and settings, as a list."""
    machine, found = report["machine"], report["versions"]
    axon = found["axon"] + (f" ({found['commit']})" if found.get("commit") else "")
    programs = [axon, found["nginx"], found["wrk"]]
    if found.get("peer"):
        programs.append(f"{found['peer']} under uWSGI {found['uwsgi']} and {found['python']}, 2 processes × 16 threads")
    settings = ", ".join(f"`{name} {value}`" for name, value in report["nginx"].items() if name != "access_log")
    others = f" Others took at most {largest_share_of_others(report):.0%} of CPU time there." if "backend" in machine["pinned"] else ""
    options = f" `axon serve` with {' '.join(report['axon_options'])}." if report["axon_options"] else ""
    return [
        f"**Measured** on {report['date']} with `{report['command']}`: {report['rounds']} × {report['seconds']} s each, "
        f"{report['connections']} connections.{options}",
        f"**Machine**: {machine['cpu']}, {machine['cores']} CPUs, {machine['memory_mib']:,} MiB, {machine['system']}, "
        f"Linux {found['kernel']}. Pinned: {machine['pinned']}.{others}",
        f"**Programs**: {', '.join(programs)}.",
        f"**nginx**: {settings}. Access logs {report['access_logs']}.",
        f"**Answers**: {errors(report)}. One answer before and one after each was compared byte by byte.",
    ]


def has_peer(report):
    return all("peer" in payload["results"] for payload in report["payloads"])


def ratio(payload):
    peer = payload["results"]["peer"]["requests_per_sec"]
    return payload["results"]["axon"]["requests_per_sec"] / peer if peer else float("inf")


def mib(kib):
    return f"{kib / KIB:.1f}" if kib is not None else "–"


# ---- Markdown -----------------------------------------------------------------------------------------------


def rates(report):
    """Requests a second, next to the original's where that was measured."""
    peer = has_peer(report)
    head = ["", "files", "Axon, requests/s", "MB/s"] + (["original, requests/s", "times"] if peer else [])
    rows = []
    for payload in report["payloads"]:
        axon = payload["results"]["axon"]
        row = [payload["name"], describe(payload), f"{axon['requests_per_sec']:,.0f}", f"{axon['bytes_per_sec'] / 1e6:,.0f}"]
        if peer:
            row += [f"{payload['results']['peer']['requests_per_sec']:,.0f}", f"**{ratio(payload):.1f}**"]
        rows.append(row)
    return table(head, rows)


def costs(report, name):
    """Latency, CPU and memory of one backend."""
    rows = []
    for payload in report["payloads"]:
        result = payload["results"][name]
        latency, cpu, pss = result["latency_us"], result["cpu_us_per_request"], result["pss_peak_kib"]
        rows.append([payload["name"], describe(payload), *(f"{latency[p] / 1000:.1f}" for p in ("p50", "p90", "p99")),
                     f"{cpu['backend']:.0f}", f"{cpu['nginx']:.0f}", mib(pss["backend"]), mib(pss["nginx"])])
    backend = {"axon": "Axon", "peer": "original"}[name]
    return table(["", "files", "p50 ms", "p90 ms", "p99 ms", f"CPU µs/request, {backend}", "nginx",
                  f"peak PSS MiB, {backend}", "nginx"], rows)


def least(report):
    if not has_peer(report):
        return ""
    payload = min(report["payloads"], key=ratio)
    return f"The least gain is {payload['name']} ({describe(payload)}): {ratio(payload):.1f} times.\n\n"


def markdown(report, chart="bench.svg"):
    """Everything that was found."""
    text = f"**Not valid**: {errors(report)}.\n\n" if report["wrong"] else ""
    text += f"![Requests a second for each payload]({chart})\n\n{rates(report)}\n\n{least(report)}"
    text += "Latency is that of a **closed loop**: a connection sends its next request when it has the last answer.\n\n"
    text += costs(report, "axon") + "\n"
    if has_peer(report):
        text += "\nThe original, in the same run:\n\n" + costs(report, "peer") + "\n"
    return text + "\n" + "\n".join(f"- {line}" for line in conditions(report)) + "\n"


def summary(report, chart):
    """What fits a front page."""
    machine = report["machine"]
    cores = "one core for nginx and the backend, another for wrk" if "backend" in machine["pinned"] else "one core"
    against = " The original is the Python package under uWSGI, behind the same nginx.conf." if has_peer(report) else ""
    return (f"![Requests a second for each payload]({chart})\n\n{rates(report)}\n\n{least(report)}"
            f"wrk, {report['connections']} connections, {report['seconds']} s each, {cores} ({machine['cpu']}), "
            f"{report['versions']['nginx']}, {report['date']}.{against}\n")


# ---- Chart --------------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 760, 165, 120, 64, 15, 13


def svg(report):
    """Horizontal bars; the colours follow the reader's choice of light or dark."""
    names = ["axon", "peer"] if has_peer(report) else ["axon"]
    step = len(names) * BAR + GAP
    height = TOP + len(report["payloads"]) * step + 28
    most = max(result["requests_per_sec"] for p in report["payloads"] for result in p["results"].values()) or 1
    scale = (WIDTH - LEFT - RIGHT) / most
    machine = report["machine"]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        '<title id="t">Requests a second behind nginx</title>',
        f'<desc id="d">{html.escape("; ".join(alternative(p, names) for p in report["payloads"]))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        '<text class="title" x="20" y="28">Requests a second behind nginx, more is better</text>',
    ]
    at = 20
    for name in names:
        label = {"axon": "Axon", "peer": "original (Python under uWSGI)"}[name]
        out.append(f'<rect class="{name}" x="{at}" y="39" width="11" height="11" rx="2"/><text x="{at + 17}" y="49">{label}</text>')
        at += 40 + 8 * len(label)
    y = TOP
    for payload in report["payloads"]:
        middle = y + len(names) * BAR / 2 + 4.5
        out.append(f'<text class="strong" x="20" y="{middle}">{payload["name"]}</text>')
        indent = 74 if not payload["files"] else 48
        out.append(f'<text class="quiet" x="{indent}" y="{middle}">{html.escape(describe(payload))}</text>')
        for index, name in enumerate(names):
            rate, top = payload["results"][name]["requests_per_sec"], y + index * BAR
            width = max(rate * scale, 1)
            out.append(f'<rect class="{name}" x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR - 2}" rx="2"/>')
            times = f"  ({ratio(payload):.1f} ×)" if name == "axon" and len(names) > 1 else ""
            out.append(f'<text x="{LEFT + width + 6:.1f}" y="{top + 11}">{rate:,.0f}{times}</text>')
        y += step
    out.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP - 4}" y2="{y - GAP + 4}"/>')
    out.append(f'<text class="quiet" x="20" y="{height - 12}">wrk, {report["connections"]} connections, '
               f'{report["seconds"]} s each; {html.escape(machine["cpu"])}; {html.escape(report["versions"]["nginx"])}; {report["date"]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def alternative(payload, names):
    """A bar in words, for who does not see it."""
    rates_of = [f"{ {'axon': 'Axon', 'peer': 'original'}[n] } {payload['results'][n]['requests_per_sec']:,.0f}" for n in names]
    return f"{payload['name']} ({describe(payload)}): {', '.join(rates_of)}"


# ---- Pages --------------------------------------------------------------------------------------------------


def update_docs(repo, report):
    """Replaces what stands between the marks; gives the files that were written."""
    chart = repo / "docs" / "bench.svg"
    blocks = {repo / "README.md": summary(report, "docs/bench.svg"),
              repo / "docs" / "performance.md": markdown(report, "bench.svg")}
    pages.replace("bench", blocks)
    chart.write_text(svg(report))
    return [*blocks, chart]
