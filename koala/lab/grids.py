"""Grids of the laboratory: sites, their local schedulers and their own users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from koala.core.model.grid import SiteFacts
from koala.core.model.parameters import NAMES, Parameters, simulated
from koala.core.model.values import SiteName
from koala.errors import ConfigError
from koala.lab.fields import check_fields, check_values
from koala.lab.sim.experiment.setting import LocalJob, SiteSetting
from koala.lab.workload.distributions import SizeDistribution
from koala.lab.workload.random_streams import stream
from koala.lab.workloads import Log
from koala.policies import DEFAULTS
from koala.queue_model import local_scheduler
from koala.queue_model.local_users import LoadParameters, local_jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUsers:
    """Local users of a site: Poisson arrivals of jobs with exponential run times and sizes from
    D(q), as in the papers. `load` is what they offer, as a share of the site's processors."""

    load: float
    run_mean_s: float = 600.0
    sizes: tuple[int, int] = (1, 8)
    q: float = 0.9
    estimate_factor_max: float = 3.0

    def __post_init__(self) -> None:
        check_fields(self)

    def parameters(self, processors: int) -> LoadParameters | None:
        """Return the parameters of their generator at a site of so many processors; None without a
        load. Raises ConfigError."""
        low, high = self.sizes
        if not (self.load >= 0 and 1 <= low <= high <= processors):
            raise ConfigError(
                f"local users with load {self.load} and sizes {low}:{high} (expected a load of 0 or"
                f" more and sizes from 1 to {processors}, the site's processors)"
            )
        if not self.load:
            return None
        mean = SizeDistribution(low=low, high=high, q=self.q).mean
        return LoadParameters(
            arrivals_per_hour=3600 * self.load * processors / (mean * self.run_mean_s),
            run_mean_s=self.run_mean_s,
            size_q=self.q,
            size_min=low,
            size_max=high,
            estimate_factor_max=self.estimate_factor_max,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """A site. `discipline` names its local scheduler: fcfs, easy, conservative, an order such as
    sjf, or module:function. A claim waits in its queue for `grace_s` at most, but a ticket as long
    as it takes: gated, if it `has_gate`; when it would start is known if it `has_forecast`. If it
    `books`, a claim may have its processors from a planned instant on. Its own users are synthetic,
    or submit the jobs of a log at the log's instants or those of a part of it (`begin_s` is 0), the
    same for every seed."""

    name: str
    processors: int
    _: KW_ONLY
    discipline: str = "easy"
    grace_s: float = 5.0
    users: LocalUsers | Log | None = None
    load: LoadParameters | None = None
    """Local users as in a grid file, instead of `users`."""
    load_seed: int = 1
    has_gate: bool = True
    has_forecast: bool = True
    books: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.processors >= 1:
            raise ConfigError(
                f"site {self.name}: {self.processors} processors (expected 1 or more)"
            )
        local_scheduler(self.discipline)
        if isinstance(self.users, LocalUsers):
            self.users.parameters(self.processors)
        if isinstance(self.users, Log) and (self.users.jobs or self.users.part_s):
            raise ConfigError(
                f"site {self.name}: users = {self.users} (expected a whole log, or one with"
                " begin_s and end_s)"
            )

    def setting(self, seed: int) -> SiteSetting:
        """Return the site of one run; the seed 1 gives the users that a grid file describes."""
        return SiteSetting(
            name=SiteName(self.name),
            facts=SiteFacts(
                processors=self.processors,
                grace_s=self.grace_s,
                gate="simulated" if self.has_gate else "",
                books="simulated" if self.books else "",
            ),
            discipline=local_scheduler(self.discipline),
            local_jobs=self._local_jobs(seed),
            keeps_waits=isinstance(self.users, Log),
            is_steady=self.has_endless_users,
            has_forecast=self.has_forecast,
        )

    @property
    def has_endless_users(self) -> bool:
        """True if its users are synthetic, and so submit as long as a run lasts."""
        return self.load is not None or isinstance(self.users, LocalUsers)

    def _local_jobs(self, seed: int) -> Iterator[LocalJob]:
        load = self.load
        if isinstance(self.users, Log):
            yield from (LocalJob(*job) for job in self.users.local_jobs())
            return
        if self.users is not None:
            load = self.users.parameters(self.processors)
        if load is None:
            return
        draws = stream(self.load_seed + seed - 1, f"local users at {self.name}")
        for job in local_jobs(load, draws):
            yield LocalJob(job.submit_at, job.processors, job.run_s, job.estimate_s)


POLICIES = DEFAULTS
"""Slots of policies, and the policies of a daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sites, and the parameters and policies of the scheduler in front of them."""

    sites: tuple[Site, ...]
    parameters: Parameters = field(default_factory=lambda: simulated(Parameters()))
    policies: Mapping[str, str] = field(default_factory=lambda: dict(POLICIES))
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        names = [site.name for site in self.sites]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"site {name} is twice in one grid (expected distinct names)")

    @property
    def processors(self) -> int:
        """Processors of all sites."""
        return sum(site.processors for site in self.sites)

    @property
    def has_endless_users(self) -> bool:
        """True if synthetic users of a site submit as long as a run lasts."""
        return any(site.has_endless_users for site in self.sites)

    def __str__(self) -> str:
        return self.name or ", ".join(f"{site.name} {site.processors}" for site in self.sites)


def grid(
    sites: Mapping[str, int] | Mapping[str, Site],
    *,
    local_load: float = 0.0,
    discipline: str = "easy",
    **parameters: Any,  # noqa: ANN401 - values of parameters
) -> Grid:
    """Describe a grid by the processors of its sites, or by `Site`s.

    `local_load` is the load of every site's own users, and `discipline` the local scheduler;
    further arguments are parameters of the scheduler (docs/policies.md). Raises ConfigError.
    """
    if not isinstance(sites, Mapping):
        raise ConfigError(f"sites = {sites!r} (expected processors by name: {{'a': 64}})")
    users = LocalUsers(load=local_load) if local_load else None
    made = tuple(
        one
        if isinstance(one, Site)
        else Site(name, one, discipline=discipline, users=_fitting(users, one))
        for name, one in sites.items()
    )
    if not made:
        raise ConfigError("a grid needs at least one site")
    return Grid(sites=made, parameters=with_parameters(simulated(Parameters()), parameters))


def with_parameters(base: Parameters, changes: Mapping[str, Any]) -> Parameters:
    """Return parameters with some of them changed. Raises ConfigError for unknown ones."""
    for name in changes:
        if name not in NAMES:
            raise ConfigError(f"{name}: no such parameter; there are {', '.join(NAMES)}")
    check_values(Parameters, changes)
    return replace(base, **changes)


def _fitting(users: LocalUsers | None, processors: int) -> LocalUsers | None:
    if users is None or users.sizes[1] <= processors:
        return users
    return replace(users, sizes=(1, processors))
