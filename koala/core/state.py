"""The whole state of the scheduler, and the few methods by which all steps write it.

The steps of the pipeline are functions of the state, one module a step. A step calls only earlier
ones in this order: `queries`, `refusals`, `claiming_schedule`, `wanted`, `queue_entry`,
`dependencies`, `ending`, `start_barrier`, `claiming`, `tickets`, `placing`, `claim_end`,
`site_events`.
"""

from __future__ import annotations

from typing import Protocol

from koala.core.answer_recorder import AnswerRecorder
from koala.core.model.actions import Action, Announce
from koala.core.model.allowances import Allowance, Payer, Usage, asked_by, payers_of
from koala.core.model.claim import Claim
from koala.core.model.grid import Replica, Site
from koala.core.model.hold_budget import Budget
from koala.core.model.job import TERMINAL, TRANSITIONS, Attempt, Job, Phase
from koala.core.model.parameters import Parameters
from koala.core.model.placement_queues import Queues
from koala.core.model.replicas import ReplicaCatalogue
from koala.core.model.timers import Timers
from koala.core.model.values import ClaimId, FileName, Instant, JobId, QueueName, SiteName
from koala.core.policy_api import Policies

STORY_LINES_MAX = 60


def held_by(job: Job, attempt: Attempt) -> tuple[int, int]:
    """Return the processors and GPUs for which an attempt counts. A malleable job does not count
    for components that have left."""
    left = [m.component for m in attempt.members if m.is_dropped] if job.spec.is_malleable else ()
    return asked_by(job.spec, left)


class QueueScanner(Protocol):
    """Queue discipline: chooses the queue of each job, and the jobs to try in a scan."""

    def queues(self, state: State) -> tuple[QueueName, ...]:
        """Return the names of the queues that always exist."""

    def queue_for(self, state: State, job: Job) -> QueueName:
        """Choose the queue of a job that is to be placed."""

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """Try a job that was queued just now, without waiting for the next scan."""

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """Try the jobs whose turn it is. If not `is_whole`, only jobs queued since the last scan
        (`state.fresh`) can have a new chance."""

    def explain(self, state: State, job: Job, now: Instant) -> list[str]:
        """Describe the position of a job, and what blocks its queue, for people."""


class State:
    """Jobs, ledger, sites, files, queues, budgets and timers. Only the handling of events changes
    them.
    """

    scanner: QueueScanner  # of the discipline in force

    def __init__(self, parameters: Parameters, policies: Policies) -> None:
        self.parameters = parameters
        self.policies = policies
        self.epoch = 0
        self.started_at: Instant = 0.0  # start of the daemon
        self.loss_epoch = 0  # epoch of the last accepted loss of events; 0: none
        self.jobs: dict[JobId, Job] = {}
        self.placed: dict[JobId, Attempt] = {}  # live attempts
        self.malleable: dict[JobId, Attempt] = {}  # those of malleable jobs
        self.ledger: dict[ClaimId, Claim] = {}
        self.sites: dict[SiteName, Site] = {}  # in order of name
        self.keys: dict[str, tuple[JobId, str]] = {}  # idempotency key: job, digest of its text
        self.ended: dict[JobId, Instant] = {}  # jobs that are over, in the order of their ends
        self.forgotten: dict[str, int] = {}  # number of purged jobs, by phase
        self.keys_forgotten = 0
        self.queues = Queues()
        self.successors: dict[JobId, dict[JobId, None]] = {}  # jobs that wait for this one's end
        self.files = ReplicaCatalogue()
        self.allowances: dict[Payer, Allowance] = {}
        self.usage: dict[Payer, Usage] = {}  # of the placed jobs
        self.payer_budgets: dict[Payer, Budget] = {}
        self.site_budgets: dict[SiteName, Budget] = {}
        self.has_tickets = False  # jobs may wait in local queues
        self.arms = 0  # counter of arm numbers in this epoch
        self.timers = Timers()
        self.recorder = AnswerRecorder()
        self.actions: list[Action] = []  # of the event that is being handled
        self.is_changed = True  # by that event; one without a change needs no journal record
        self.is_scan_asked = False
        self.is_scan_set = False
        self.is_grid_changed = False  # since the last scan, in a way that may let a job be placed
        self.fresh: dict[JobId, Job] = {}  # queued, and not tried since
        self.rescan_at: Instant = 0.0

    @property
    def has_room(self) -> bool:
        """Return True if a submission now enters its placement queue without a delay."""
        return not self.queues.delayed and len(self.queues) < self.parameters.queue_jobs_max

    @property
    def is_paced(self) -> bool:
        """Return True if scans come at the paper's fixed interval, not at changes."""
        return self.parameters.scan == "interval"

    @property
    def replicas(self) -> dict[FileName, Replica]:
        """The replica catalogue."""
        return self.files.replicas

    def add_attempt(self, job: Job, attempt: Attempt) -> None:
        """Add a live attempt: the job counts for its user and group from here on."""
        self.placed[job.id] = attempt
        if job.spec.is_malleable:
            self.malleable[job.id] = attempt
        attempt.processors, attempt.gpus = held_by(job, attempt)
        for payer in payers_of(job.spec):
            self.usage.setdefault(payer, Usage()).add(attempt.processors, attempt.gpus)

    def recount(self, job: Job, attempt: Attempt) -> None:
        """Count a malleable job for what it has now, after components came or went."""
        processors, gpus = held_by(job, attempt)
        for payer in payers_of(job.spec):
            more = (processors - attempt.processors, gpus - attempt.gpus)
            self.usage[payer].add(*more, jobs=0)
        attempt.processors, attempt.gpus = processors, gpus

    def remove_attempt(self, job: Job) -> Attempt | None:
        """Remove and return the job's live attempt, if it has one."""
        attempt = self.placed.pop(job.id, None)
        self.malleable.pop(job.id, None)
        for payer in payers_of(job.spec) if attempt is not None else ():
            assert attempt is not None
            self.usage[payer].add(-attempt.processors, -attempt.gpus, jobs=-1)
            if not self.usage[payer].jobs:
                del self.usage[payer]
        return attempt

    def request_scan(self, *freed: SiteName) -> None:
        """Request a scan after a change that may let any queued job be placed.

        `freed` are sites that have, or will soon have, more idle processors. With the paper's
        setting the scan waits for its interval.
        """
        for site in freed:
            self.queues.freed[site] = None
        self.is_scan_asked = not self.is_paced
        self.is_grid_changed = True

    def request_try(self, job: Job) -> None:
        """Request a try of a job that was queued; nothing changed for the others."""
        self.is_scan_asked = not self.is_paced
        self.fresh[job.id] = job

    def enter(self, job: Job, phase: Phase, text: str, now: Instant) -> None:
        """Change the phase of a job along TRANSITIONS; the only place that does (promise 2)."""
        before, after = job.phase_name, type(phase).__name__
        assert after in TRANSITIONS[before], f"{job.id}: {before} -> {after}; {job.story}"
        job.phase = phase
        if isinstance(phase, TERMINAL):
            self.ended[job.id] = now
        if before != after:
            self.announce(job, text, now, phase=after)

    def announce(self, job: Job, text: str, now: Instant, *, phase: str = "") -> None:
        """Add a line to the job's story and announce it."""
        job.story.append((now, f"{phase}: {text}" if phase and text else phase or text))
        if len(job.story) > STORY_LINES_MAX:
            del job.story[1]  # the submission stays
        self.actions.append(Announce(at=now, text=text, job=job.id, phase=phase or job.phase_name))

    def announce_site(self, site: Site, text: str, now: Instant) -> None:
        """Announce a fact about a site."""
        self.actions.append(Announce(at=now, text=text, site=site.name))
