"""The observer of durable batches that makes the traces of jobs.

The daemon's state does not keep earlier attempts of a job, nor claims that were refused. So the
observer keeps these of the jobs that are not over. After a restart it begins with what the state
has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from koala.core.model import events as ev
from koala.core.model.actions import ClaimProcessors
from koala.core.model.charges import Charge
from koala.core.model.claim import Claim, claim_charge
from koala.core.model.job import TERMINAL, Attempt, ClaimEnd, EndKind, Job, Terminal
from koala.core.model.values import ClaimId, Instant, JobId
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.loop.observers import EndedJobs
from koala.views.spans import Span, job_spans

CLAIMS_MAX = 200
"""Claims of one job that a trace has: the newest ones."""


@dataclass(slots=True)
class _OpenJob:
    """Attempts of a job that is not over, its claims that live, and those that are gone."""

    attempts: dict[int, Attempt] = field(default_factory=dict)
    living: dict[ClaimId, Claim] = field(default_factory=dict)
    gone: dict[ClaimId, Charge] = field(default_factory=dict)


class TraceObserver:
    """Observer of batches; `scheduler` is read only. `send` gets the spans of each job that is
    over; it must not block."""

    def __init__(self, scheduler: Scheduler, send: Callable[[Sequence[Span]], None]) -> None:
        self._scheduler = scheduler
        self._send = send
        self._ended = EndedJobs(scheduler)
        self._jobs: dict[JobId, _OpenJob] = {}
        for claim in scheduler.ledger.values():
            self._open(claim.job).living[claim.id] = claim
        for identity, attempt in scheduler.placed.items():
            self._open(identity).attempts[attempt.number] = attempt

    def observe(self, batch: DurableBatch) -> None:
        """Keep what is new, and send the traces of the jobs that ended."""
        for action in batch.actions:
            if isinstance(action, ClaimProcessors):
                self._begin_claim(action.claim)
        for job in dict.fromkeys(notice.job for notice in batch.notices if notice.job):
            self._keep_attempt(JobId(job))
        for record in batch.records:
            match record.event:
                case ev.ClaimGone(claim=claim, end=end):
                    self._end_claim(claim, end, record.at)
                case ev.ClaimFenced(claim=claim):
                    self._end_claim(claim, ClaimEnd(kind=EndKind.FENCED), record.at)
                case _:
                    pass
        for ended in self._ended.take():
            if isinstance(ended.phase, TERMINAL):
                self._send(self._spans(ended, ended.phase))

    def _open(self, identity: JobId) -> _OpenJob:
        return self._jobs.setdefault(identity, _OpenJob())

    def _begin_claim(self, identity: ClaimId) -> None:
        claim = self._scheduler.ledger.get(identity)
        if claim is not None:  # else asked for and gone within one batch
            self._open(claim.job).living[identity] = claim

    def _keep_attempt(self, identity: JobId) -> None:
        job = self._scheduler.jobs.get(identity)
        attempt = None if job is None else job.attempt
        if attempt is not None:
            self._open(identity).attempts[attempt.number] = attempt

    def _end_claim(self, identity: ClaimId, end: ClaimEnd, at: Instant) -> None:
        if identity in self._scheduler.ledger:  # its Stop is pending, and it ends later
            return
        known = self._jobs.get(JobId(identity.partition("/")[0]))
        claim = None if known is None else known.living.pop(identity, None)
        if known is None or claim is None:
            return
        known.gone[identity] = claim_charge(claim, end, at)
        if len(known.gone) > CLAIMS_MAX:
            del known.gone[next(iter(known.gone))]

    def _spans(self, job: Job, ended: Terminal) -> list[Span]:
        known = self._jobs.pop(job.id, _OpenJob())
        charges = {charge.claim: charge for charge in job.charges} | known.gone
        for claim in known.living.values():
            charges[claim.id] = claim_charge(claim, None, ended.at)
        attempts = [known.attempts[number] for number in sorted(known.attempts)]
        claims = sorted(charges.values(), key=lambda charge: charge.asked_at)
        return job_spans(job, ended, attempts=attempts, charges=claims[-CLAIMS_MAX:])
