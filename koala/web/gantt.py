"""Course of a job over its components, from submission to end, as bars in per cent. Pure.

A claim's bar has three parts: asked for, held at the barrier, and running. Parts of attempts that
were given up are wasted. Claims of every attempt are there, as far as the document has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koala.web.cells import duration

Document = Mapping[str, Any]
SPAN_MIN_S = 0.05
NEAR = 1.2
"""Marks closer than this, in per cent, are one."""
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Part of a row: its kind, its place and width in per cent, and what it says."""

    kind: str
    left: str
    width: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A component at a site in one attempt."""

    label: str
    site: str
    attempt: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A tick of the axis, or one of the points A to E."""

    left: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Rows over one axis. `marks` are the points A to E of figure 1 of the KOALA paper."""

    rows: tuple[Row, ...]
    ticks: tuple[Mark, ...]
    marks: tuple[Mark, ...]
    summary: str


class _Scale:
    def __init__(self, first_at: float, last_at: float) -> None:
        self.first_at = first_at
        self.span_s = max(SPAN_MIN_S, last_at - first_at)

    def percent(self, at: float) -> float:
        return max(0.0, min(100.0, 100 * (at - self.first_at) / self.span_s))

    def bar(self, kind: str, since: float, until: float, text: str) -> Bar:
        left, right = self.percent(since), self.percent(until)
        words = f"{text}: {duration(max(0.0, until - since))}"
        return Bar(
            kind=kind, left=f"{left:.3f}%", width=f"{max(0.15, right - left):.3f}%", text=words
        )


def gantt(job: Document, now_at: float) -> Gantt:
    """Lay out the course of a job by its document."""
    timeline = job["timeline"]
    first_at = timeline["submitted_at"]
    last_at = timeline["ended_at"] or max(now_at, first_at)
    for claim in job["charges"]:
        last_at = max(last_at, claim["ended_at"] or claim["passed_at"] or first_at)
    scale = _Scale(first_at, last_at)
    rows = [*_rows(job, scale, last_at)]
    points = (
        ("A", timeline["submitted_at"]),
        ("B", timeline["placed_at"]),
        ("C", timeline["claimed_at"]),
        ("D", timeline["started_at"]),
        ("E", timeline["ended_at"]),
    )
    marks: list[tuple[float, str]] = []
    for letter, at in points:
        if at is None:
            continue
        place = scale.percent(at)
        if marks and place - marks[-1][0] < NEAR:
            marks[-1] = (marks[-1][0], marks[-1][1] + letter)
        else:
            marks.append((place, letter))
    return Gantt(
        rows=tuple(rows),
        ticks=_ticks(scale),
        marks=tuple(Mark(left=f"{place:.3f}%", text=text) for place, text in marks),
        summary=f"{job['job']} over {duration(scale.span_s)}",
    )


def _rows(job: Document, scale: _Scale, last_at: float) -> list[Row]:
    labels = {part["component"]: part["label"] for part in job["parts"]}
    claims = [(*_numbers(claim["claim"]), claim) for claim in job["charges"]]
    claims.sort(key=lambda one: one[:3])
    rows: dict[tuple[int, int, str], list[Bar]] = {}
    for attempt, component, _, claim in claims:
        key = (attempt, component, claim["site"])
        rows.setdefault(key, []).extend(_claim_bars(claim, scale, last_at))
    present = {(component, site) for _, component, site in rows}
    for part in job["parts"]:  # claims that were asked for and not granted yet have no charge
        if part["site"] and (part["component"], part["site"]) not in present:
            rows[job["attempts"], part["component"], part["site"]] = []
    for (attempt, component, site), bars in rows.items():
        if attempt == job["attempts"]:
            bars[:0] = _transfer_bars(job, labels.get(component, ""), site, scale, last_at)
    return [
        Row(
            label=labels.get(component, str(component)),
            site=site,
            attempt=attempt,
            bars=tuple(bars),
        )
        for (attempt, component, site), bars in sorted(rows.items())
    ]


def _numbers(claim: str) -> tuple[int, int, int]:
    """Attempt, component and number from a claim's id, as j1/2/0/1."""
    parts = claim.split("/")[1:]
    attempt, component, number = (int(part) for part in parts[:3])
    return attempt, component, number


def _claim_bars(claim: Document, scale: _Scale, last_at: float) -> list[Bar]:
    is_wasted = claim["wasted_s"] > 0
    granted_at, passed_at, ended_at = claim["granted_at"], claim["passed_at"], claim["ended_at"]
    until = last_at if ended_at is None else ended_at
    bars = [scale.bar("claiming", claim["asked_at"], granted_at or until, "claiming")]
    if granted_at is not None:
        kind = "wasted" if is_wasted else "barrier"
        words = "held, given up" if is_wasted else "held at the barrier"
        bars.append(scale.bar(kind, granted_at, passed_at or until, words))
    if passed_at is not None:
        kind = "wasted" if is_wasted else "running"
        bars.append(scale.bar(kind, passed_at, until, "ran, given up" if is_wasted else "running"))
    return bars


def _transfer_bars(
    job: Document, label: str, site: str, scale: _Scale, last_at: float
) -> list[Bar]:
    bars = []
    for transfer in job.get("transfers", ()):
        if label in transfer["components"] and transfer["target"] == site:
            ended_at = transfer["told_at"] if transfer["is_done"] else last_at
            words = f"{transfer['file']} from {transfer['source']}"
            started_at = transfer["started_at"]
            bars.append(scale.bar("transfer", started_at, ended_at or last_at, words))
    return bars


def _ticks(scale: _Scale) -> tuple[Mark, ...]:
    return tuple(
        Mark(left=f"{100 * at / scale.span_s:.3f}%", text="0" if at == 0 else duration(at))
        for at in tick_places(scale.span_s)
    )


def tick_places(span: float, most: int = 6) -> Sequence[float]:
    """Round places from 0 to `span`, at most `most` and the first."""
    unit = 10.0**-6
    while True:
        for step in _STEPS:
            if span / (step * unit) <= most:
                size = step * unit
                return [index * size for index in range(int(span / size) + 1)]
        unit *= 10
