"""Runs of the hints paper: points of its figure, and two policies on the same jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from koala.core.model.values import Seconds
from koala.lab.papers.hints.simulation.counting import KINDS, metrics
from koala.lab.papers.hints.simulation.run import JobRecord, RunRecord, simulate
from koala.lab.papers.hints.simulation.setting import SITES, Setting, SiteSetting
from koala.lab.sim.runs import Level, Outcome, Quantity, Run, changes
from koala.lab.sim.statistics import mean

POLICIES = ("NoNetwork", "PreferLocal", "Service")
FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Shares of I/O-bound jobs: the x axis of figure 2, right side."""
USUAL = 0.2
"""Share of I/O-bound jobs on the left side of figure 2 (Hints 5.3)."""
HEAVY, INSIDE, LIGHT = 0.00045, 0.0004, 0.0003
"""Jobs a second. CPU-bound jobs alone ask for 11,250 MIPS, 10,000 and 7,500; those that insist on
their preferred rate can use 10,600."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of what the paper leaves open; the defaults are ours."""

    rate: float = HEAVY
    vpn_mbps: float = 6.0
    accept: float = 0.5
    preferred_mips: float = 1000.0
    blocks: int = 0
    round_s: Seconds = 0.0
    link_share: float = 1.0  # of each site's own link
    jobs_share: float = 1.0  # of the length of a run

    def setting(self, policy: str, io_fraction: float, jobs: float) -> Setting:
        """Return the simulator's setting."""
        return Setting(
            policy=policy,
            io_fraction=io_fraction,
            rate=self.rate,
            vpn_mbps=self.vpn_mbps,
            accept=self.accept,
            preferred_mips=self.preferred_mips,
            blocks=self.blocks,
            round_s=self.round_s,
            sites=tuple(_with_link(site, self.link_share) for site in SITES),
            jobs=max(1, round(jobs * self.jobs_share)),
        )

    def __str__(self) -> str:
        return changes(self, "g")


def _with_link(site: SiteSetting, share: float) -> SiteSetting:
    return replace(site, link_mbps=site.link_mbps * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLevel(Level):
    """A level, or a reading, at which claims are judged."""

    reading: Reading


def _reading(name: str, reading: Reading) -> ReadLevel:
    return ReadLevel(name=name, is_near=True, reading=reading)


LEVELS = (
    ReadLevel(name="light load", reading=Reading(rate=LIGHT)),
    ReadLevel(name="inside capacity", reading=Reading(rate=INSIDE)),
    ReadLevel(name="heavy load", is_near=True, reading=Reading()),
)
READINGS = (
    _reading("3 Mb/s between sites", Reading(vpn_mbps=3.0)),
    _reading("12 Mb/s between sites", Reading(vpn_mbps=12.0)),
    _reading("half of each site's own link", Reading(link_share=0.5)),
    _reading("a quarter accepted", Reading(accept=0.25)),
    _reading("three quarters accepted", Reading(accept=0.75)),
    _reading("800 MIPS preferred", Reading(preferred_mips=800.0)),
    _reading("data staged (1 block)", Reading(blocks=1)),
    _reading("10 blocks", Reading(blocks=10)),
    _reading("rounds every 1000 s", Reading(round_s=1000.0)),
    _reading("0.0006 jobs/s", Reading(rate=0.0006)),
    _reading("0.0009 jobs/s", Reading(rate=0.0009)),
    _reading("three times the jobs", Reading(jobs_share=3.0)),
)
"""Other readings; each differs from the default only in what it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One policy at one share of I/O-bound jobs."""

    policy: str
    io_fraction: float = USUAL
    reading: Reading = Reading()

    def __str__(self) -> str:
        return f"{self.policy}, {100 * self.io_fraction:g} % I/O, {self.reading}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two policies on the same jobs; only jobs that the first ran below their preferred rate
    count."""

    policy: str
    other: str
    io_fraction: float = USUAL
    reading: Reading = Reading()

    def __str__(self) -> str:
        return f"{self.policy} and {self.other}, {100 * self.io_fraction:g} % I/O, {self.reading}"


def run(one: Run) -> Outcome:
    """Make one run of either kind."""
    setting = one.setting
    assert isinstance(setting, Point | Compared), setting
    if isinstance(setting, Point):
        return Outcome(values=_measured(setting, one))
    return Outcome(values=_compared(setting, one))


def _measured(point: Point, one: Run) -> dict[str, float]:
    setting = point.reading.setting(point.policy, point.io_fraction, one.effort.length)
    found = simulate(setting, one.seed)
    values = metrics(setting, found)
    for kind, is_of in KINDS.items():
        jobs = [job for job in found.jobs if job.site is not None and is_of(job)]
        values[f"stretch.{kind}"] = mean(_stretch(setting, job) for job in jobs)
    busiest = [name for name in values if name.startswith("links.")]
    values["busiest_link"] = max(values[name] for name in busiest)
    return values


def _stretch(setting: Setting, job: JobRecord) -> float:
    """Ratio of the run time to the run time expected from its processing power alone."""
    predicted_s = setting.kind(is_io=job.is_io).length_mi / job.mips
    return (job.ended_at - job.placed_at) / predicted_s


def _compared(pair: Compared, one: Run) -> dict[str, float]:
    """Compare the same CPU-bound jobs under both policies."""
    runs = []
    for policy in (pair.policy, pair.other):
        setting = pair.reading.setting(policy, pair.io_fraction, one.effort.length)
        runs.append((setting, simulate(setting, one.seed)))
    (setting, first), (_, other) = runs
    slow = [
        job.number
        for job in first.jobs
        if not job.is_io and job.site is not None
        and job.mips < setting.preferred_mips * (1 - 1e-9)
    ]  # fmt: skip
    return {
        "response": mean(_responses(first, slow)),
        "other_response": mean(_responses(other, slow)),
        "rate": mean(first.jobs[number].mips / setting.preferred_mips for number in slow),
    }


def _responses(found: RunRecord, numbers: Sequence[int]) -> list[float]:
    return [found.jobs[number].response_s for number in numbers]


# Names of quantities.


def response(
    policy: str, io_fraction: float = USUAL, reading: Reading | None = None, kind: str = "all"
) -> Quantity:
    """Return a mean response time."""
    return of(policy, f"response.{kind}", io_fraction, reading)


def of(
    policy: str, metric: str, io_fraction: float = USUAL, reading: Reading | None = None
) -> Quantity:
    """Return any metric."""
    point = Point(policy=policy, io_fraction=io_fraction, reading=reading or Reading())
    return Quantity(point, metric, f"{metric} of {policy}, {100 * io_fraction:g} %")


def reading_of(level: Level) -> Reading:
    """Return the reading of the paper at a level."""
    assert isinstance(level, ReadLevel), level
    return level.reading
