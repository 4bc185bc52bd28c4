"""Inputs of an experiment: sites, their own users, submissions, links, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from koala.common.protocol.ordering import OrderPolicy
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import FOREVER, Instant, JobId, Seconds, SiteName
from koala.lab.workload.random_streams import stream
from koala.queue_model import Discipline


class LocalJob(NamedTuple):
    """A job of a site's own users, submitted to the local manager past the scheduler."""

    at: Instant
    processors: int
    run_s: Seconds
    estimate_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSetting:
    """A site: its registration, its local manager, and its own users' jobs in order of instants.

    `latency_s` is the time of a message from the scheduler to the site, and of one back. With
    `keeps_waits` the wait of each job of its own users is kept. If it `is_steady`, they submit for
    ever, always in the same way. It tells when tickets would start if it `has_forecast`.
    """

    name: SiteName
    facts: SiteFacts
    discipline: Discipline | OrderPolicy = Discipline.FCFS
    latency_s: Seconds = 0.0
    local_jobs: Iterable[LocalJob] = ()
    keeps_waits: bool = False
    is_steady: bool = False
    has_forecast: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MalleableProgram:
    """Program of a malleable job. `run_s` is how long it would run with so many processors, in all
    components together, from the beginning to the end. A component that is asked to give way does
    so after `leave_s`."""

    run_s: Callable[[int], Seconds]
    leave_s: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job of the grid. `run_s` and `statuses` are for its components in order, unless it has a
    malleable `program`; `replicas` are sites that hold its input file from the submission on."""

    job: JobId
    at: Instant
    spec: JobSpec
    run_s: tuple[Seconds, ...] = ()
    statuses: tuple[int, ...] = ()
    replicas: tuple[SiteName, ...] = ()
    program: MalleableProgram | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Bytes a second from site to site, known to the scheduler; unnamed links have
    `bandwidth_default_bps`. On shared links the copies in progress get equal parts, which no
    estimate takes into account."""

    bandwidth: Mapping[tuple[SiteName, SiteName], float] = field(default_factory=dict)
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Breakdown of a site: everything running and waiting there is lost, and its local manager errs
    on every claim until the repair. Then the operator tells the scheduler."""

    site: SiteName
    at: Instant
    until: Instant = FOREVER


class Faults(Protocol):
    """Source of faults. A working site asks it once for each claim, and once for each component
    that begins to run."""

    outages: Sequence[Outage]

    def claim_errs(self, site: SiteName, now: Instant) -> bool:
        """Return True if the local manager errs on a claim."""

    def fails_after(self, site: SiteName, run_s: Seconds, now: Instant) -> Seconds | None:
        """Return the time after which a component that would run for `run_s` is lost; None: it is
        not."""


class NoFaults:
    """No faults but the outages."""

    def __init__(self, outages: Sequence[Outage] = ()) -> None:
        self.outages = outages

    def claim_errs(self, site: SiteName, now: Instant) -> bool:
        """Return False."""
        return False

    def fails_after(self, site: SiteName, run_s: Seconds, now: Instant) -> Seconds | None:
        """Return None."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """Fault probabilities of a site: that a claim errs, and that a component that runs is lost."""

    claim: float = 0.0
    component: float = 0.0


class RandomFaults:
    """Random faults at each site with its own probabilities, drawn from a seed. Every draw is made
    even if unused, so that two policies meet the same faults as far as they act alike."""

    def __init__(
        self, seed: int, rates: Mapping[SiteName, FaultRates], outages: Sequence[Outage] = ()
    ) -> None:
        self.outages = outages
        self._rates = rates
        self._claims = {site: stream(seed, f"faults of claims at {site}") for site in rates}
        self._runs = {site: stream(seed, f"faults of components at {site}") for site in rates}

    def claim_errs(self, site: SiteName, now: Instant) -> bool:
        """Draw with the site's probability."""
        return site in self._rates and self._claims[site].random() < self._rates[site].claim

    def fails_after(self, site: SiteName, run_s: Seconds, now: Instant) -> Seconds | None:
        """Draw with the site's probability; the instant is uniform in the run."""
        if site not in self._rates:
            return None
        draws = self._runs[site]
        fails, part = draws.random() < self._rates[site].component, draws.random()
        return run_s * part if fails else None
