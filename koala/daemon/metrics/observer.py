"""The observer of durable batches: derives counters and histograms from events and actions.

It is fed in one place, the group commit, after everything of a batch has left. It remembers no more
than what is open: claims, copies, and jobs with an attempt. After a restart it begins with what the
state has open, and its counters begin at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from koala.common.metrics import declarations as m
from koala.common.metrics.meter import Meter
from koala.core.model import events as ev
from koala.core.model.actions import CancelTransfer, ClaimProcessors, StartTransfer
from koala.core.model.job import SITE_FAULTS, Attempt, ClaimEnd, EndKind, Job
from koala.core.model.values import ClaimId, Instant, JobId, SiteName, TransferId
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.loop.observers import EndedJobs

GRACE_SHARE = 0.5
"""Part of the grace time after which an ended request counts as timed out."""


@dataclass(slots=True, kw_only=True)
class _OpenClaim:
    """A claim in the ledger, as far as it was observed."""

    site: SiteName
    processors: int
    asked_at: Instant
    grace_s: float
    granted_at: Instant | None = None
    passed_at: Instant | None = None


@dataclass(slots=True, kw_only=True)
class _OpenJob:
    """Counts of a job that has or had an attempt, when they were last observed."""

    attempts: int
    setbacks: int
    preemptions: int
    has_started: bool


class BatchObserver:
    """Observer of batches; `scheduler` is read only."""

    def __init__(self, scheduler: Scheduler, meter: Meter) -> None:
        self._scheduler = scheduler
        self._meter = meter
        self._claims: dict[ClaimId, _OpenClaim] = {}
        self._targets: dict[TransferId, SiteName] = {}
        self._jobs: dict[JobId, _OpenJob] = {}
        self._ended = EndedJobs(scheduler)
        for identity in scheduler.ledger:
            self._begin_claim(identity, scheduler.started_at)
        for transfer in scheduler.files.transfers.values():
            if not transfer.is_done:
                self._targets[transfer.id] = transfer.target
        for job in scheduler.placed:
            self._jobs[job] = _counts(scheduler.jobs[job])
        for site in scheduler.sites:
            meter.know_site(site)

    def observe(self, batch: DurableBatch) -> None:
        """Count a batch."""
        self._meter.observe(m.COMMIT_SECONDS, batch.commit_s)
        self._meter.add(m.EVENTS, by=len(batch.records))
        at = batch.records[0].at
        for action in batch.actions:
            match action:
                case ClaimProcessors():
                    self._begin_claim(action.claim, at, action)
                    self._meter.add(m.CLAIMS_ASKED, action.site)
                case StartTransfer():
                    self._targets[action.transfer] = action.target
                case _:
                    pass
        for record in batch.records:
            self._count_event(record.event, record.at)
        for action in batch.actions:
            if isinstance(action, CancelTransfer):
                self._end_transfer(action.transfer, "cancelled")
        for job in dict.fromkeys(notice.job for notice in batch.notices if notice.job):
            self._count_job(JobId(job))
        self._count_ended()

    # --- events -----------------------------------------------------------------------------------

    def _count_event(self, event: ev.Event, at: Instant) -> None:  # noqa: C901 - one line a kind
        match event:
            case ev.JobSubmitted(spec=spec):
                self._meter.add(m.JOBS_SUBMITTED, spec.priority.value)
            case ev.ClaimGranted(claim=claim):
                self._grant(claim, at)
            case ev.ClaimPassed(claim=claim, passed_at=passed_at):
                if (known := self._claims.get(claim)) is not None:
                    known.passed_at = passed_at
            case ev.ClaimGone(claim=claim, end=end):
                self._end_claim(claim, end, at)
            case ev.ClaimFenced(claim=claim):
                self._end_claim(claim, ClaimEnd(kind=EndKind.FENCED), at)
            case ev.TransferFinished():
                self._finish_transfer(event)
            case ev.TransferFailed(transfer=transfer, at=site):
                self._end_transfer(transfer, "failed")
                if site is not None:
                    self._meter.add(m.SITE_FAULTS, site, "transfer")
            case ev.SiteRegistered(site=site):
                self._meter.know_site(site)
                self._meter.add(m.SITE_REGISTRATIONS, site)
            case ev.SiteDisconnected(site=site):
                self._meter.add(m.SITE_DISCONNECTS, site)
            case _:
                pass

    # --- claims -----------------------------------------------------------------------------------

    def _begin_claim(
        self, identity: ClaimId, at: Instant, asked: ClaimProcessors | None = None
    ) -> None:
        claim = self._scheduler.ledger.get(identity)
        if claim is not None:
            self._claims[identity] = _OpenClaim(
                site=claim.site,
                processors=claim.processors,
                asked_at=claim.asked_at,
                grace_s=claim.grace_until - claim.asked_at,
                granted_at=claim.grant.at if claim.grant is not None and asked is None else None,
                passed_at=claim.passed_at if asked is None else None,
            )
        elif asked is not None:  # asked for and gone within one batch
            site = self._scheduler.sites[asked.site]
            self._claims[identity] = _OpenClaim(
                site=asked.site,
                processors=asked.processors,
                asked_at=at,
                grace_s=site.facts.grace_s,
            )

    def _grant(self, identity: ClaimId, at: Instant) -> None:
        known = self._claims.get(identity)
        if known is None or known.granted_at is not None:  # it may be announced again
            return
        known.granted_at = at
        self._meter.add(m.CLAIMS_GRANTED, known.site)
        self._meter.observe(m.CLAIM_ANSWER, max(0.0, at - known.asked_at), "granted")

    def _end_claim(self, identity: ClaimId, end: ClaimEnd, at: Instant) -> None:
        known = self._claims.get(identity)
        if known is None:
            return
        if end.kind in SITE_FAULTS:
            self._meter.add(m.SITE_FAULTS, known.site, end.kind.value)
        if end.kind in (EndKind.LEASE, EndKind.FENCED):
            self._meter.add(m.LEASES_EXPIRED, known.site)
        if identity in self._scheduler.ledger:  # its Stop is pending, and it ends later
            return
        del self._claims[identity]
        if known.granted_at is None:
            self._meter.add(m.CLAIMS_REFUSED, known.site, _refusal(known, end, at))
            self._meter.observe(m.CLAIM_ANSWER, max(0.0, at - known.asked_at), "refused")
            return
        self._meter.add(m.CLAIMS_ENDED, known.site, end.kind.value)
        ended_at = end.ended_at or at
        started_at = ended_at if known.passed_at is None else known.passed_at
        held_s = max(0.0, started_at - known.granted_at)
        is_lost = known.passed_at is None
        self._meter.observe(m.CLAIM_HOLD, held_s, "lost" if is_lost else "started")
        ran_s = max(0.0, ended_at - started_at)
        for use, seconds in (("hold", held_s), ("run", ran_s)):
            self._meter.add(m.PROCESSOR_SECONDS, known.site, use, by=seconds * known.processors)

    # --- copies -----------------------------------------------------------------------------------

    def _finish_transfer(self, event: ev.TransferFinished) -> None:
        site = self._targets.get(event.transfer)
        if site is None:
            return
        self._meter.add(m.TRANSFER_BYTES, site, by=event.size_bytes)
        self._meter.observe(m.TRANSFER_SECONDS, event.took_s)
        self._end_transfer(event.transfer, "finished")

    def _end_transfer(self, transfer: TransferId, outcome: str) -> None:
        site = self._targets.pop(transfer, None)
        if site is not None:
            self._meter.add(m.TRANSFERS_ENDED, site, outcome)

    # --- jobs -------------------------------------------------------------------------------------

    def _count_job(self, identity: JobId) -> None:
        """Count what changed of a job since it was last observed."""
        job = self._scheduler.jobs.get(identity)
        if job is None or job.attempts == 0:
            return
        before = self._jobs.get(identity)
        if before is None:
            before = _OpenJob(attempts=0, setbacks=0, preemptions=0, has_started=False)
        now = _counts(job)
        now.has_started |= before.has_started
        self._meter.add(m.PLACEMENTS, by=max(0, now.attempts - before.attempts))
        self._meter.add(m.SETBACKS, by=max(0, now.setbacks - before.setbacks))
        self._meter.add(m.PREEMPTIONS, by=max(0, now.preemptions - before.preemptions))
        attempt = job.attempt
        if attempt is not None and now.has_started and not before.has_started:
            passes = [
                member.passed_at for member in attempt.with_barrier if member.passed_at is not None
            ]
            if len(passes) > 1:
                self._meter.observe(m.START_SKEW, max(passes) - min(passes))
            wait_s = max(0.0, _started_at(attempt) - job.submitted_at)
            self._meter.observe(m.JOB_WAIT, wait_s, job.spec.priority.value)
        if job.has_ended:
            self._jobs.pop(identity, None)
        else:
            self._jobs[identity] = now

    def _count_ended(self) -> None:
        """Count the jobs that ended since the last batch."""
        for job in self._ended.take():
            self._meter.add(m.JOBS_ENDED, job.phase_name.lower())
            self._jobs.pop(job.id, None)


def _counts(job: Job) -> _OpenJob:
    attempt = job.attempt
    return _OpenJob(
        attempts=job.attempts,
        setbacks=len(job.setbacks),
        preemptions=job.preemptions,
        has_started=attempt is not None and _has_started(attempt),
    )


def _has_started(attempt: Attempt) -> bool:
    """Return True if all members that start together have passed."""
    members = attempt.with_barrier or attempt.present
    return bool(members) and all(member.passed_at is not None for member in members)


def _started_at(attempt: Attempt) -> Instant:
    members = attempt.with_barrier or attempt.present
    return max(member.passed_at or 0.0 for member in members)


def _refusal(claim: _OpenClaim, end: ClaimEnd, at: Instant) -> str:
    """Return the reason label of a claim that ended without a grant."""
    waited_s = at - claim.asked_at
    if end.kind is EndKind.REFUSED:
        is_early = end.reason != "" and waited_s < GRACE_SHARE * claim.grace_s
        return m.REJECTED if is_early else m.TIMEOUT
    is_overdue = end.kind is EndKind.STOPPED and waited_s >= claim.grace_s
    return m.TIMEOUT if is_overdue else end.kind.value
