"""Parameters of a run of the multiple-queues simulation, and its options: policies and loads, of
which there may be many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from koala.common.runtime.option_values import Bounds, bounds, numbers, site_sizes
from koala.core.model.values import FOREVER
from koala.core.model.visiting import Discipline
from koala.errors import ConfigError
from koala.lab.papers.multiqueue.simulation.arrivals import JobStream
from koala.lab.sim.options import (
    JOBS_MAX,
    Declared,
    Option,
    number,
    policy_name,
    require,
    require_declared,
    text,
)
from koala.lab.workload.distributions import SizeDistribution
from koala.policies import named
from koala.policies.queueing.multiqueue import DISCIPLINES

SERVICE_CV_MAX = 1000
"""Above it the rarer phase of the service times is too rare for floating-point numbers."""


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


POLICIES = "GS, LS-OR|RD|RO|DO, GP, LP-LF|GF|RD, EQ-LF|GF|RD, LQ"


def _policies(_option: str, text: str) -> tuple[str, ...]:
    names = tuple(DISCIPLINES)
    if text.lower() == "all":
        return names
    return tuple(dict.fromkeys(_policy(word.strip()) for word in text.split(",")))


def _policy(name: str) -> str:
    """Check the name of a discipline: built-in (in any case), of another package, or as
    `module:DISCIPLINE`."""
    found = policy_name("policy", "queueing", name)
    if not isinstance(named("queueing", found), Discipline):
        raise ConfigError(
            f"--policy {name} (expected disciplines for several queues"
            f" ({', '.join(DISCIPLINES)}): this simulation has no other queues)"
        )
    return found


SEVERAL = {
    "policies": Option(
        default="LS-DO",
        name="policy",
        help=f"{POLICIES}, or module:DISCIPLINE; several with commas between, or all.",
        metavar="NAME,...",
        words=(*DISCIPLINES, "all"),
        read=_policies,
    ),
    "loads": Option(
        default="0.5",
        name="utilization",
        help="Offered gross load, 1 is all processors; several with commas.",
        metavar="LOAD,...",
        read=numbers,
    ),
    "split": Option(
        default=None,
        help="Shares of the local queues in the jobs, of any sum.",
        metavar="SHARE,...",
        unset="equal ones",
        read=lambda option, text: numbers(option, text) if text else None,
    ),
}


def _settings(
    *,
    policies: tuple[str, ...],
    loads: tuple[float, ...],
    split: tuple[float, ...] | None,
    **values: Any,  # noqa: ANN401
) -> tuple[Setting, ...]:
    values["split"] = split or (1.0,) * len(values["sites"])
    return tuple(
        Setting(policy=name, utilization=load, **values)
        for name in policies
        for load in dict.fromkeys(loads)
    )


SIMULATION = Declared.of(Setting, make=_settings, more=SEVERAL)
