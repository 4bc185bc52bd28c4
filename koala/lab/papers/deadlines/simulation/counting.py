"""Counters of a run, and the paper's metrics from them (Deadlines 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from koala.core.model.values import Instant, Seconds
from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.sim.statistics import Interval, intervals, percent, ratio

METRICS = (
    *("success_rate", "local_kill_rate", "total_load", "global_load", "local_load"),
    *("wasted", "local_response"),
)


class Outcome(NamedTuple):
    """Outcome of one job. A local job has no deadline and one site; `started_at` is None for one
    that never ran; `tries` counts a global job's tries."""

    kind: str  # global or local
    job: int  # in order of arrival, each kind for itself
    submitted_at: Instant
    deadline_at: Instant | None
    components: int
    processors: int  # of each component
    run_s: Seconds
    sites: tuple[int, ...]
    claimed_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    tries: int
    outcome: str  # started, failed; completed, killed


Record = Callable[[Outcome], None]
"""Receives the outcome of each job as soon as it is certain."""


class Tally(NamedTuple):
    """Counts up to an instant, or over a span. Areas are processor-seconds."""

    seconds: float
    deadlines: int
    successes: int
    submitted: int
    killed: int
    completed: int
    response_s: float
    local_area: float
    global_area: float
    claimed_area: float
    waiting: int  # local jobs in queues (over a span: their growth)

    def less(self, other: Tally) -> Tally:
        """Return the counts between `other` and this."""
        return Tally._make(a - b for a, b in zip(self, other, strict=True))

    def plus(self, other: Tally) -> Tally:
        """Add two spans."""
        return Tally._make(a + b for a, b in zip(self, other, strict=True))

    def metrics(self, processors: int) -> dict[str, float]:
        """Compute the paper's metrics (Deadlines 2.3); rates and loads in percent."""
        share = 100 / (self.seconds * processors)
        return {
            "success_rate": percent(self.successes, self.deadlines),
            "local_kill_rate": percent(self.killed, self.submitted),
            "total_load": share * (self.local_area + self.global_area + self.claimed_area),
            "global_load": share * self.global_area,
            "local_load": share * self.local_area,
            "wasted": share * self.claimed_area,
            "local_response": ratio(self.response_s, self.completed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Metrics of all replications, or of the batches of one run."""

    metrics: dict[str, Interval]
    is_saturated: bool
    deadlines: int
    local_jobs: int

    def document(self) -> dict[str, Any]:
        """Return the document for JSON."""
        return {
            **{name: self.metrics[name].document() for name in METRICS},
            "saturated": self.is_saturated,
            "deadlines": self.deadlines,
            "local_jobs": self.local_jobs,
        }


GROWTH_MAX = 0.01
"""Local queues are unstable if they keep more than this share of what is submitted."""
GROWTH_JOBS_MIN = 100


def summarize(setting: Setting, runs: Sequence[Sequence[Tally]]) -> Summary:
    """Compute means over replications, each a list of batches; of one replication, batch means."""
    processors = sum(setting.sites)
    wholes = [reduce(Tally.plus, batches) for batches in runs]
    whole = reduce(Tally.plus, wholes)
    parts = wholes if len(wholes) > 1 else runs[0]
    metrics = intervals([tally.metrics(processors) for tally in parts], METRICS)
    if parts is not wholes:
        means = whole.metrics(processors)
        metrics = {name: replace(found, mean=means[name]) for name, found in metrics.items()}
    limit = max(GROWTH_JOBS_MIN * len(wholes), GROWTH_MAX * whole.submitted)
    return Summary(
        metrics=metrics,
        is_saturated=whole.waiting > limit,
        deadlines=whole.deadlines,
        local_jobs=whole.submitted,
    )
