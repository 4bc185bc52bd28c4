"""Runs of the multiple-queues model: one replication of a point of the parameter space."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from random import Random
from typing import NamedTuple

from koala.lab.papers.multiqueue.simulation.arrivals import StreamJob
from koala.lab.papers.multiqueue.simulation.model import Started, System
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.lab.sim.saturation import Trend, is_saturated, trend
from koala.lab.sim.statistics import mean, means_of_batches, ratio

MORE, MORE_JOBS = 0.1, 1000
"""Arrivals go on until all counted jobs have started, up to this share of all more (or this number,
if it is larger). Then no more jobs come, and waiting jobs are served."""


class Tally:
    """Response times of the counted jobs, by their number among the arrivals."""

    def __init__(self, setting: Setting, *, is_logging: bool = False) -> None:
        counted = setting.jobs - setting.warmup
        self.missing = counted  # that have not started
        self.waiting = array("i")  # jobs that wait when a counted one arrives
        self.started_jobs = 0
        self.responses = array("d", bytes(8 * counted))
        self.kinds = array("H", bytes(2 * counted))
        self.work = 0.0  # processors x service of all that has started
        self.log: list[Started] = []
        self._warmup = setting.warmup
        self._is_logging = is_logging

    def started(self, start: Started) -> None:
        """Record a start; the instant of departure is known with it."""
        job = start.job
        self.started_jobs += 1
        self.work += sum(job.sizes) * job.service
        index = start.number - self._warmup
        if 0 <= index < len(self.responses):
            self.responses[index] = start.at + job.service - job.at
            self.kinds[index] = 2 * start.queue + (len(job.sizes) > 1)
            self.missing -= 1
            if self._is_logging:
                self.log.append(start)


def play(system: System, jobs: Iterator[StreamJob], setting: Setting, tally: Tally) -> Busy:
    """Play arrivals and departures until all counted jobs have started; return the utilisation
    while the counted ones arrived."""
    number, most = 0, setting.jobs + max(MORE_JOBS, round(MORE * setting.jobs))
    job = next(jobs)
    since = until = Busy(0.0, 0.0)
    while number < setting.jobs or (tally.missing and number < most):
        system.depart_until(job.at)
        if setting.warmup <= number < setting.jobs:
            tally.waiting.append(number - tally.started_jobs)
        system.arrive(number, job)
        number += 1
        if number == setting.warmup + 1:
            since = Busy(job.at, tally.work)
        if number == setting.jobs:
            until = Busy(job.at, tally.work)
        job = next(jobs)
    while tally.missing:
        system.depart()
    return Busy(until.time - since.time, until.work - since.work)


class Busy(NamedTuple):
    """A span of time, and the processor time of the jobs that started in it."""

    time: float
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements of one replication.

    - `response`: mean response times by kind of job, nan where there was none.
    - `batches`: for each kind the means of consecutive batches, when asked for.
    - `queues`: mean response times by local queue.
    """

    response: dict[str, float]
    queues: tuple[float, ...]
    batches: dict[str, tuple[float, ...]]
    utilization: float
    trend: Trend
    jobs: tuple[Started, ...] = ()

    @property
    def is_saturated(self) -> bool:
        """True if this replication alone shows saturation."""
        return is_saturated((self.trend,))


def run(
    setting: Setting,
    seed: int,
    *,
    has_batches: bool = False,
    has_jobs: bool = False,
    is_reversed: bool = False,
) -> Run:
    """Run one replication: a function of its arguments. `is_reversed` reverses the order in which
    local queues are visited."""
    tally = Tally(setting, is_logging=has_jobs)
    system = System(
        setting.discipline,
        setting.sites,
        coin=Random(f"{seed}/visiting").random,
        on_start=tally.started,
        ageing=setting.ageing,
        is_reversed=is_reversed,
    )
    busy = play(system, setting.stream.jobs(seed), setting, tally)
    found = {
        name: [*compress(tally.responses, map(frozenset(kinds).__contains__, tally.kinds))]
        for name, kinds in kinds_of(setting).items()
    }
    means = {name: mean(values) for name, values in found.items()}
    return Run(
        response={name: means[name] for name in KINDS},
        queues=tuple(means[name] for name in found if name not in KINDS),
        batches={
            name: tuple(means_of_batches(found[name])) if has_batches else () for name in KINDS
        },
        utilization=ratio(busy.work, busy.time * sum(setting.sites)),
        trend=trend(tally.waiting),
        jobs=tuple(sorted(tally.log)),
    )


KINDS = ("all", "local", "global", "single", "multi")
"""Kinds of jobs whose response times are counted separately: by queue, and by number of
components."""


def kinds_of(setting: Setting) -> dict[str, tuple[int, ...]]:
    """Return the codes of `Tally.kinds` for each kind of job, and for each local queue if there are
    any."""
    sites = len(setting.sites)
    whole = {
        "all": tuple(range(2 * sites + 2)),
        "local": tuple(range(2 * sites)),
        "global": (2 * sites, 2 * sites + 1),
        "single": tuple(range(0, 2 * sites + 2, 2)),
        "multi": tuple(range(1, 2 * sites + 2, 2)),
    }
    count = sites if setting.discipline.has_local else 0
    return whole | {f"queue {site}": (2 * site, 2 * site + 1) for site in range(count)}
