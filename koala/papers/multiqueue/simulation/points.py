"""Several runs of a point of the multiple-queues model, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from koala.papers.multiqueue.simulation.model import Started
from koala.papers.multiqueue.simulation.runs import KINDS, Run, Setting, run
from koala.sim.replication import Progress, replicate
from koala.sim.saturation import is_saturated
from koala.sim.statistics import Interval, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A run to be made."""

    setting: Setting
    seed: int
    has_batches: bool
    has_jobs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting and its finished replications."""

    setting: Setting
    runs: tuple[Run, ...]

    def response(self, kind: str) -> Interval:
        """The mean response time of a kind of job, over replications, or over batches of one."""
        if len(self.runs) > 1:
            return interval([run.response[kind] for run in self.runs])
        (one,) = self.runs
        batches = interval(one.batches[kind])
        return Interval(mean=one.response[kind], ci95=batches.ci95, values=batches.values)

    @property
    def queues(self) -> tuple[Interval, ...]:
        """The mean response time at each local queue."""
        return tuple(
            interval(values) for values in zip(*(r.queues for r in self.runs), strict=True)
        )

    @property
    def is_saturated(self) -> bool:
        """Whether it cannot keep up with its load."""
        return is_saturated([run.trend for run in self.runs])

    @property
    def unserved(self) -> Interval:
        """The share of the arrivals by which the queues grow; about 0 when they do not."""
        return interval([run.trend.growth for run in self.runs])

    @property
    def utilization(self) -> Interval:
        """How busy the processors were."""
        return interval([run.utilization for run in self.runs])

    @property
    def jobs(self) -> tuple[Started, ...]:
        """The counted jobs of the first replication, if they were asked for."""
        return self.runs[0].jobs

    def document(self) -> dict[str, Any]:
        """For JSON. `utilization` is the offered gross load, as in the paper."""
        setting = self.setting
        return {
            "policy": setting.policy,
            "mix": list(setting.mix),
            "split": list(setting.split),
            "sizes": list(setting.sizes),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The points of which at least one replication is finished; all unless `is_interrupted`."""

    points: tuple[Point, ...]
    is_interrupted: bool


def sweep(
    settings: Sequence[Setting],
    *,
    seeds: Sequence[int],
    workers: int = 0,
    has_jobs: bool = False,
    progress: Progress | None = None,
) -> Swept:
    """Every setting with every seed: equal seeds give equal jobs, so that differences between
    policies are not differences between job streams."""
    items = [
        Item(
            setting=setting,
            seed=seed,
            has_batches=len(seeds) == 1,
            has_jobs=has_jobs and seed == seeds[0],
        )
        for seed in seeds
        for setting in settings
    ]
    made = replicate(run_item, items, workers=workers, progress=progress)
    finished: dict[Setting, list[Run]] = {}
    for item, result in made.finished:
        finished.setdefault(item.setting, []).append(result)
    points = [
        Point(setting=setting, runs=tuple(finished[setting]))
        for setting in settings
        if setting in finished
    ]
    return Swept(points=tuple(points), is_interrupted=made.is_interrupted)


def run_item(item: Item) -> Run:
    """One run, in whatever process."""
    return run(item.setting, item.seed, has_batches=item.has_batches, has_jobs=item.has_jobs)
