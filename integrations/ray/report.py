"""The summary page: totals, refusals, costs, an estimate for a whole distribution."""

import html
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Sequence, Tuple

import pyarrow as pa

import judge
import sfi
from packages import Plan

STYLE = """body { font: 15px/1.45 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { border: 1px solid #bbb; padding: .2em .6em }
td:not(:first-child) { text-align: right } td.text { text-align: left } svg { max-width: 100% }"""
BLUE = "#2471a3"


@dataclass
class Estimate:
    """The distribution that the packages stand for, and the machines that would do it."""

    population: int
    cores: int


@dataclass
class Totals:
    """Sums over all rows."""

    objects: int
    text: int
    seconds: float
    reading: float
    longest: float

    @property
    def per_gigabyte(self) -> float:
        """Processor hours for a gigabyte of text."""
        return self.seconds / 3600 / (self.text / 1e9) if self.text else 0.0


def plain(text: Any) -> str:
    """Returns a text of a hostile object for the page."""
    return html.escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)))


def table_of(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Makes a table."""
    head = "".join(f"<th>{plain(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{plain(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>\n"


def bars(title: str, values: Sequence[Tuple[str, float]], unit: str) -> str:
    """Draws horizontal bars."""
    most = max((value for _, value in values), default=0) or 1
    lines = []
    for number, (name, value) in enumerate(values):
        top, width = 30 + 20 * number, 420 * value / most
        lines.append(
            f'<text x="218" y="{top + 12}" text-anchor="end">{plain(name[:32])}</text>'
            f'<rect x="225" y="{top}" width="{width:.1f}" height="15" fill="{BLUE}"/>'
            f'<text x="{230 + width:.1f}" y="{top + 12}">{value:,.6g} {unit}</text>'
        )
    return frame(title, 760, 40 + 20 * len(values), "\n".join(lines))


def frame(title: str, width: int, height: int, body: str) -> str:
    """Makes a picture."""
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" font-family="sans-serif" font-size="12">'
        f'<text x="5" y="16" font-weight="bold">{plain(title)}</text>\n{body}\n</svg>\n'
    )


def scatter(title: str, points: Sequence[Tuple[float, float]], across: str, up: str) -> str:
    """Draws points on two logarithmic axes."""
    points = [(x, y) for x, y in points if x > 0 and y > 0][:4000]
    if not points:
        return ""
    logs = [(math.log10(x), math.log10(y)) for x, y in points]
    lows = [math.floor(min(p[axis] for p in logs)) for axis in (0, 1)]
    highs = [max(math.ceil(max(p[axis] for p in logs)), lows[axis] + 1) for axis in (0, 1)]

    def place(x: float, y: float) -> Tuple[float, float]:
        return 70 + 640 * (x - lows[0]) / (highs[0] - lows[0]), 290 - 255 * (y - lows[1]) / (highs[1] - lows[1])

    lines = []
    for power in range(lows[0], highs[0] + 1):
        x, _ = place(power, lows[1])
        lines.append(f'<line x1="{x:.1f}" y1="35" x2="{x:.1f}" y2="290" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="305" text-anchor="middle">1e{power}</text>')
    for power in range(lows[1], highs[1] + 1):
        _, y = place(lows[0], power)
        lines.append(f'<line x1="70" y1="{y:.1f}" x2="710" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="64" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>')
    for log in logs:
        x, y = place(*log)
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{BLUE}" fill-opacity="0.5"/>')
    lines.append(f'<text x="390" y="322" text-anchor="middle">{plain(across)}</text>')
    lines.append(f'<text x="70" y="30" text-anchor="end">{plain(up)}</text>')
    return frame(title, 760, 330, "\n".join(lines))


def totals(rows: List[Dict[str, Any]], plans: Sequence[Plan]) -> Totals:
    """Sums up the rows."""
    seconds = [(row["rewrite_seconds"] or 0) + (row["verify_seconds"] or 0) for row in rows]
    return Totals(
        objects=len(rows),
        text=sum(row["text_bytes"] or 0 for row in rows),
        seconds=sum(seconds),
        # Each unit reads its package again.
        reading=sum(plan.seconds * (1 + len(plan.units)) for plan in plans),
        longest=max(seconds, default=0.0),
    )


def estimated(sums: Totals, plans: Sequence[Plan], estimate: Estimate) -> str:
    """Estimates the time of the whole distribution on some numbers of machines."""
    if not estimate.population or not plans:
        return ""
    hours = (sums.seconds + sums.reading) / 3600 / len(plans) * estimate.population
    rows = []
    for machines in (1, 4, 16, 64):
        wall = max(hours / (machines * estimate.cores), sums.longest / 3600)
        rows.append((machines, f"{wall:.3g} h"))
    share = len(plans) / estimate.population
    return (
        "<h2>A whole distribution</h2>"
        f"<p>{len(plans)} of {estimate.population} packages ({share:.1%}) took {hours * share:.3g} processor "
        f"hours, so all would take {hours:.3g}, on machines with {estimate.cores} cores as fast as these. "
        "No machine waits for another one; the largest object sets the least time.</p>"
        + table_of(["machines", "time"], rows)
    )


def write(path: Path, table: pa.Table, plans: List[Plan], failures: List[str], estimate: Estimate) -> str:
    """Writes the page. Returns a summary in one line."""
    rows: List[Dict[str, Any]] = table.to_pylist()
    sums = totals(rows, plans)
    verdicts = Counter(row["verdict"] for row in rows)
    rules = Counter(row["rule"] for row in rows if row["rule"] and row["verdict"] != "no-object")
    cost: Counter[str] = Counter()
    for row in rows:
        cost[row["package"]] += (row["rewrite_seconds"] or 0) + (row["verify_seconds"] or 0)
    grown = sum(row["rewritten_text_bytes"] or 0 for row in rows)
    before = sum(row["text_bytes"] or 0 for row in rows if row["rewritten_text_bytes"])
    judged = sums.objects - verdicts["no-object"]
    share = verdicts["safe"] / judged if judged else 0.0
    summary = (
        f"{len(plans)} packages, {judged} objects, {share:.2%} safe, {sums.text / 1e6:.1f} MB of text, "
        f"{sums.seconds:.1f} s of processor time: {sums.per_gigabyte:.2f} hours for a GB of text"
    )
    titles = sfi.reasons()
    broken = [(plan.package, archive, why) for plan in plans for archive, why in plan.unreadable.items()]
    parts = [
        f"<h1>Static archives in mode {plain(rows[0]['mode'] if rows else '')}</h1><p>{plain(summary)}.</p>",
        table_of(["verdict", "objects", "meaning"], [(v, verdicts[v], judge.VERDICTS[v]) for v in judge.VERDICTS]),
        "<h2>Reasons</h2>",
        table_of(["rule", "objects", "reason"], [(r, n, titles.get(r, "")) for r, n in rules.most_common()]),
        bars("Objects by first reason", rules.most_common(20), ""),
        "<h2>Cost</h2>",
        f"<p>Text grows to {grown / before:.3f} of its size.</p>" if before else "",
        bars("Processor seconds of the most expensive packages", cost.most_common(20), "s"),
        scatter(
            "Processor seconds by bytes of text",
            [(r["text_bytes"] or 0, (r["rewrite_seconds"] or 0) + (r["verify_seconds"] or 0)) for r in rows],
            "bytes of text",
            "seconds",
        ),
        estimated(sums, plans, estimate),
    ]
    if failures or broken:
        parts += ["<h2>Failures</h2>", table_of(["what"], [(failure,) for failure in failures])]
        parts += [table_of(["package", "archive", "reason"], broken)]
    page = f"<!doctype html><meta charset=utf-8><title>sfi fleet</title><style>{STYLE}</style>\n" + "\n".join(parts)
    path.write_text(page, encoding="utf-8")
    return summary
