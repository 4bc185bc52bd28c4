"""The scheduler's whole state, and the few ways in which every step of the pipeline writes it.

The steps are functions of the state, one module each, ordered so that a step calls only what comes
before it: `facts` (readings), `refusals`, `tries`, `wanted`, `ending`, `starting`, `claiming`,
`placing`, `losing`, `watching`.
"""

from __future__ import annotations

from typing import Protocol

from koala.core.model.actions import Action, Announce
from koala.core.model.grid import Replica, Site
from koala.core.model.hold_budget import Budget
from koala.core.model.job import TERMINAL, TRANSITIONS, Claim, Job, Phase
from koala.core.model.parameters import Parameters
from koala.core.model.placement_queues import Queues
from koala.core.model.replicas import ReplicaCatalogue
from koala.core.model.timers import Timers
from koala.core.model.values import ClaimId, FileName, Instant, JobId, QueueName, SiteName, UserName
from koala.core.policy_api import Policies, Recorder

STORY_LINES_MAX = 60


class QueueScanner(Protocol):
    """A queue discipline at work on the state: which queue a job goes to, and whose turn it is."""

    def queues(self, state: State) -> tuple[QueueName, ...]:
        """The queues that there always are."""

    def queue_for(self, state: State, job: Job) -> QueueName:
        """Where a job is to stand that is to be placed."""

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """A job was queued, and is not to wait for the next scan."""

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """Try those whose turn it is. Unless it is whole, nothing has changed but that jobs were
        queued (`state.fresh`)."""

    def explain(self, state: State, job: Job, now: Instant) -> list[str]:
        """Where a job stands, and what keeps its queue."""


class State:
    """Jobs, ledger, sites, files, queues, budgets and timers. Only an event's handling changes
    them.
    """

    turns: QueueScanner  # of the discipline in force

    def __init__(self, parameters: Parameters, policies: Policies) -> None:
        self.parameters = parameters
        self.policies = policies
        self.epoch = 0
        self.started_at: Instant = 0.0  # of this daemon's life
        self.loss_epoch = 0  # in which a loss of events was accepted last; 0: never
        self.jobs: dict[JobId, Job] = {}
        self.placed: dict[JobId, Job] = {}  # those with an attempt that is not over
        self.ledger: dict[ClaimId, Claim] = {}
        self.sites: dict[SiteName, Site] = {}  # in order of name
        self.keys: dict[str, tuple[JobId, str]] = {}  # idempotency key: job, digest of its text
        self.ended: dict[JobId, Instant] = {}  # jobs that are over, in the order of their ends
        self.forgotten: dict[str, int] = {}  # how many of them are not here any more, by phase
        self.keys_forgotten = 0
        self.queues = Queues()
        self.files = ReplicaCatalogue()
        self.user_budgets: dict[UserName, Budget] = {}
        self.site_budgets: dict[SiteName, Budget] = {}
        self.arms = 0  # counter of arm numbers in this epoch
        self.timers = Timers()
        self.recorder = Recorder()
        self.actions: list[Action] = []  # of the event that is being handled
        self.is_changed = True  # by it; one that changed nothing need not be in a journal
        self.is_scan_asked = False
        self.is_scan_set = False
        self.is_grid_changed = False  # since the last scan, in a way that may let a job be placed
        self.fresh: dict[JobId, Job] = {}  # queued, and not tried since
        self.rescan_at: Instant = 0.0

    @property
    def has_room(self) -> bool:
        """Whether a submission now enters its placement queue rather than being delayed."""
        return not self.queues.delayed and len(self.queues) < self.parameters.queue_jobs_max

    @property
    def is_paced(self) -> bool:
        """Scans come at the paper's fixed interval, not when something changes."""
        return self.parameters.scan == "interval"

    @property
    def replicas(self) -> dict[FileName, Replica]:
        """The replica catalogue."""
        return self.files.replicas

    def ask_scan(self, *freed: SiteName) -> None:
        """Something changed that may let any queued job be placed; `freed` are sites that have, or
        will soon have, more idle processors. The paper's setting waits for its interval.
        """
        self.queues.freed.update(dict.fromkeys(freed))
        self.is_scan_asked = not self.is_paced
        self.is_grid_changed = True

    def ask_scan_for(self, job: Job) -> None:
        """This job was queued: it is to be tried, while nothing changed for the others."""
        self.is_scan_asked = not self.is_paced
        self.fresh[job.id] = job

    def enter(self, job: Job, phase: Phase, text: str, now: Instant) -> None:
        """The only assignment of a phase, along TRANSITIONS (promise 2)."""
        before, after = job.phase_name, type(phase).__name__
        assert after in TRANSITIONS[before], f"{job.id}: {before} -> {after}; {job.story}"
        job.phase = phase
        if isinstance(phase, TERMINAL):
            self.ended[job.id] = now
        if before != after:
            self.announce(job, text, now, phase=after)

    def announce(self, job: Job, text: str, now: Instant, *, phase: str = "") -> None:
        """A line of the job's story, for people; empty parts are left out."""
        job.story.append((now, ": ".join(part for part in (phase, text) if part)))
        if len(job.story) > STORY_LINES_MAX:
            del job.story[1]  # the submission stays
        self.actions.append(Announce(at=now, text=text, job=job.id, phase=phase or job.phase_name))

    def announce_site(self, site: Site, text: str, now: Instant) -> None:
        """A line about a site, for people."""
        self.actions.append(Announce(at=now, text=text, site=site.name))
