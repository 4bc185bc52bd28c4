"""Counters of each Grid QoS task, and the paper's metrics from them (SQ 5.1, 5.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from koala.core.model.values import Instant, Seconds
from koala.lab.sim.statistics import Interval, intervals, mean, ratio

METRICS = ("skew_eq2", "skew_finish", "qos_conformance", "effective_cycles", "acceptance_ratio")
OTHERS = (
    *("skew_eq2_largest", "skew_eq2_first_end"),
    *("conforming_tasks", "synchronous_tasks", "corrections"),
)
"""Metrics under other readings of the same words, and the number of corrections per task."""


class Outcome(NamedTuple):
    """Outcome of one Grid QoS task. A refused task has only the first half of the fields."""

    task: int
    submitted_at: Instant
    demand: float
    duration_s: Seconds
    subtasks: int
    asynchrony_s: Seconds
    deviation_s: Seconds
    machines: tuple[int, ...] = ()
    started_at: Instant | None = None
    first_end_at: Instant | None = None
    last_end_at: Instant | None = None
    cycles: int = 0  # from its start until its last subtask ended
    skew_sum_s: Seconds = 0.0  # of equation (2), over these cycles
    skew_max_s: Seconds = 0.0
    skew_first_end_s: Seconds = 0.0  # in the cycle in which its first subtask ended
    conforming_cycles: int = 0  # pivotal point within the overall deviation window
    synchronous_cycles: int = 0  # within the asynchrony window
    quanta: float = 0.0
    effective_quanta: float = 0.0  # in cycles within the asynchrony window
    corrections: int = 0

    @property
    def is_accepted(self) -> bool:
        """True if the task was admitted."""
        return self.started_at is not None

    @property
    def skew_finish_s(self) -> Seconds:
        """Time between the ends of its first and its last subtask."""
        assert self.first_end_at is not None
        assert self.last_end_at is not None
        return self.last_end_at - self.first_end_at


Record = Callable[[Outcome], None]
Tally = Mapping[str, float]
"""Metrics of one run, by name."""


def tally(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Compute the metrics of a run. Skews are means over the accepted tasks, those of one subtask
    included; ratios are between 0 and 1."""
    accepted = [outcome for outcome in outcomes if outcome.is_accepted]

    def mean_of(values: Callable[[Outcome], float]) -> float:
        return mean(map(values, accepted))

    cycles = sum(one.cycles for one in accepted)
    return {
        "skew_eq2": mean_of(lambda one: one.skew_sum_s / one.cycles),
        "skew_finish": mean_of(lambda one: one.skew_finish_s),
        "qos_conformance": ratio(sum(one.conforming_cycles for one in accepted), cycles),
        "effective_cycles": ratio(
            sum(one.effective_quanta for one in accepted), sum(one.quanta for one in accepted)
        ),
        "acceptance_ratio": ratio(len(accepted), len(outcomes)),
        "skew_eq2_largest": mean_of(lambda one: one.skew_max_s),
        "skew_eq2_first_end": mean_of(lambda one: one.skew_first_end_s),
        "conforming_tasks": mean_of(lambda one: one.conforming_cycles == one.cycles),
        "synchronous_tasks": mean_of(lambda one: one.synchronous_cycles == one.cycles),
        "corrections": mean_of(lambda one: one.corrections),
        "tasks": len(outcomes),
        "accepted": len(accepted),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Metrics of all replications."""

    metrics: dict[str, Interval]
    tasks: int
    accepted: int

    def document(self) -> dict[str, Any]:
        """Return the document for JSON."""
        return {
            **{name: found.document() for name, found in self.metrics.items()},
            "tasks": self.tasks,
            "accepted": self.accepted,
        }


def summarize(runs: Sequence[Tally]) -> Summary:
    """Compute means over replications."""
    return Summary(
        metrics=intervals(runs, METRICS + OTHERS),
        tasks=int(sum(run["tasks"] for run in runs)),
        accepted=int(sum(run["accepted"] for run in runs)),
    )
