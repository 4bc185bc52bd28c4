"""Runs of the multiple-queues model: a point of the parameter space, and one replication of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from random import Random
from typing import NamedTuple

from koala.common.runtime.option_values import Bounds, bounds, numbers, site_sizes
from koala.core.model.values import FOREVER
from koala.core.model.visiting import Discipline
from koala.lab.papers.multiqueue.simulation.arrivals import JobStream, StreamJob
from koala.lab.papers.multiqueue.simulation.model import Started, System
from koala.lab.sim.options import JOBS_MAX, number, require, require_declared, text
from koala.lab.sim.saturation import Trend, is_saturated, trend
from koala.lab.sim.statistics import mean, means_of_batches, ratio
from koala.lab.workload.distributions import SizeDistribution
from koala.policies import named

SERVICE_CV_MAX = 1000
"""Above it the rarer phase of the service times is too rare for floating-point numbers."""

MORE, MORE_JOBS = 0.1, 1000
"""Arrivals go on until all counted jobs have started, up to this share of all more (or this number,
if it is larger). Then no more jobs come, and waiting jobs are served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point: a policy, a job stream, and the length of the run. Of `jobs` arrivals the first
    `warmup` do not count."""

    policy: str
    mix: tuple[float, ...] = text(
        "25,25,25,25",
        numbers,
        "Shares of the jobs with 1, 2, ... components, of any sum.",
        metavar="SHARE,...",
    )
    split: tuple[float, ...]
    sizes: tuple[int, int] = text(
        "1:8", bounds, "Least and largest size of a component.", metavar="LOW:HIGH"
    )
    q: float = number(
        0.9,
        "q of the size distribution D(q); the smaller q, the more small sizes.",
        bounds=Bounds(above=0, high=1),
    )
    sites: tuple[int, ...] = text(
        "4x32", site_sizes, "Processors of each site; 4x32: four of 32.", metavar="SIZES"
    )
    utilization: float
    jobs: int = number(300_000, "Arrivals of one run.", bounds=Bounds(low=1, high=JOBS_MAX))
    warmup: int = number(
        50_000, "Number of first arrivals that are not counted.", bounds=Bounds(low=0)
    )
    service_cv: float = number(
        1.0,
        "Coefficient of variation of service times (their mean is 1): 0"
        " constant, 1 exponential, more: hyperexponential; not between 0 and 1.",
        bounds=Bounds(low=0, high=SERVICE_CV_MAX),
    )
    ageing: float = number(
        FOREVER,
        "Waiting time, in mean service times, after which a job goes first; inf: never.",
        bounds=Bounds(low=0),
    )

    def __post_init__(self) -> None:
        require_declared(self)
        sites, smallest = len(self.sites), min(self.sites)
        for name, shares in (("mix", self.mix), ("split", self.split)):
            is_right = min(shares) >= 0 and 0 < sum(shares) < FOREVER
            require(is_right, name, _words(shares), "shares, not all of them 0")
        text = f"at most {sites} components: no two of a job share one of the {sites} sites"
        require(not any(self.mix[sites:]), "mix", _words(self.mix), text)
        text = f"a share for each of the {sites} sites"
        require(len(self.split) == sites, "split", _words(self.split), text)
        low, high = self.sizes
        text = f"1 to {smallest}, what the smallest site has"
        require(1 <= low <= high <= smallest, "sizes", f"{low}:{high}", text)
        require(0 < self.utilization < FOREVER, "utilization", self.utilization, "more than 0")
        is_right = self.service_cv == 0 or 1 <= self.service_cv <= SERVICE_CV_MAX
        require(is_right, "service-cv", self.service_cv, f"0, and 1 to {SERVICE_CV_MAX}")
        text = f"0 to {self.jobs - 1}, less than jobs"
        require(0 <= self.warmup < self.jobs, "warmup", self.warmup, text)

    @property
    def discipline(self) -> Discipline:
        """Discipline of the policy."""
        found = named("queueing", self.policy)
        assert isinstance(found, Discipline), self.policy
        return found

    @property
    def stream(self) -> JobStream:
        """Job stream whose offered gross load is the utilisation."""
        sizes = SizeDistribution(low=self.sizes[0], high=self.sizes[1], q=self.q)
        total = sum(self.mix)
        components = sum(n * share for n, share in enumerate(self.mix, start=1)) / total
        rate = self.utilization * sum(self.sites) / (components * sizes.mean)
        return JobStream(
            mix=self.mix, split=self.split, sizes=sizes, rate=rate, service_cv=self.service_cv
        )


def _words(shares: tuple[float, ...]) -> str:
    return ",".join(f"{share:g}" for share in shares)


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
