"""Setbacks of jobs: stop an attempt, and queue its job again behind the fence."""

from __future__ import annotations

from dataclasses import replace

from koala.core.model.charges import Setback
from koala.core.model.claim import Stopped
from koala.core.model.job import (
    Attempt,
    Claiming,
    EndKind,
    Member,
    Placing,
    Queued,
    Starting,
    Stopping,
)
from koala.core.model.timeline import lowered_fraction
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.claiming_schedule import tries_left
from koala.core.pipeline.ending import (
    deciding_members,
    fail,
    finish,
    sites_by_allocation,
    stop_attempt,
)
from koala.core.pipeline.queue_entry import enter_queue
from koala.core.queries import claims_of
from koala.core.state import State

LOST_ATTEMPTS_MAX = 1_000
"""Upper bound of the attempts of one job in a lost part of the journal."""


def set_back(state: State, attempt: Attempt, reason: str, now: Instant) -> None:
    """Stop the attempt and queue the job again: at once if nothing was released, else after the
    fence. A job with a deadline fails if no try is left or if it must wait for the fence.
    """
    job = state.jobs[attempt.job]
    if job.deadline_at is not None and not attempt.may_run and not tries_left(state, job):
        fail(state, job, f"{reason}; no try is left for its deadline", now)
        return
    stopping = Stopping(attempt=attempt, reason=reason)
    state.enter(job, stopping, reason, now)
    sites = dict.fromkeys(m.site for m in attempt.members if m.site is not None)
    job.setbacks.append(Setback(attempt=attempt.number, at=now, sites=tuple(sites)))
    stop_attempt(state, attempt, now)
    job.claim_fraction = lowered_fraction(
        job.claim_fraction,
        step=state.parameters.claim_fraction_step,
        fraction_min=min(state.parameters.claim_fraction_min, job.claim_fraction),
    )
    job.not_before = max(job.not_before, now + state.parameters.claiming_step_min_s)
    # Free processors that were placed and not claimed (count_placed).
    state.request_scan(*sites_by_allocation(job, attempt))
    requeue_if_fenced(state, stopping, now)


def requeue_if_fenced(state: State, stopping: Stopping, now: Instant) -> None:
    """Queue a stopped job again once the fence allows it.

    A released attempt must be wholly gone before the next one. If all its programs had ended well
    before their Stop arrived, the job is Finished and must not start again (promise 3).
    """
    attempt, reason = stopping.attempt, stopping.reason
    job = state.jobs[attempt.job]
    if attempt.may_run and claims_of(state, attempt.members):
        return
    if attempt.may_run and all(
        m.end is not None and m.end.succeeded for m in deciding_members(attempt)
    ):
        job.setbacks.pop()
        finish(state, attempt, f"all had ended well before they were stopped: {reason}", now)
        return
    if attempt.may_run and job.deadline_at is not None:  # a later start is not what was asked for
        fail(state, job, f"{reason}; no try is left for its deadline", now)
        return
    state.remove_attempt(job)
    if not job.spec.rerun and any(_may_have_run(attempt, m) for m in attempt.members):
        fail(state, job, f"rerun=no, and it had started: {reason}", now)
    else:
        enter_queue(state, job, f"back in its placement queue: {reason}", now)
        if not state.is_paced and job.not_before > now:
            state.timers.set(job.not_before, TimerKind.SCAN)


def _may_have_run(attempt: Attempt, member: Member) -> bool:
    """Return True if the member passed the barrier, or if its starter was lost and might have."""
    lost = (EndKind.FENCED, EndKind.VANISHED)
    is_unknown = attempt.may_run and member.end is not None and member.end.kind in lost
    return member.passed_at is not None or is_unknown


def invalidate_after_loss(state: State, now: Instant) -> None:
    """Invalidate unreleased attempts after a loss of events.

    Jobs may have gone further than the journal says: attempts may have been released, and newer
    attempts may exist. So every attempt that is not known as released is given up. No job is placed
    again before the claims of unknown attempts are stopped or their leases have expired.
    """
    again_at = now + state.parameters.fence_s
    for job in tuple(state.jobs.values()):
        if job.has_ended:
            continue
        job.attempt_min = max(job.attempts, job.attempt_min) + LOST_ATTEMPTS_MAX
        job.not_before = max(job.not_before, again_at)
        if isinstance(job.phase, Placing) and job.deadline_at is None:
            state.fresh[job.id] = job  # to be tried then, even if nothing else changes
        if not isinstance(job.phase, Claiming | Queued | Starting):
            continue
        attempt = job.phase.attempt
        attempt.may_run = True
        set_back(state, attempt, "a part of the journal is lost", now)
        for claim in claims_of(state, attempt.members):
            if isinstance(claim.phase, Stopped):
                claim.phase = replace(claim.phase, may_run=True)
    state.timers.set(again_at, TimerKind.SCAN)
