"""Parameters of a run of the deadlines paper's simulation (Deadlines 2.1, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from koala.core.model.values import Seconds
from koala.errors import ConfigError
from koala.workload.distributions import SizeDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment. The defaults are the paper's (Deadlines 3.1); loads are offered
    gross loads, as fractions.
    """

    at_deadline: str = "kill"  # the paper's GP; "fail" is its LP
    fraction: float = 0.7  # Lp
    tries_max: int = 10  # Mp: tries 0..Mp
    wait_s: Seconds = inf  # X
    local_load: float = 0.3
    global_load: float = 0.2
    lead_s: tuple[Seconds, Seconds] = (1.0, 3599.0)
    sites: tuple[int, ...] = (32, 32, 32, 32)
    components: tuple[int, int] | None = None  # None: 2 to as many as there are sites
    sizes: tuple[int, int] | None = None  # of global components; None: 4 to the smallest site
    local_sizes: tuple[int, int] | None = None  # None: 1 to the smallest site
    q: float = 0.9
    is_uniform: bool = False  # sizes of global components
    global_run_s: Seconds = 200.0
    local_run_s: Seconds = 100.0
    is_requeued: bool = False  # killed local jobs go back to the head of their queue
    time_s: Seconds = 3_000_000.0  # the warm-up included
    warmup_s: Seconds = 300_000.0

    def __post_init__(self) -> None:
        _require(
            self.at_deadline in ("kill", "fail"), "at deadline", self.at_deadline, "kill, fail"
        )
        _require(0 < self.fraction <= 1, "lp", self.fraction, "more than 0, at most 1")
        _require(self.tries_max >= 0, "mp", self.tries_max, "0 or more")
        _require(self.wait_s >= 0, "wait", self.wait_s, "0 or more, or inf")
        _require(0 <= self.local_load < inf, "local load", self.local_load, "0 or more")
        _require(0 <= self.global_load < inf, "global load", self.global_load, "0 or more")
        low_s, high_s = self.lead_s
        _require(0 <= low_s <= high_s < inf, "lead", self.lead_s, "0 <= shortest <= longest")
        low, high = self.component_bounds
        text = f"1 <= fewest <= most (by default 2 to the number of sites, {len(self.sites)})"
        _require(1 <= low <= high, "components", f"{low}:{high}", text)
        smallest = min(self.sites)
        for name, (low, high) in (
            ("sizes", self.size_bounds),
            ("local sizes", self.local_size_bounds),
        ):
            text = f"1 <= lowest <= highest <= {smallest}, the smallest site"
            _require(1 <= low <= high <= smallest, name, f"{low}:{high}", text)
        _require(0 < self.q <= 1, "q", self.q, "more than 0, at most 1")
        for name, run_s in (("global run", self.global_run_s), ("local run", self.local_run_s)):
            _require(0 < run_s < inf, name, run_s, "more than 0")
        text = "0 <= warm-up < time"
        _require(0 <= self.warmup_s < self.time_s < inf, "time", self.time_s, text)

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


def _require(is_right: bool, name: str, value: object, allowed: str) -> None:  # noqa: FBT001 - read as an assertion
    if not is_right:
        raise ConfigError(f"{name} = {value}: allowed is {allowed}")
