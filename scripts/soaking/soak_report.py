"""What scripts/soak found, as Markdown, as a chart, and in a page of this repository."""
import html

from measuring import KIB, pages
from measuring.pages import STYLE, table

MIB = KIB * KIB

# The axis is divided into so many points at most: more cannot be told apart.
MAX_POINTS = 600


# ---- Words --------------------------------------------------------------------------------------------------


def verdict(report):
    """The one line that says whether it stayed up."""
    wrong = report["wrong"]
    if not wrong:
        return "nothing was wrong"
    return "**not passed**: " + ", ".join(f"{count:,} × {kind}" for kind, count in sorted(wrong.items()))


def extremes(report, field):
    """The least, the median and the largest of the samples, or None."""
    values = sorted(sample[field] for sample in report["samples"] if sample[field] is not None)
    return (values[0], values[len(values) // 2], values[-1]) if values else None


def rows(report):
    """What the table says, line by line."""
    did, verified = report["did"], sum(report["verified"].values())
    statuses = ", ".join(f"{status}: {count:,}" for status, count in report["statuses"].items())
    cuts = sum(count for what, count in did.items() if what.startswith("answers cut"))
    memory, files, workers = (extremes(report, field) for field in ("pss_kib", "descriptors", "threads"))
    nginx, cpu, rate = (extremes(report, field) for field in ("nginx_pss_kib", "cpu", "requests_per_sec"))
    idle, before = report["idle_after"] or {}, report["idle_before"]
    gaps = report["restart_gaps_secs"]
    yield "time", f"{report['seconds']:,.0f} s"
    yield "requests that Axon answered", f"{report['requests']:,}"
    yield "requests a second, in the middle", f"{rate[1] if rate else 0:,}"
    yield "statuses behind nginx", statuses
    yield "**unexpected statuses**, failed connections", f"**{report['wrong'].get('status', 0):,}**"
    yield "bodies hashed", f"{verified:,}, {report['verified_bytes'] / MIB:,.0f} MiB"
    yield "**wrong bytes**, cuts without a reason", f"**{report['wrong'].get('bytes', 0):,}**"
    yield "files replaced by rename while they were read", f"{did.get('files replaced by rename', 0):,}"
    yield "answers cut because of that, seen by the client and recorded", f"{cuts:,}"
    yield "clients that cut", f"{did.get('clients that cut', 0):,}"
    yield "bad packets", f"{did.get('bad packets', 0):,}"
    yield "requests that never ended", f"{did.get('requests that never ended', 0):,}"
    yield "restarts; the longest that requests waited for one", f"{len(gaps)}; {max(gaps, default=0):.1f} s"
    yield "logs moved away and opened anew", f"{report['rotations']}"
    yield "requests without their one record, other complaints in the logs", f"**{report['wrong'].get('log', 0):,}**"
    if memory:
        yield "memory (PSS) of Axon: least, median, largest", " / ".join(f"{kib / KIB:.1f}" for kib in memory) + " MiB"
    yield "its slope over the longest life, with 99 % confidence", slope_in_words(report["growth"])
    if files:
        for what, most in [("descriptors", files[2]), ("threads", workers[2])]:
            yield f"{what}: idle before, largest, idle afterwards", f"{before[what]} / {most} / {idle.get(what, '–')}"
    if cpu:
        yield "CPU of Axon: median, largest, idle afterwards", f"{cpu[1]:.0%} / {cpu[2]:.0%} / {idle.get('cpu', 0):.0%}"
    if nginx:
        yield "memory (PSS) of nginx: least, median, largest", " / ".join(f"{kib / KIB:.1f}" for kib in nginx) + " MiB"


def slope_in_words(growth):
    if not growth:
        return "too short to tell"
    per_min = {name: growth[name] * 60 for name in ("kib_per_sec", "low", "high")}
    return (f"{per_min['kib_per_sec']:+.1f} KiB a minute ({per_min['low']:+.1f} to {per_min['high']:+.1f}) "
            f"over {growth['secs']:.0f} s")


def conditions(report):
    """Machine, versions and settings, as a list."""
    machine, found, clients = report["machine"], report["versions"], report["clients"]
    axon = found["axon"] + (f" ({found['commit']})" if found.get("commit") else "")
    others = ", ".join(f"{count} {kind}" for kind, count in clients.items())
    low, high = report["wrk"]["delay_ms"]
    return [
        f"**Run** on {report['date']} with `{report['command']}`: {verdict(report)}.",
        f"**Load**: wrk for T1 to T8 at once, {report['wrk']['connections']} connections each, {low} to {high} ms "
        f"between an answer and the next request; clients: {others}.",
        f"**Machine**: {machine['cpu']}, {machine['cores']} CPUs, {machine['memory_mib']:,} MiB, {machine['system']}, "
        f"Linux {found['kernel']}.",
        f"**Programs**: {axon}, {found['nginx']}, {found['wrk']}.",
    ]


def markdown(report, chart="soak.svg"):
    """Everything that was found."""
    told = "".join(f"- {wrong['kind']}: {wrong['what']}\n" for wrong in report["told"])
    told = f"What was wrong:\n\n{told}\n" if told else ""
    listed = "\n".join(f"- {line}" for line in conditions(report))
    return (f"{told}![Memory, descriptors and requests a second over time]({chart})\n\n"
            f"{table(['', ''], map(list, rows(report)))}\n\n{listed}\n")


# ---- Chart --------------------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 760, 64, 20, 66, 110, 38
TIME_STEPS, MAX_TIMES = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 7200), 6
MORE_STYLE = """  .line { fill: none; stroke-width: 1.5; stroke-linejoin: round }
  .of-axon { stroke: #b7410e } .of-peer { stroke: #8c959f }
  .grid { stroke: #d1d9e0; stroke-width: 0.5 } .restart { stroke: #8c959f; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    .of-axon { stroke: #f0883e } .of-peer { stroke: #656c76 } .grid { stroke: #3d444d } .restart { stroke: #656c76 }
  }
"""


def svg(report):
    """Three panels over the same time: memory, descriptors, requests a second."""
    samples = thinned(report["samples"])
    last = max((sample["at"] for sample in samples), default=1) or 1
    panels = [("Memory (PSS), MiB", [("axon", "pss_kib", 1 / KIB), ("peer", "nginx_pss_kib", 1 / KIB)]),
              ("Descriptors of Axon", [("axon", "descriptors", 1)]),
              ("Requests a second", [("axon", "requests_per_sec", 1)])]
    height = TOP + len(panels) * (PANEL + GAP) + 36
    described = "; ".join(f"{name}: {figure}" for name, figure in rows(report)).replace("**", "")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        '<title id="t">Memory, descriptors and requests a second while Axon is soaked</title>',
        f'<desc id="d">{html.escape(described)}</desc>',
        f"<style>{STYLE}{MORE_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="20" y="28">{report["seconds"] / 60:g} minutes of everything at once</text>',
        '<rect class="axon" x="20" y="39" width="11" height="11" rx="2"/><text x="37" y="49">Axon</text>',
        '<rect class="peer" x="90" y="39" width="11" height="11" rx="2"/><text x="107" y="49">nginx</text>',
        '<line class="restart" x1="165" x2="165" y1="38" y2="52"/><text x="173" y="49">a restart</text>',
    ]
    starts = [samples[at]["at"] for at in range(1, len(samples)) if samples[at]["life"] != samples[at - 1]["life"]]
    for number, (title, series) in enumerate(panels):
        top = TOP + number * (PANEL + GAP) + 22
        out += panel(title, series, samples, starts, last, top, number == len(panels) - 1)
    machine = report["machine"]
    out.append(f'<text class="quiet" x="20" y="{height - 12}">{html.escape(machine["cpu"])}, {machine["cores"]} CPUs; '
               f'{html.escape(report["versions"]["nginx"])}; {report["date"]}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def panel(title, series, samples, starts, last, top, with_times):
    """One panel: title, grid, lines."""
    values = [sample[field] * factor for _, field, factor in series for sample in samples if sample[field] is not None]
    most = rounded_up(max(values, default=0) or 1)
    x = lambda at: LEFT + at / last * (WIDTH - LEFT - RIGHT)  # noqa: E731
    y = lambda value: top + PANEL - value / most * PANEL  # noqa: E731
    out = [f'<text class="strong" x="20" y="{top - 8}">{title}</text>']
    for part in (0, 0.5, 1):
        value, at = most * part, y(most * part)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                   f'<text class="quiet" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for at in starts:
        out.append(f'<line class="restart" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top}" y2="{top + PANEL}"/>')
    for name, field, factor in series:
        for points in runs(samples, field):
            line = " ".join(f"{x(at):.1f},{y(value * factor):.1f}" for at, value in points)
            out.append(f'<polyline class="line of-{name}" points="{line}"/>')
    if with_times:
        step = next((step for step in TIME_STEPS if step * MAX_TIMES >= last), TIME_STEPS[-1])
        for at in range(0, int(last) + 1, step):
            out.append(f'<text class="quiet" x="{x(at):.1f}" y="{top + PANEL + 16}" text-anchor="middle">'
                       f"{clock(at, step)}</text>")
    return out


def runs(samples, field):
    """The points of a line, broken where there is no value."""
    found, current = [], []
    for sample in samples:
        if sample[field] is None:
            current = []
        else:
            if not current:
                found.append(current)
            current.append((sample["at"], sample[field]))
    return found


def thinned(samples):
    """At most so many: the largest of each group, because peaks are what matters."""
    size = -(-len(samples) // MAX_POINTS) or 1
    groups = [samples[at:at + size] for at in range(0, len(samples), size)]
    fields = ("pss_kib", "nginx_pss_kib", "descriptors", "requests_per_sec")
    largest = lambda group, field: max((s[field] for s in group if s[field] is not None), default=None)  # noqa: E731
    return [{**group[-1], **{field: largest(group, field) for field in fields}} for group in groups]


def rounded_up(value):
    """The next of 1, 2, 3, 4, 5, 6, 8 and 10 times a power of ten."""
    power = 1
    while value > 10 * power:
        power *= 10
    while value <= power:
        power /= 10
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)


def clock(secs, step):
    return f"{secs} s" if step < 60 else f"{secs // 60} min"


# ---- Pages --------------------------------------------------------------------------------------------------


def update_docs(repo, report):
    """Replaces what stands between the marks; gives the files that were written."""
    chart, page = repo / "docs" / "soak.svg", repo / "docs" / "reliability.md"
    pages.replace("soak", {page: markdown(report)})
    chart.write_text(svg(report))
    return [page, chart]
