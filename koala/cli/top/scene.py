"""Facts that `koala top` shows, as one value, and the order of its jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from koala.cli.top.state import Order, TopState
from koala.views.cells import search_text
from koala.views.records.base import seconds_of
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import Explanation, JobDetails, JobSummary
from koala.views.records.phases import PHASES, TERMINAL_PHASES


@dataclass(frozen=True, slots=True, kw_only=True)
class TopScene:
    """The newest answers of the daemon. `trouble` is empty while it answers.

    `job` and `why` are about the chosen job in the views that show them, and `log` are
    the last lines of its programs."""

    address: str
    user: str
    now_at: float
    sites: Sequence[SiteStatus] = ()
    jobs: Sequence[JobSummary] = ()
    known: int = 0
    trouble: str = ""
    job: JobDetails | None = None
    why: Explanation | None = None
    log: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def counts(jobs: Iterable[JobSummary]) -> dict[str, int]:
    """Count jobs by phase, in the order of the pipeline."""
    found: dict[str, int] = dict.fromkeys(PHASES, 0)
    for job in jobs:
        found[job.phase] = found.get(job.phase, 0) + 1
    return {phase: count for phase, count in found.items() if count}


def chosen_jobs(jobs: Iterable[JobSummary], state: TopState, now_at: float) -> list[JobSummary]:
    """Filter and order jobs; they come in the order of their submission."""
    words = state.words.lower().split()
    found = [
        job
        for job in jobs
        if (state.has_ended or job.phase not in TERMINAL_PHASES)
        and (not words or _fits(job, words))
    ]
    found.reverse()
    match state.order:
        case Order.NEWEST:
            found.sort(key=lambda job: job.phase in TERMINAL_PHASES)
        case Order.PHASE:
            found.sort(key=lambda job: _place(job.phase))
        case Order.USER:
            found.sort(key=lambda job: job.owner)
        case Order.SIZE:
            found.sort(key=lambda job: -job.processors)
        case Order.WAIT:
            found.sort(key=lambda job: -waited_s(job, now_at))
    return found


def _place(phase: str) -> int:
    return PHASES.index(phase) if phase in PHASES else 0


def _fits(job: JobSummary, words: Sequence[str]) -> bool:
    text = f"{search_text(job)} {job.phase.lower()}"
    return all(word in text for word in words)


def waited_s(job: JobSummary, now_at: float) -> float:
    """Return the seconds from the submission of a job to its start, its end, or now."""
    until = seconds_of(job.started_at or job.ended_at)
    return max(0.0, (now_at if until is None else until) - float(job.submitted_at))
