"""A simulated world: daemon, links and sites on one engine, with clients and a plan of faults.

What clients do is kept up until it is durable: a submission is said again until the daemon has
answered, as the command line does with its idempotency key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from koala.core.events import (
    Event,
    JobCancelRequested,
    JobSubmitted,
    ReplicaAdded,
    SiteDrained,
    SiteResumed,
)
from koala.core.job import JobSpec
from koala.core.parameters import Parameters
from koala.core.slots import Policies
from koala.core.values import ClaimId, FileName, Instant, JobId, Seconds, SiteName, UserName
from koala.sim.engine import Engine
from koala.sim.faults import FaultPlan, Happening, Incident
from koala.sim.links import Link
from koala.sim.pump import Daemon, Overseer
from koala.sim.sites import Setting, Site, Witness
from koala.sim.starters import Leases

OPERATOR = UserName("operator")
RESTART_S_MAX = 30.0


class Onlooker(Overseer, Witness, Protocol):
    """Who sees the daemon and the truth at the sites."""

    def accepted(self, job: JobId) -> None:
        """A client has its answer: the job is kept."""


class World:
    """Everything of one run."""

    def __init__(
        self,
        settings: tuple[Setting, ...],
        *,
        parameters: Parameters,
        policies: Policies,
        plan: FaultPlan,
        onlooker: Onlooker,
        program: Callable[[ClaimId], tuple[Seconds, int]],
        bandwidth: Callable[[SiteName, SiteName], float],
    ) -> None:
        self.engine = Engine()
        self.plan = plan
        self.onlooker = onlooker
        self.daemon = Daemon(
            self.engine,
            plan,
            parameters=parameters,
            policies=policies,
            overseer=onlooker,
        )
        leases = Leases(
            hold_lease_s=parameters.hold_lease_s,
            run_lease_s=parameters.run_lease_s,
            kill_s=parameters.kill_s,
        )
        self.sites: dict[SiteName, Site] = {}
        for setting in settings:
            site = Site(
                self.engine,
                plan,
                setting,
                leases=leases,
                witness=onlooker,
                program=program,
                bandwidth=bandwidth,
            )
            link = Link(self.engine, plan, setting.name, self.daemon, site)
            site.link = link
            self.daemon.links[setting.name] = link
            self.sites[setting.name] = site
        self._jobs: list[JobId] = []

    def begin(self) -> None:
        """Start the daemon, let the agents dial, and let the incidents happen."""
        self.daemon.start()
        for site in self.sites.values():
            assert site.link is not None
            site.link.dial()
        for happening in self.plan.happenings:
            self.engine.at(happening.at, partial(self._happen, happening))

    # --- clients and operators ---

    def insist(self, event: Event, when_durable: Callable[[], None] | None = None) -> None:
        """Tell the daemon until it is durable."""
        answered: list[bool] = []

        def done() -> None:
            if not answered and when_durable is not None:
                when_durable()
            answered.append(True)

        def attempt() -> None:
            if not answered:
                self.daemon.tell(event, done)
                self.engine.after(10.0, attempt)

        attempt()

    def submit(self, job: JobId, spec: JobSpec, at: Instant) -> None:
        """A client submits, and waits for the answer."""
        self._jobs.append(job)
        event = JobSubmitted(job=job, spec=spec, key=f"key of {job}", digest=job)
        self.engine.at(at, lambda: self.insist(event, lambda: self.onlooker.accepted(job)))

    def cancel(self, job: JobId) -> None:
        """The owner does not want the job any more."""
        if job in self.daemon.scheduler.jobs:
            self.insist(JobCancelRequested(job=job, by=OPERATOR))

    def add_replica(self, file: FileName, site: SiteName, size_bytes: int) -> None:
        """The site holds the file."""
        self.insist(ReplicaAdded(file=file, site=site, size_bytes=size_bytes))

    # --- incidents ---

    def _happen(self, happening: Happening) -> None:
        site = self._pick_site(happening)
        match happening.kind:
            case Incident.LINK_CUT | Incident.LINK_DOWN:
                assert site.link is not None
                is_down = happening.kind is Incident.LINK_DOWN
                site.link.cut(for_s=happening.lasts_s if is_down else 0.0)
            case Incident.AGENT_CRASH:
                site.crash()
                self.engine.after(happening.lasts_s, site.restart)
            case Incident.DAEMON_CRASH:
                self._crash_daemon(happening)
            case Incident.STARTER_KILLED | Incident.STARTER_DEAF | Incident.SITE_CANCEL:
                self._happen_to_claim(happening, site)
            case Incident.DRAIN:
                self.insist(SiteDrained(site=site.name, by=OPERATOR))
                resumed = SiteResumed(site=site.name, by=OPERATOR)
                self.engine.after(happening.lasts_s, lambda: self.insist(resumed))
            case Incident.RESUME:
                self.insist(SiteResumed(site=site.name, by=OPERATOR))
            case Incident.USER_CANCEL:
                if self._jobs:
                    self.cancel(self._jobs[int(happening.pick * len(self._jobs))])
            case Incident.LOCAL_JOB:
                half = max(1, site.queue.processors // 2)
                site.submit_local(half, happening.lasts_s)

    def _pick_site(self, happening: Happening) -> Site:
        sites = tuple(self.sites.values())
        return sites[int(happening.pick * len(sites))]

    def _crash_daemon(self, happening: Happening) -> None:
        if self.daemon.is_up:
            self.daemon.crash()
            self.engine.after(min(happening.lasts_s, RESTART_S_MAX), self.daemon.start)

    def _happen_to_claim(self, happening: Happening, site: Site) -> None:
        claims = list(site.starters)
        if not claims:
            return
        claim = claims[int(happening.pick * 7919) % len(claims)]
        if happening.kind is Incident.STARTER_KILLED:
            site.kill_starter(claim)
        elif happening.kind is Incident.SITE_CANCEL:
            site.site_cancels(claim)
        else:
            starter = site.starters[claim]
            starter.deaf_until = self.engine.now + happening.lasts_s
            self.engine.at(starter.deaf_until, starter.hear_again)
