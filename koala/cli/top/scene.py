"""Facts that `koala top` shows, as one value, and the order of its jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koala.cli.top.state import Order, TopState
from koala.client.phases import TERMINAL_PHASES
from koala.views.cells import STAGES, search_text

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopScene:
    """The newest answers of the daemon. `trouble` is empty while it answers.

    `job` and `why` are the documents of the chosen job in the views that show them, and `log` are
    the last lines of its programs."""

    address: str
    user: str
    now_at: float
    sites: Sequence[Document] = ()
    jobs: Sequence[Document] = ()
    known: int = 0
    trouble: str = ""
    job: Document | None = None
    why: Document | None = None
    log: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def counts(jobs: Iterable[Document]) -> dict[str, int]:
    """Count jobs by phase, in the order of the pipeline."""
    found = dict.fromkeys(STAGES, 0)
    for job in jobs:
        found[job["phase"]] = found.get(job["phase"], 0) + 1
    return {phase: count for phase, count in found.items() if count}


def chosen_jobs(jobs: Iterable[Document], state: TopState, now_at: float) -> list[Document]:
    """Filter and order jobs; they come in the order of their submission."""
    words = state.words.lower().split()
    found = [
        job
        for job in jobs
        if (state.has_ended or job["phase"] not in TERMINAL_PHASES)
        and (not words or _fits(job, words))
    ]
    found.reverse()
    phases = list(STAGES)
    match state.order:
        case Order.NEWEST:
            found.sort(key=lambda job: job["phase"] in TERMINAL_PHASES)
        case Order.PHASE:
            found.sort(key=lambda job: phases.index(job["phase"]) if job["phase"] in phases else 0)
        case Order.USER:
            found.sort(key=lambda job: job["owner"])
        case Order.SIZE:
            found.sort(key=lambda job: -job["processors"])
        case Order.WAIT:
            found.sort(key=lambda job: -waited_s(job, now_at))
    return found


def _fits(job: Document, words: Sequence[str]) -> bool:
    text = f"{search_text(job)} {job['phase'].lower()}"
    return all(word in text for word in words)


def waited_s(job: Document, now_at: float) -> float:
    """Return the seconds from the submission of a job to its start, its end, or now."""
    until = job["started_at"] or job["ended_at"] or now_at
    return float(max(0.0, until - job["submitted_at"]))
