"""Lay out the barrier of a job's last attempt: arrivals and passes of its components. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from koala.views.cells import milliseconds
from koala.views.records.base import seconds_of
from koala.views.records.jobs import JobDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A component at the barrier. Places are in per cent; empty if it has not come that far."""

    label: str
    site: str
    state: str
    arrived_at: float | None
    passed_at: float | None
    arrived_left: str
    arrived_width: str
    passed_left: str
    passed_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Arrivals from the first check-in on, and passes in milliseconds after the first pass."""

    arrivals: tuple[Arrival, ...]
    first_at: float | None
    released_at: float | None
    start_at: float | None
    skew_s: float | None
    missing: tuple[str, ...]


def barrier(job: JobDetails, now_at: float) -> Barrier:
    """Lay out the barrier of a job."""
    started_at = seconds_of(job.timeline.started_at) or math.inf
    parts = [
        part
        for part in job.parts
        if not part.is_dropped
        and (job.size is None or (seconds_of(part.claimed_at) or math.inf) <= started_at)
    ]  # what joined later met at a barrier of its own
    came = [float(part.claimed_at) for part in parts if part.claimed_at is not None]
    passed = [float(part.passed_at) for part in parts if part.passed_at is not None]
    first_at = min(came, default=None)
    end_at = max(passed) if passed else seconds_of(job.ended_at) or now_at
    span_s = max(1e-3, end_at - first_at) if first_at is not None else 1.0
    first_pass_at = min(passed, default=None)
    skew_s = max(passed) - min(passed) if passed else None
    pass_span_s = max(1e-3, skew_s or 0.0) * 1.1
    arrivals = []
    for part in parts:
        arrived_at, passed_at = seconds_of(part.claimed_at), seconds_of(part.passed_at)
        left = width = passed_left = passed_text = ""
        if arrived_at is not None and first_at is not None:
            begin = 100 * (arrived_at - first_at) / span_s
            until = 100 * ((passed_at or end_at) - first_at) / span_s
            left, width = f"{begin:.3f}%", f"{max(0.4, min(100.0, until) - begin):.3f}%"
        if passed_at is not None and first_pass_at is not None:
            passed_left = f"{100 * (passed_at - first_pass_at) / pass_span_s:.3f}%"
            passed_text = f"+{milliseconds(passed_at - first_pass_at)}"
        state = "passed" if passed_at else "waits" if arrived_at else "missing"
        arrivals.append(
            Arrival(
                label=part.label,
                site=part.site or "",
                state=state,
                arrived_at=arrived_at,
                passed_at=passed_at,
                arrived_left=left,
                arrived_width=width,
                passed_left=passed_left,
                passed_text=passed_text,
            )
        )
    released = [float(at) for at, text in job.story if text.startswith("Releasing")]
    return Barrier(
        arrivals=tuple(arrivals),
        first_at=first_at,
        released_at=released[-1] if released else None,
        start_at=seconds_of(job.timeline.start_at),
        skew_s=skew_s,
        missing=tuple(arrival.label for arrival in arrivals if arrival.state == "missing"),
    )
