"""Parameters of a run of the deadlines paper's simulation (Deadlines 2.1, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from koala.core.model.values import Seconds
from koala.sim.option_values import bounds, pair, site_sizes
from koala.sim.options import choice, flag, number, policy, require, text
from koala.workload.distributions import SizeDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment. The defaults are the paper's (Deadlines 3.1); loads are offered
    gross loads, as fractions.
    """

    at_deadline: str = choice(
        "kill",
        {"GP": "kill", "LP": "fail"},
        "GP: at its deadline a job may kill local jobs; LP: it fails.",
        name="policy",
    )
    placement: str = policy("WF", "placement", "Places the components on idle processors:")
    fraction: float = number(
        0.7,
        "Lp: share of the time to the deadline that passes before a try.",
        name="lp",
        above=0,
        high=1,
    )
    tries_max: int = number(10, "Mp: tries 0 to Mp are made.", name="mp", low=0)
    wait_s: Seconds = number(
        inf,
        "Wait-X: ignore a job until so long before its deadline; inf: never.",
        low=0,
        given=10.0,
    )
    local_load: float = number(0.3, "Offered load of local users; 1 is all processors.", low=0)
    global_load: float = number(0.2, "Offered load of global jobs, likewise.", low=0)
    lead_s: tuple[Seconds, Seconds] = text(
        "1:3599",
        pair("LOW:HIGH", "1:3599"),
        "Seconds from submission to deadline; uniform.",
        metavar="LOW:HIGH",
    )
    sites: tuple[int, ...] = text(
        "4x32", site_sizes, "Processors of each site; 4x32: four of 32.", metavar="SIZES"
    )
    components: tuple[int, int] | None = text(
        None,
        bounds,
        "Components of a global job; uniform.",
        unset="2 to the number of sites",
        metavar="LOW:HIGH",
    )
    sizes: tuple[int, int] | None = text(
        None,
        bounds,
        "Processors of a global component.",
        unset="4 to the smallest site",
        metavar="LOW:HIGH",
    )
    local_sizes: tuple[int, int] | None = text(
        None,
        bounds,
        "Processors of a local job.",
        unset="1 to the smallest site",
        metavar="LOW:HIGH",
    )
    q: float = number(
        0.9,
        "q of D(q), of which sizes are drawn; the smaller q, the more small sizes.",
        above=0,
        high=1,
    )
    is_uniform: bool = flag("Draw global sizes uniformly, not of D(q).", name="uniform-sizes")
    global_run_s: Seconds = number(200.0, "Mean run time of global jobs.", above=0)
    local_run_s: Seconds = number(100.0, "Mean run time of local jobs.", above=0)
    is_requeued: bool = choice(
        False,  # noqa: FBT003 - the default
        {"lost": False, "requeue": True},
        "Killed local jobs: lost, or requeue: back to their queue's head.",
        name="killed",
    )
    is_oldest_first: bool = choice(
        False,  # noqa: FBT003 - the default
        {"youngest": False, "oldest": True},
        "Local jobs of a cluster that are killed first.",
        name="victims",
    )
    time_s: Seconds = number(3_000_000.0, "Simulated time, the warm-up included.", above=0)
    warmup_s: Seconds = number(300_000.0, "Simulated time that is not counted.", low=0)

    def __post_init__(self) -> None:
        require(self.at_deadline in ("kill", "fail"), "at deadline", self.at_deadline, "kill, fail")
        require(0 < self.fraction <= 1, "lp", self.fraction, "more than 0, at most 1")
        require(self.tries_max >= 0, "mp", self.tries_max, "0 or more")
        require(self.wait_s >= 0, "wait", self.wait_s, "0 or more, or inf")
        require(0 <= self.local_load < inf, "local load", self.local_load, "0 or more")
        require(0 <= self.global_load < inf, "global load", self.global_load, "0 or more")
        low_s, high_s = self.lead_s
        require(0 <= low_s <= high_s < inf, "lead", self.lead_s, "0 <= shortest <= longest")
        low, high = self.component_bounds
        text = f"1 <= fewest <= most (by default 2 to the number of sites, {len(self.sites)})"
        require(1 <= low <= high, "components", f"{low}:{high}", text)
        smallest = min(self.sites)
        for name, (low, high) in (
            ("sizes", self.size_bounds),
            ("local sizes", self.local_size_bounds),
        ):
            text = f"1 <= lowest <= highest <= {smallest}, the smallest site"
            require(1 <= low <= high <= smallest, name, f"{low}:{high}", text)
        require(0 < self.q <= 1, "q", self.q, "more than 0, at most 1")
        for name, run_s in (("global run", self.global_run_s), ("local run", self.local_run_s)):
            require(0 < run_s < inf, name, run_s, "more than 0")
        text = "0 <= warm-up < time"
        require(0 <= self.warmup_s < self.time_s < inf, "time", self.time_s, text)

    @property
    def component_bounds(self) -> tuple[int, int]:
        """Bounds of the number of components of a global job, which is uniform on them."""
        return self.components or (2, len(self.sites))

    @property
    def size_bounds(self) -> tuple[int, int]:
        """Bounds of the processors of a global component."""
        return self.sizes or (4, min(self.sites))

    @property
    def local_size_bounds(self) -> tuple[int, int]:
        """Bounds of the processors of a local job."""
        return self.local_sizes or (1, min(self.sites))

    @property
    def size_distribution(self) -> SizeDistribution:
        """D(q) of global components."""
        low, high = self.size_bounds
        return SizeDistribution(low=low, high=high, q=self.q)

    @property
    def local_size_distribution(self) -> SizeDistribution:
        """D(q) of local jobs."""
        low, high = self.local_size_bounds
        return SizeDistribution(low=low, high=high, q=self.q)

    @property
    def global_rate(self) -> float:
        """lambda_g: arrivals a second of global jobs."""
        size = sum(self.size_bounds) / 2 if self.is_uniform else self.size_distribution.mean
        job = size * sum(self.component_bounds) / 2 * self.global_run_s
        return self.global_load * sum(self.sites) / job

    def local_rate(self, processors: int) -> float:
        """lambda_l: arrivals a second of local jobs at a cluster with so many processors."""
        return self.local_load * processors / (self.local_size_distribution.mean * self.local_run_s)
