"""Metrics of the papers, computed from the core's own records: nothing is measured twice.

Placement time and start delay are those of the last placement (readings of KOALA, figure 5). A job
that was placed again has waited longer for the placement with which it ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from koala.core.model.job import Finished, Job
from koala.core.model.values import Instant, JobId, Seconds
from koala.lab.sim.statistics import mean, percent
from koala.views.documents import timeline
from koala.views.records.base import seconds_of

SLOWDOWN_BOUND_S = 10.0
"""Jobs shorter than this count as if they had run so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Record of a grid job, one line. Names with `processor` are in processor-seconds; None: never
    happened."""

    job: JobId
    phase: str
    priority: str
    processors: int
    components: int
    file_bytes: int
    sites: tuple[str, ...]  # of the last placement, one a component
    submitted_at: Instant
    placed_at: Instant | None
    claimed_at: Instant | None
    start_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    attempts: int
    failures: int
    preemptions: int
    placement_tries: int
    claiming_tries: int
    processor_gained_s: float
    processor_wasted_s: float
    processor_run_s: float
    start_delay_s: Seconds | None
    start_lateness_s: Seconds | None
    sizes: tuple[tuple[Instant, int], ...] = ()
    """Processors of a malleable job over time: from when, and how many."""

    @property
    def is_finished(self) -> bool:
        """True if it ended well."""
        return self.phase == Finished.__name__

    @property
    def is_coallocated(self) -> bool:
        """True if its last placement was on more than one site (KOALA, figure 4)."""
        return len(dict.fromkeys(self.sites)) > 1

    @property
    def placement_s(self) -> Seconds | None:
        """Time from submission to the last placement (KOALA, figure 5 a)."""
        return None if self.placed_at is None else self.placed_at - self.submitted_at

    @property
    def waiting_s(self) -> Seconds | None:
        """Time from submission to the start with which it ran (TWT)."""
        return None if self.started_at is None else self.started_at - self.submitted_at

    @property
    def response_s(self) -> Seconds | None:
        """Time from submission to the end."""
        return None if self.ended_at is None else self.ended_at - self.submitted_at

    @property
    def running_s(self) -> Seconds | None:
        """Time from the start with which it ran to its end."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    @property
    def mean_processors(self) -> float | None:
        """Mean over the time that it ran, of a malleable job that has ended."""
        if not self.sizes or self.ended_at is None:
            return None
        ends = [*[at for at, _ in self.sizes[1:]], self.ended_at]
        spans = [(until - at, size) for (at, size), until in zip(self.sizes, ends, strict=True)]
        running_s = sum(span_s for span_s, _ in spans)
        return sum(span_s * size for span_s, size in spans) / running_s if running_s else None

    @property
    def bounded_slowdown(self) -> float | None:
        """Response time divided by the run time or 10 s, the larger one; at least 1."""
        if self.running_s is None or self.response_s is None:
            return None
        return max(1.0, self.response_s / max(self.running_s, SLOWDOWN_BOUND_S))

    @property
    def extra_claiming_tries(self) -> int:
        """ACT."""
        return max(0, self.claiming_tries - 1)


DERIVED = ("waiting_s", "running_s", "response_s", "bounded_slowdown")
COLUMNS = (*(field.name for field in fields(JobRecord) if field.name != "sizes"), *DERIVED)


def record_of(job: Job) -> JobRecord:
    """Return the record of a job, as it is now."""
    times = timeline(job)
    attempt = job.attempt
    members = [] if attempt is None else attempt.present
    split = job.spec.split
    return JobRecord(
        job=job.id,
        phase=job.phase_name,
        priority=job.spec.priority.value,
        processors=job.spec.processors if split is None else split.total,
        components=len(job.spec.components),
        file_bytes=sum(file.size_bytes or 0 for file in job.spec.all_inputs),
        sites=tuple(str(member.site) for member in members if member.site is not None),
        attempts=job.attempts,
        failures=job.failures,
        preemptions=job.preemptions,
        placement_tries=job.placement_tries,
        claiming_tries=job.claiming_tries,
        submitted_at=float(times.submitted_at),
        placed_at=seconds_of(times.placed_at),
        claimed_at=seconds_of(times.claimed_at),
        start_at=seconds_of(times.start_at),
        started_at=seconds_of(times.started_at),
        ended_at=seconds_of(times.ended_at),
        processor_gained_s=times.processor_gained_s,
        processor_wasted_s=times.processor_wasted_s,
        processor_run_s=times.processor_run_s,
        start_delay_s=times.start_delay_s,
        start_lateness_s=times.start_lateness_s,
    )


def row(record: JobRecord) -> list[Any]:
    """Return its cells under COLUMNS, for a CSV."""
    return [
        " ".join(value) if isinstance(value, tuple) else "" if value is None else value
        for value in (getattr(record, name) for name in COLUMNS)
    ]


MEASURES: dict[str, str] = {
    "jobs": "jobs that were submitted",
    "finished": "of them, those that ended well",
    "failures_percent": "attempts that a site's fault ended, of those and the good ends",
    "failures_per_job": "attempts that a site's fault ended",
    "preemptions_per_job": "attempts given up for a job of high priority",
    "coallocated_percent": "of the placed jobs, those last placed on more than one site",
    "placement_s": "submission to the last placement",
    "start_delay_s": "last planned start (JST) less the first one",
    "start_lateness_s": "start less the last planned start (JST)",
    "waiting_s": "submission to the start with which it ran (TWT)",
    "response_s": "submission to the end",
    "processor_gained_s": "placed and not yet claimed, processor-seconds in all attempts (PGT)",
    "processor_wasted_s": "claimed and not yet started, processor-seconds in all attempts (PWT)",
    "extra_claiming_tries": "claiming tries beyond the first (ACT)",
    "placement_tries": "placement tries",
    "claiming_tries": "claiming tries",
    "attempts": "placements",
}
"""Measures of a group of jobs and their definitions; means over its jobs unless stated."""

_MEANS = (
    *("placement_s", "start_delay_s", "start_lateness_s", "waiting_s", "response_s"),
    *("processor_gained_s", "processor_wasted_s", "extra_claiming_tries"),
    *("placement_tries", "claiming_tries", "attempts"),
)


def measure(jobs: Iterable[JobRecord]) -> dict[str, float]:
    """Compute the measures of a group of jobs in one run; nan where nothing of the kind
    happened."""
    group = list(jobs)
    finished = sum(record.is_finished for record in group)
    failures = sum(record.failures for record in group)
    placed = [record for record in group if record.sites]
    found = {
        "jobs": float(len(group)),
        "finished": float(finished),
        "failures_percent": percent(failures, failures + finished),
        "failures_per_job": mean(record.failures for record in group),
        "preemptions_per_job": mean(record.preemptions for record in group),
        "coallocated_percent": percent(sum(r.is_coallocated for r in placed), len(placed)),
    }
    for name in _MEANS:
        found[name] = mean(getattr(record, name) for record in group)
    return found
