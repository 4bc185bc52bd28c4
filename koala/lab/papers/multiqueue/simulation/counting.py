"""Several runs of a point of the multiple-queues model, and their combined result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from koala.lab.papers.multiqueue.simulation.model import Started
from koala.lab.papers.multiqueue.simulation.runs import KINDS, Run, run
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.lab.sim.saturation import is_saturated
from koala.lab.sim.statistics import Interval, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A run to make."""

    setting: Setting
    seed: int
    has_batches: bool
    has_jobs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPoint:
    """A setting and its finished replications."""

    setting: Setting
    runs: tuple[Run, ...]

    def response(self, kind: str) -> Interval:
        """Return the mean response time of a kind of job, over replications, or over batches of
        one."""
        if len(self.runs) > 1:
            return interval([run.response[kind] for run in self.runs])
        (one,) = self.runs
        return replace(interval(one.batches[kind]), mean=one.response[kind])

    @property
    def queues(self) -> tuple[Interval, ...]:
        """Return the mean response time at each local queue."""
        return tuple(
            interval(values) for values in zip(*(r.queues for r in self.runs), strict=True)
        )

    @property
    def is_saturated(self) -> bool:
        """True if it cannot keep up with its load."""
        return is_saturated([run.trend for run in self.runs])

    @property
    def unserved(self) -> Interval:
        """Share of the arrivals by which the queues grow; about 0 when they do not."""
        return interval([run.trend.growth for run in self.runs])

    @property
    def utilization(self) -> Interval:
        """Utilisation of the processors."""
        return interval([run.utilization for run in self.runs])

    @property
    def jobs(self) -> tuple[Started, ...]:
        """Counted jobs of the first replication, if they were asked for."""
        return self.runs[0].jobs

    def document(self) -> dict[str, Any]:
        """Return the document for JSON. `utilization` is the offered gross load, as in the
        paper."""
        setting = self.setting
        return {
            "policy": setting.policy,
            **{name: list(getattr(setting, name)) for name in ("mix", "split", "sizes")},
            "q": setting.q,
            "sites": list(setting.sites),
            "service_cv": setting.service_cv,
            "ageing": setting.ageing if isfinite(setting.ageing) else None,
            "jobs": setting.jobs,
            "warmup": setting.warmup,
            "replications": len(self.runs),
            "response": {
                **{kind: self.response(kind).document() for kind in KINDS},
                "queues": [queue.document()["mean"] for queue in self.queues],
                "queues_ci95": [queue.document()["ci95"] for queue in self.queues],
            },
            "utilization": setting.utilization,
            "measured_utilization": self.utilization.document(),
            "saturated": self.is_saturated,
            "unserved": self.unserved.document(),
        }


def items_of(settings: Sequence[Setting], seeds: Sequence[int], *, has_jobs: bool) -> list[Item]:
    """List every setting with every seed. Equal seeds give equal jobs, so differences between
    policies are not differences between job streams."""
    return [
        Item(
            setting=setting,
            seed=seed,
            has_batches=len(seeds) == 1,
            has_jobs=has_jobs and seed == seeds[0],
        )
        for seed in seeds
        for setting in settings
    ]


def points_of(
    settings: Iterable[Setting], made: Iterable[tuple[Item, Run]]
) -> tuple[SimulatedPoint, ...]:
    """Collect the finished runs of each setting that has any."""
    finished: dict[Setting, list[Run]] = {}
    for item, result in made:
        finished.setdefault(item.setting, []).append(result)
    return tuple(
        SimulatedPoint(setting=one, runs=tuple(finished[one]))
        for one in settings
        if one in finished
    )


def run_item(item: Item) -> Run:
    """Make one run, in any process."""
    return run(item.setting, item.seed, has_batches=item.has_batches, has_jobs=item.has_jobs)
