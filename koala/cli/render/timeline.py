"""Timeline of a job, drawn in characters: its course over the sites, and figure 1 of KOALA. Pure.

    A submitted    B placed    C claimed    D started    E ended

Distances are to scale, except for a minimum gap that keeps the letters readable. The line is `-`
before the start, and `=` while the programs run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koala.cli.render.documents import TRANSFERS, moment, processor_seconds, seconds
from koala.cli.render.gantt import gantt_text
from koala.cli.render.table import DRAWN, FILE, NOTHING, Screen, table
from koala.views.gantt import gantt
from koala.views.records.base import seconds_of
from koala.views.records.jobs import JobTimeline, Timeline

GAP = 4
WIDTH_MIN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One of the points A to E that the job has reached."""

    letter: str
    name: str
    at: float


def timeline_text(job: JobTimeline, screen: Screen = FILE) -> str:
    """Draw the course over the sites, the line A to E with the times between its points, and the
    full figures below."""
    timeline = job.timeline
    points = reached(timeline)
    marks = dict(
        zip((p.letter for p in points), places(points, screen.width or DRAWN), strict=True)
    )
    lines = [f"{job.job}  {job.phase}", ""]
    chart = gantt(job, seconds_of(job.now_at) or 0.0)
    lines += [gantt_text(chart, screen), ""]
    lines += [_letters(points, marks), _line(points, marks)]
    for name, start, end, value in _spans(timeline):
        if start in marks and end in marks:
            lines.append(_span(f"{name} {value}", marks[start], marks[end]))
    lines += ["", *_instants(points), "", *_figures(timeline)]
    if job.transfers:
        lines += ["", table(TRANSFERS, job.transfers, screen)]
    return "\n".join(lines)


def reached(timeline: Timeline) -> list[Point]:
    """Return the points that the job has reached so far."""
    named = (
        ("A", "submitted", timeline.submitted_at),
        ("B", "placed", timeline.placed_at),
        ("C", "claimed", timeline.claimed_at),
        ("D", "started", timeline.started_at),
        ("E", "ended", timeline.ended_at),
    )
    return [
        Point(letter=letter, name=name, at=float(at))
        for letter, name, at in named
        if at is not None
    ]


def places(points: Sequence[Point], width: int) -> list[int]:
    """Compute the column of each point: to scale, at least GAP apart, the last in the last column.

    A point that is later than its successors, by a site's clock, is drawn before them.
    """
    room = max(width, WIDTH_MIN) - 1 - GAP * (len(points) - 1)
    first, whole_s = points[0].at, points[-1].at - points[0].at
    shares = [min(1.0, (p.at - first) / whole_s) if whole_s > 0 else 0.0 for p in points]
    columns = [round(max(shares[: i + 1]) * room) + GAP * i for i in range(len(points))]
    return columns if whole_s > 0 else [GAP * 2 * i for i in range(len(points))]


def _spans(timeline: Timeline) -> list[tuple[str, str, str, str]]:
    """Return the named times of the figure, each between two points."""
    times = {point.letter: point.at for point in reached(timeline)}

    def between(start: str, end: str) -> str:
        return seconds(times[end] - times[start]) if start in times and end in times else NOTHING

    estimate_s = timeline.transfer_estimate_s
    return [
        ("TWT", "A", "D", between("A", "D")),
        ("PGT", "B", "C", between("B", "C")),
        ("PWT", "C", "D", between("C", "D")),
        *([("FTT", "B", "D", seconds(estimate_s))] if estimate_s else []),
        ("run", "D", "E", between("D", "E")),
    ]


def _letters(points: Sequence[Point], marks: Mapping[str, int]) -> str:
    line = [" "] * (max(marks.values()) + 1)
    for point in points:
        line[marks[point.letter]] = point.letter
    return "".join(line)


def _line(points: Sequence[Point], marks: Mapping[str, int]) -> str:
    end = max(marks.values())
    line = ["-"] * (end + 1)
    if "D" in marks:
        line[marks["D"] :] = "=" * (end + 1 - marks["D"])
    for point in points:
        line[marks[point.letter]] = "+"
    return "".join(line) + ("" if "E" in marks else "  ...")


def _span(label: str, start: int, end: int) -> str:
    """Draw `|<-- label -->|` between two columns; a label that does not fit goes to the right."""
    inside = end - start - 1
    if inside >= len(label) + 4:
        return " " * start + "|<" + f" {label} ".center(inside - 2, "-") + ">|"
    arrow = "|" + "-" * inside + "|"
    return " " * start + arrow + f" {label}"


def _instants(points: Sequence[Point]) -> list[str]:
    first = points[0].at
    return [
        f"{point.letter}    {point.name:<10} {moment(point.at)}  {point.at - first:+.3f} s"
        for point in points
    ]


def _figures(timeline: Timeline) -> list[str]:
    """Format the figures under the paper's names."""
    named = (
        ("TWT", "total waiting time", seconds(timeline.total_waiting_s)),
        ("FTT", "file transfer time, estimated", seconds(timeline.transfer_estimate_s)),
        ("", "file transfer time, real", seconds(timeline.transfer_s)),
        ("PGT", "processor gained time", processor_seconds(timeline.processor_gained_s)),
        ("PWT", "processor wasted time", processor_seconds(timeline.processor_wasted_s)),
        ("ACT", "additional claiming tries", str(timeline.extra_claiming_tries)),
        ("", "start delay", seconds(timeline.start_delay_s)),
        ("", "start lateness", seconds(timeline.start_lateness_s)),
        ("", "start skew", seconds(timeline.start_skew_s)),
    )
    return [f"{name:<4} {words:<32} {value}" for name, words, value in named]
