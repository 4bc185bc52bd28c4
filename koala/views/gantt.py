"""Course of a job over its components, from submission to end, as bars on one axis. Pure.

The web page, the terminal and the picture of `koala timeline` draw it from the job's record. A
claim's bar has three parts: asked for, held at the barrier, and running. Parts of attempts that
were given up are wasted. Claims of every attempt are there, as far as the record has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from koala.core.model.values import claim_numbers
from koala.views.records.accounts import ClaimCost
from koala.views.records.base import Moment
from koala.views.records.jobs import JobDetails, JobTimeline, PartCourse, Timeline
from koala.views.units import duration

Course: TypeAlias = JobDetails | JobTimeline
SPAN_MIN_S = 0.05
NEAR = 0.012
"""Marks closer than this share of the axis are one."""
TICKS_MAX = 6
_STEPS = (1.0, 2.0, 5.0)


class BarKind(StrEnum):
    """Kind of a bar, which is its colour or sign."""

    TRANSFER = "transfer"
    CLAIMING = "claiming"
    BARRIER = "barrier"
    RUNNING = "running"
    WASTED = "wasted"


KINDS = {
    BarKind.CLAIMING: "claiming",
    BarKind.BARRIER: "held at the barrier",
    BarKind.RUNNING: "running",
    BarKind.TRANSFER: "input file on its way",
    BarKind.WASTED: "wasted, given up",
}
"""The legend, in its order."""
LETTERS = "A submitted, B placed, C claimed, D started, E ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Part of a row, from `since` to `until` as shares of the axis, and what it says."""

    kind: BarKind
    since: float
    until: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A component at a site in one attempt."""

    label: str
    site: str
    attempt: int
    bars: tuple[Bar, ...]

    @property
    def copies(self) -> tuple[Bar, ...]:
        """Bars of its input files, which overlap the others."""
        return tuple(bar for bar in self.bars if bar.kind is BarKind.TRANSFER)

    @property
    def stages(self) -> tuple[Bar, ...]:
        """Bars of its claims, in order of time."""
        return tuple(bar for bar in self.bars if bar.kind is not BarKind.TRANSFER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A tick of the axis, one of the points A to E, or an attempt that was given up."""

    place: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Rows over one axis. `marks` are the points A to E of figure 1 of the KOALA paper."""

    rows: tuple[Row, ...]
    ticks: tuple[Mark, ...]
    marks: tuple[Mark, ...]
    setbacks: tuple[Mark, ...]
    span_s: float
    summary: str

    @property
    def kinds(self) -> tuple[BarKind, ...]:
        """Kinds of bars that occur, in the order of the legend."""
        drawn = {bar.kind for row in self.rows for bar in row.bars}
        return tuple(kind for kind in KINDS if kind in drawn)


class _Axis:
    def __init__(self, first_at: float, last_at: float) -> None:
        self.first_at = first_at
        self.last_at = last_at
        self.span_s = max(SPAN_MIN_S, last_at - first_at)

    def after(self, at: Moment | None) -> float:
        """Seconds from the begin of the axis to an instant; None is the end of the axis."""
        return (self.last_at if at is None else float(at)) - self.first_at

    def place(self, at: Moment | None) -> float:
        return max(0.0, min(1.0, self.after(at) / self.span_s))

    def bar(self, kind: BarKind, since: Moment, until: Moment | None, text: str) -> Bar:
        words = f"{text}: {duration(max(0.0, self.after(until) - self.after(since)))}"
        return Bar(kind=kind, since=self.place(since), until=self.place(until), text=words)


def gantt(job: Course, now_at: float) -> Gantt:
    """Lay out the course of a job, as `show` or `timeline` gives it."""
    axis = _axis(job, now_at)
    return Gantt(
        rows=tuple(_rows(job, axis)),
        ticks=_ticks(axis),
        marks=_marks(job.timeline, axis),
        setbacks=tuple(_setbacks(job, axis)),
        span_s=axis.span_s,
        summary=f"{job.job} over {duration(axis.span_s)}",
    )


def _axis(job: Course, now_at: float) -> _Axis:
    first_at, ended_at = float(job.timeline.submitted_at), job.timeline.ended_at
    last_at = max(now_at, first_at) if ended_at is None else float(ended_at)
    ends = [claim.ended_at or claim.passed_at for claim in job.charges]
    return _Axis(first_at, max([last_at, *(float(end) for end in ends if end is not None)]))


def _marks(timeline: Timeline, axis: _Axis) -> tuple[Mark, ...]:
    points = (
        ("A", timeline.submitted_at),
        ("B", timeline.placed_at),
        ("C", timeline.claimed_at),
        ("D", timeline.started_at),
        ("E", timeline.ended_at),
    )
    marks: list[Mark] = []
    for letter, at in points:
        if at is None:
            continue
        place = axis.place(at)
        if marks and place - marks[-1].place < NEAR:
            marks[-1] = Mark(place=marks[-1].place, text=marks[-1].text + letter)
        else:
            marks.append(Mark(place=place, text=letter))
    return tuple(marks)


def _setbacks(job: Course, axis: _Axis) -> Iterator[Mark]:
    """Yield the attempts that were given up."""
    for setback in job.setbacks:
        after = duration(max(0.0, axis.after(setback.at)))
        reason = f": {setback.reason}" if setback.reason else ""
        text = f"attempt {setback.attempt} given up after {after}{reason}"
        yield Mark(place=axis.place(setback.at), text=text)


def _rows(job: Course, axis: _Axis) -> Iterator[Row]:
    parts = {part.component: part for part in job.parts}
    claims = sorted(job.charges, key=lambda claim: claim_numbers(claim.claim))
    rows: dict[tuple[int, int, str], list[Bar]] = {}
    for claim in claims:
        attempt, component, number = claim_numbers(claim.claim)
        bars = rows.setdefault((attempt, component, claim.site), [])
        bars.extend(_claim_bars(claim, number, axis))
    for part in job.parts:  # claims that were asked for and not granted yet have no charge
        if part.site:
            key = (job.attempts, part.component, part.site)
            rows.setdefault(key, _asked_bars(part, axis))
    for (attempt, component, site), bars in sorted(rows.items()):
        label = parts[component].label if component in parts else str(component)
        copies = _transfer_bars(job, label, site, axis) if attempt == job.attempts else []
        yield Row(label=label, site=site, attempt=attempt, bars=(*copies, *bars))


def _claim_bars(claim: ClaimCost, number: int, axis: _Axis) -> list[Bar]:
    is_wasted = claim.wasted_s > 0
    granted_at, passed_at, until = claim.granted_at, claim.passed_at, claim.ended_at
    words = "claiming" if number == 1 else f"claiming, try {number}"
    bars = [axis.bar(BarKind.CLAIMING, claim.asked_at, granted_at or until, words)]
    if granted_at is not None:
        kind = BarKind.WASTED if is_wasted else BarKind.BARRIER
        words = "held, given up" if is_wasted else "held at the barrier"
        bars.append(axis.bar(kind, granted_at, passed_at or until, words))
    if passed_at is not None:
        kind = BarKind.WASTED if is_wasted else BarKind.RUNNING
        bars.append(axis.bar(kind, passed_at, until, "ran, given up" if is_wasted else "running"))
    return bars


def _asked_bars(part: PartCourse, axis: _Axis) -> list[Bar]:
    """Bar of a claim that waits for its site's answer."""
    if part.asked_at is None:
        return []
    words = "claiming" if part.claims < 2 else f"claiming, try {part.claims}"
    return [axis.bar(BarKind.CLAIMING, part.asked_at, None, words)]


def _transfer_bars(job: Course, label: str, site: str, axis: _Axis) -> list[Bar]:
    bars = []
    for transfer in job.transfers:
        if label in transfer.components and transfer.target == site:
            until = transfer.told_at if transfer.is_done else None
            words = f"{transfer.file} from {transfer.source}"
            bars.append(axis.bar(BarKind.TRANSFER, transfer.started_at, until, words))
    return bars


def _ticks(axis: _Axis) -> tuple[Mark, ...]:
    return tuple(
        Mark(place=at / axis.span_s, text="0" if at == 0 else duration(at))
        for at in tick_places(axis.span_s)
    )


def tick_places(span: float) -> Sequence[float]:
    """Round places from 0 to `span`, at most TICKS_MAX and the first."""
    unit = 10.0**-6
    while True:
        for step in _STEPS:
            if span / (step * unit) <= TICKS_MAX:
                size = step * unit
                return [index * size for index in range(int(span / size) + 1)]
        unit *= 10
