"""The course of a job over its sites, drawn in characters. Pure.

Each kind of bar has a character of its own, so the chart can be read without colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from koala.cli.render.documents import moment
from koala.cli.render.table import DRAWN, FILE, Screen, clean, cut
from koala.views.gantt import KINDS, Bar, BarKind, Gantt, Mark, Row, tick_places
from koala.views.records.base import Moment
from koala.views.records.chart import ChartClaim, GridTimeline
from koala.views.units import duration

SIGNS = {
    BarKind.CLAIMING: ".",
    BarKind.BARRIER: ":",
    BarKind.RUNNING: "=",
    BarKind.TRANSFER: "~",
    BarKind.WASTED: "x",
}
TONES = {
    BarKind.CLAIMING: "35",
    BarKind.BARRIER: "33",
    BarKind.RUNNING: "34",
    BarKind.TRANSFER: "36",
    BarKind.WASTED: "31",
}
"""Terminal colour codes."""
WIDTH_MIN = 40
LABELS_MAX = 26
"""Characters of the column with components and sites."""
ROWS_MAX = 60
COPIES = "  its files"


def gantt_text(chart: Gantt, screen: Screen = FILE) -> str:
    """Draw a line for each component at a site, below an axis from submission to end."""
    width, coloured = max(screen.width or DRAWN, WIDTH_MIN), screen.is_coloured
    rows = chart.rows[:ROWS_MAX]
    labels = [_label(row) for row in rows] + [COPIES for row in rows if row.copies]
    room = min(LABELS_MAX, max(map(len, labels), default=0))
    cells = width - room - 2
    margin = " " * (room + 1)
    lines = [
        (margin + _spread(chart.ticks, cells, gap=1)).rstrip(),
        (margin + _spread(_letters(chart), cells, gap=0)).rstrip(),
    ]
    attempt = 0 if chart.setbacks else 1
    for row in rows:
        if row.attempt != attempt:
            attempt = row.attempt
            lines.append(f"attempt {attempt}")
        lines += _lanes(row, room, cells, coloured=coloured)
    if not rows:
        lines.append("no component has a site yet")
    if len(chart.rows) > len(rows):
        lines.append(f"and {len(chart.rows) - len(rows)} more components (--svg draws them all)")
    lines += [cut(clean(f"! {setback.text}"), width) for setback in chart.setbacks]
    if rows:
        lines += ["", *_legend(chart.kinds, width, coloured=coloured)]
    return "\n".join(lines)


def grid_text(timeline: GridTimeline, screen: Screen = FILE) -> str:
    """Draw a line for each claim of a period, by site, the newest claims if they are too many."""
    claims = sorted(timeline.claims[-ROWS_MAX:], key=lambda claim: claim.site)
    since, span_s = float(timeline.since), float(timeline.until) - float(timeline.since)
    now = min(float(timeline.now_at), float(timeline.until))

    def bar(kind: BarKind, begin: Moment | float, end: Moment | float | None) -> Bar:
        places = ((float(now if at is None else at) - since) / span_s for at in (begin, end))
        begins, ends = (max(0.0, min(1.0, place)) for place in places)
        return Bar(kind=kind, since=begins, until=ends, text="")

    def bars(claim: ChartClaim) -> Iterator[Bar]:
        granted_at, passed_at, ended_at = claim.granted_at, claim.passed_at, claim.ended_at
        yield bar(BarKind.CLAIMING, claim.asked_at, granted_at or ended_at)
        is_lost = claim.is_wasted and ended_at is not None
        if granted_at is not None:
            kind = BarKind.WASTED if is_lost else BarKind.BARRIER
            yield bar(kind, granted_at, passed_at or ended_at)
        if passed_at is not None:
            yield bar(BarKind.WASTED if is_lost else BarKind.RUNNING, passed_at, ended_at)

    chart = Gantt(
        rows=tuple(
            Row(label=f"{claim.job}.{claim.part}", site=claim.site, attempt=1, bars=(*bars(claim),))
            for claim in claims
        ),
        ticks=tuple(
            Mark(place=at / span_s, text=duration(at) if at else "0") for at in tick_places(span_s)
        ),
        marks=(), setbacks=(), span_s=span_s, summary="",
    )  # fmt: skip
    older = len(timeline.claims) - len(claims) + timeline.left_out
    head = f"{moment(since)} to {moment(float(timeline.until))}"
    more = [f"and {older} older claims (--svg draws up to 1,000)"] if older else []
    return "\n".join([head, gantt_text(chart, screen), *more])


def _label(row: Row) -> str:
    return clean(row.site if row.label == row.site else f"{row.label} {row.site}")


def _lanes(row: Row, room: int, cells: int, *, coloured: bool) -> list[str]:
    label = cut(_label(row), room).ljust(room)
    lanes = [f"{label} {_lane(row.stages, cells, coloured=coloured)}".rstrip()]
    if row.copies:
        lanes.append(f"{COPIES:<{room}} {_lane(row.copies, cells, coloured=coloured)}".rstrip())
    return lanes


def _lane(bars: Iterable[Bar], cells: int, *, coloured: bool) -> str:
    """Draw bars in order; each has at least one character, and later ones cover earlier ones."""
    lane: list[BarKind | None] = [None] * cells
    for bar in bars:
        first = min(cells - 1, int(bar.since * cells))
        for cell in range(first, max(first + 1, round(bar.until * cells))):
            lane[cell] = bar.kind
    return "".join(_run(kind, coloured=coloured) for kind in lane).rstrip()


def _run(kind: BarKind | None, *, coloured: bool) -> str:
    if kind is None:
        return " "
    return f"\x1b[{TONES[kind]}m{SIGNS[kind]}\x1b[0m" if coloured else SIGNS[kind]


def _letters(chart: Gantt) -> list[Mark]:
    """Return the points A to E, and a `!` for each attempt that was given up, in order of time."""
    given_up = [Mark(place=setback.place, text="!") for setback in chart.setbacks]
    return sorted((*chart.marks, *given_up), key=lambda mark: mark.place)


def _spread(marks: Sequence[Mark], cells: int, *, gap: int) -> str:
    """Write marks at their places. Without a gap between them, one goes beside the one before it;
    otherwise one that has no room is left out."""
    line = [" "] * (cells + 1)
    end = 0
    for mark in marks:
        at = max(min(cells - 1, int(mark.place * cells)), 0 if gap else end)
        at = min(at, len(line) - len(mark.text))
        if at >= end:
            line[at : at + len(mark.text)] = mark.text
            end = at + len(mark.text) + gap
    return "".join(line)


def _legend(kinds: Sequence[BarKind], width: int, *, coloured: bool) -> list[str]:
    lines: list[str] = []
    used = width
    for kind in kinds:
        words = f"{SIGNS[kind]} {KINDS[kind]}"
        if used + 3 + len(words) > width:
            lines.append("")
            used = 0
        else:
            lines[-1] += "   "
            used += 3
        used += len(words)
        lines[-1] += f"{_run(kind, coloured=coloured)} {KINDS[kind]}"
    return lines
