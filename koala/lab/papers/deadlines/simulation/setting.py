"""Parameters of a run of the deadlines paper's simulation (Deadlines 2.1, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from koala.common.runtime.option_values import Bounds, bounds, pair, site_sizes
from koala.core.model.values import Seconds
from koala.lab.sim.options import (
    Declared,
    choice,
    flag,
    number,
    policy,
    require,
    require_declared,
    text,
)
from koala.lab.workload.distributions import SizeDistribution


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
        bounds=Bounds(above=0, high=1),
    )
    tries_max: int = number(
        10, "Mp: tries 0 to Mp are made.", name="mp", bounds=Bounds(low=0, below=inf)
    )
    wait_s: Seconds = number(
        inf,
        "Wait-X: ignore a job until so long before its deadline; inf: never.",
        bounds=Bounds(low=0),
        given=10.0,
    )
    local_load: float = number(
        0.3, "Offered load of local users; 1 is all processors.", bounds=Bounds(low=0, below=inf)
    )
    global_load: float = number(
        0.2, "Offered load of global jobs, likewise.", bounds=Bounds(low=0, below=inf)
    )
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
        bounds=Bounds(above=0, high=1),
    )
    is_uniform: bool = flag("Draw global sizes uniformly, not of D(q).", name="uniform-sizes")
    global_run_s: Seconds = number(
        200.0, "Mean run time of global jobs.", bounds=Bounds(above=0, below=inf)
    )
    local_run_s: Seconds = number(
        100.0, "Mean run time of local jobs.", bounds=Bounds(above=0, below=inf)
    )
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
    time_s: Seconds = number(
        3_000_000.0, "Simulated time, the warm-up included.", bounds=Bounds(above=0, below=inf)
    )
    warmup_s: Seconds = number(
        300_000.0, "Simulated time that is not counted.", bounds=Bounds(low=0, below=inf)
    )

    def __post_init__(self) -> None:
        require_declared(self)
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
        text = "0 <= warm-up < time"
        require(self.warmup_s < self.time_s, "time", self.time_s, text)

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


SIMULATION = Declared.of(Setting)
