"""Runs of the multiple-queues paper: one policy in one case at one utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import fmean

from koala.lab.papers.multiqueue.simulation import runs
from koala.lab.papers.multiqueue.simulation.model import Started
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.lab.sim.runs import Outcome, Run
from koala.lab.sim.saturation import Trend, is_saturated
from koala.lab.sim.statistics import mean

WARMUP = 0.25
"""Share of a run that does not count; it begins empty."""

GROWTH = 0.005
"""Least share of the arrivals that is never served in a saturated system. A short run just below
the maximum fills all the time; this many are more than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Case: a job-stream composition and the spread of local jobs (Multiple queues, table 1)."""

    mix: tuple[int, int, int, int]
    is_balanced: bool = True

    @property
    def split(self) -> tuple[int, int, int, int]:
        """Percentages of local jobs by queue; with LS those are all jobs."""
        return (25, 25, 25, 25) if self.is_balanced else (40, 20, 20, 20)

    @property
    def multi(self) -> float:
        """Share of jobs with several components."""
        return 1 - self.mix[0] / 100

    def __str__(self) -> str:
        return f"({','.join(map(str, self.mix))})" + ("" if self.is_balanced else " unbalanced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting of this paper to run. `length` is the share of the effort's jobs."""

    policy: str
    case: Case
    utilization: float
    length: float = 1.0
    ageing: float | None = None
    has_large: bool = False
    """If True, large jobs are counted separately."""
    is_reversed: bool = False
    """If True, the local queues are visited in reverse."""

    def __str__(self) -> str:
        ageing = f", ageing {self.ageing:g}" if self.ageing is not None else ""
        order = ", local queues reversed" if self.is_reversed else ""
        return f"{self.policy} {self.case} at {self.utilization:.3f}{ageing}{order}"


def run(one: Run) -> Outcome:
    """Run one replication of one point."""
    point = one.setting
    if not isinstance(point, Point):
        message = f"{point!r} is not a point of this paper"
        raise TypeError(message)
    jobs = round(point.length * one.effort.length)
    found = runs.run(
        Setting(
            policy=point.policy,
            mix=point.case.mix,
            split=point.case.split,
            utilization=point.utilization,
            jobs=jobs,
            warmup=round(WARMUP * jobs),
            ageing=inf if point.ageing is None else point.ageing,
        ),
        one.seed,
        has_jobs=point.has_large,
        is_reversed=point.is_reversed,
    )
    values = {f"response.{kind}": mean for kind, mean in found.response.items()}
    values |= {f"delay.{kind}": mean for kind, mean in found.response.items()}
    values |= {f"response.queue{number}": mean for number, mean in enumerate(found.queues, start=1)}
    values |= {
        "trend.score": found.trend.score,
        "trend.windows": found.trend.windows,
        "trend.growth": found.trend.growth,
    }
    if point.has_large:
        values |= large(found.jobs)
    return Outcome(values=values, is_saturated=found.is_saturated)


def large(jobs: Sequence[Started]) -> dict[str, float]:
    """Compute mean response times of the tenth of the single- and of the multi-component jobs that
    need most processors; the seed alone decides which jobs those are."""
    found: dict[str, float] = {}
    for kind, is_multi in (("single", False), ("multi", True)):
        of_kind = [one for one in jobs if (len(one.job.sizes) > 1) is is_multi]
        largest = sorted(of_kind, key=lambda one: (-sum(one.job.sizes), one.number))
        responses = [
            one.at + one.job.service - one.job.at for one in largest[: ceil(len(largest) / 10)]
        ]
        found[f"response.large-{kind}"] = mean(responses)
    return found


def saturation(outcomes: Sequence[Outcome]) -> bool:
    """Judge saturation as `koala simulate multiqueue` does, from all replications together, but for
    GROWTH."""
    trends = [_trend(outcome) for outcome in outcomes]
    return is_saturated(trends) and fmean(trend.growth for trend in trends) > GROWTH


def _trend(outcome: Outcome) -> Trend:
    return Trend(
        score=round(outcome.values["trend.score"]),
        windows=round(outcome.values["trend.windows"]),
        growth=outcome.values["trend.growth"],
    )
