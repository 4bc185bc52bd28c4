"""Ends and setbacks of jobs: finished, failed, cancelled, or queued again behind the fence.

Every end of an attempt goes through `stop_attempt`, so no claim is left without a Stop.
"""

from __future__ import annotations

from dataclasses import replace

from koala.core.model import events as ev
from koala.core.model.actions import CancelTransfer, PublishOutputs, StopClaim
from koala.core.model.charges import Setback
from koala.core.model.claim import Claim, Stopped
from koala.core.model.job import (
    Attempt,
    Cancelled,
    Claiming,
    Delayed,
    EndKind,
    Failed,
    Finished,
    Job,
    Member,
    Placing,
    Releasing,
    Running,
    Starting,
    Stopping,
    Terminal,
    Waiting,
)
from koala.core.model.replicas import Transfer
from koala.core.model.timeline import lowered_fraction
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, SiteName, TransferId
from koala.core.pipeline.claiming_schedule import deadline_missed_at, tries_left
from koala.core.pipeline.dependencies import remove_dependencies, resolve_successors
from koala.core.pipeline.queue_entry import admit, enter_queue, set_timer
from koala.core.queries import claim_of, claims_of, describe, is_held
from koala.core.state import State

LOST_ATTEMPTS_MAX = 1_000
"""Upper bound of the attempts of one job in a lost part of the journal."""


def end(state: State, job: Job, phase: Terminal, text: str, now: Instant) -> None:
    """End a job in a terminal phase; stops of claims that it still has are pending in the ledger.
    `text` adds to the phase's name.
    """
    state.queues.remove(job)
    state.fresh.pop(job.id, None)
    remove_dependencies(state, job)
    attempt = state.placed.pop(job.id, None)
    if attempt is not None:
        stop_attempt(state, attempt, now)
    state.enter(job, phase, text, now)
    admit(state, now)
    resolve_successors(state, job, now)
    if attempt is None:
        state.request_scan()
    else:
        state.request_scan(*sites_by_allocation(job, attempt))


def fail(state: State, job: Job, reason: str, now: Instant, *, status: int | None = None) -> None:
    """End a job as Failed, with the reason and, if its program caused it, the exit status."""
    attempt = state.placed.get(job.id)
    end(state, job, Failed(at=now, reason=reason, status=status, attempt=attempt), reason, now)


def on_missed(state: State, job: Job, now: Instant) -> None:
    """Fail a job that has missed its deadline by more than allowed."""
    if job.is_over:
        return
    if now < deadline_missed_at(state, job):
        set_timer(state, job, TimerKind.MISS, deadline_missed_at(state, job), now)
        return
    if not isinstance(job.phase, Waiting | Delayed | Placing | Claiming | Starting):
        return
    late_s = state.parameters.late_max_s
    obstacle = describe_obstacle(state, job)
    fail(state, job, f"deadline missed by more than {late_s:g} s: {obstacle}", now)


def describe_obstacle(state: State, job: Job) -> str:
    """Describe the obstacle that kept a job with a deadline from starting."""
    attempt = state.placed.get(job.id)
    if isinstance(job.phase, Waiting):
        return f"it waited for {', '.join(job.phase.on)}"
    if attempt is None:
        return "it was delayed" if isinstance(job.phase, Delayed) else "it was not placed"
    missing = [m for m in attempt.present if not is_held(state, m)]
    if missing:
        return "not claimed: " + ", ".join(describe(job, member) for member in missing)
    fetching = [m for m in attempt.present if m.lacks_file]
    if fetching:
        return "no input file yet: " + ", ".join(describe(job, member) for member in fetching)
    return f"not armed in {job.phase.arms if isinstance(job.phase, Starting) else 0} rounds"


def on_cancel(state: State, event: ev.JobCancelRequested, now: Instant) -> None:
    """End a job as Cancelled at a user's request; one that is over stays as it is."""
    job = state.jobs.get(event.job)
    if job is None or job.is_over:
        return
    reason = f"by {event.by or 'somebody without a name'}"
    phase = Cancelled(at=now, reason=reason, attempt=state.placed.get(job.id))
    end(state, job, phase, reason, now)


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


def invalidate_after_loss(state: State, now: Instant) -> None:
    """Invalidate unreleased attempts after a loss of events.

    Jobs may have gone further than the journal says: attempts may have been released, and newer
    attempts may exist. So every attempt that is not known as released is given up. No job is placed
    again before the claims of unknown attempts are stopped or their leases have expired.
    """
    again_at = now + state.parameters.fence_s
    for job in tuple(state.jobs.values()):
        if job.is_over:
            continue
        job.attempt_min = max(job.attempts, job.attempt_min) + LOST_ATTEMPTS_MAX
        job.not_before = max(job.not_before, again_at)
        if isinstance(job.phase, Placing) and job.deadline_at is None:
            state.fresh[job.id] = job  # to be tried then, even if nothing else changes
        if not isinstance(job.phase, Claiming | Starting):
            continue
        attempt = job.phase.attempt
        attempt.may_run = True
        set_back(state, attempt, "a part of the journal is lost", now)
        for claim in claims_of(state, attempt.members):
            if isinstance(claim.phase, Stopped):
                claim.phase = replace(claim.phase, may_run=True)
    state.timers.set(again_at, TimerKind.SCAN)


def sites_by_allocation(job: Job, attempt: Attempt) -> list[SiteName]:
    """Return the sites of a job's attempt in the order of allocation, that of the largest component
    first (Multiple queues 2.5)."""
    sizes = [-component.processors for component in job.spec.components]
    members = sorted(attempt.members, key=lambda m: (sizes[m.component], m.component))
    return [member.site for member in members if member.site is not None]


def stop_attempt(state: State, attempt: Attempt, now: Instant) -> None:
    """Stop all claims of an attempt and cancel its copies."""
    for member in attempt.members:
        stop_member(state, member)
        for transfer in member.transfers:
            cancel_transfer(state, transfer, now)


def stop_member(state: State, member: Member) -> None:
    """Stop a member's claim, unless it is gone or its stop is pending."""
    claim = claim_of(state, member)
    if claim is not None and not isinstance(claim.phase, Stopped):
        stop_claim(state, claim)


def stop_claim(state: State, claim: Claim, *, is_silent: bool = False) -> None:
    """Order the stop of a claim; it stays in the ledger until it is gone."""
    claim.phase = Stopped(
        grant=claim.grant, passed_at=claim.passed_at, may_run=claim.may_run, is_silent=is_silent
    )
    state.actions.append(StopClaim(claim=claim.id, site=claim.site))


def drop_member(state: State, attempt: Attempt, member: Member, reason: str, now: Instant) -> None:
    """Drop a member from its attempt: stop its claim, cancel its copies, announce the reason."""
    job = state.jobs[attempt.job]
    member.is_dropped = True
    stop_member(state, member)
    drop_transfer(state, attempt, member, now)
    state.announce(job, f"goes on without {describe(job, member)}: {reason}", now)


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
        m.end is not None and m.end.is_well for m in deciding_members(attempt)
    ):
        job.setbacks.pop()
        finish(state, attempt, f"all had ended well before they were stopped: {reason}", now)
        return
    if attempt.may_run and job.deadline_at is not None:  # a later start is not what was asked for
        fail(state, job, f"{reason}; no try is left for its deadline", now)
        return
    del state.placed[job.id]
    if not job.spec.rerun and any(_may_have_run(attempt, m) for m in attempt.members):
        fail(state, job, f"rerun=no, and it had started: {reason}", now)
    else:
        enter_queue(state, job, f"back in its placement queue: {reason}", now)
        if not state.is_paced and job.not_before > now:
            state.timers.set(job.not_before, TimerKind.SCAN)


def finish_if_over(state: State, attempt: Attempt, now: Instant) -> None:
    """Finish a job whose barrier members all ended well, after stopping those without a barrier."""
    if not isinstance(state.jobs[attempt.job].phase, Releasing | Running):
        return
    if any(member.end is None for member in deciding_members(attempt)):
        return
    running = [member for member in attempt.present if member.end is None]
    for member in running:
        stop_member(state, member)
    if not running:
        finish(state, attempt, "", now)


def finish(state: State, attempt: Attempt, text: str, now: Instant) -> None:
    """End a job as Finished, and publish the outputs of this attempt."""
    end(state, state.jobs[attempt.job], Finished(at=now, attempt=attempt), text, now)
    state.actions.append(PublishOutputs(job=attempt.job, attempt=attempt.number))


def deciding_members(attempt: Attempt) -> list[Member]:
    """Return the members whose ends decide the job's: those with a barrier, or all if there are
    none."""
    return attempt.with_barrier or attempt.present


def cancel_transfer(state: State, wanted: TransferId, now: Instant) -> None:
    """Cancel a copy at both sites; one that was slow lowers the estimate of its link."""
    transfer = state.files.transfers.pop(wanted, None)
    if transfer is not None:
        default_bps = state.parameters.bandwidth_default_bps
        # While the daemon was down the copy may have stalled, and the clock may have been set.
        seen_from = max(transfer.started_at, state.started_at)
        if _both_ends_were_here(state, transfer, seen_from):
            state.files.learn_slow(transfer, ran_s=now - seen_from, default_bps=default_bps)
        state.actions.append(
            CancelTransfer(transfer=transfer.id, source=transfer.source, target=transfer.target)
        )


def _both_ends_were_here(state: State, transfer: Transfer, since: Instant) -> bool:
    """Return True if both sites were connected all the time, so that only the link was slow."""
    ends = (state.sites[transfer.source], state.sites[transfer.target])
    return all(site.is_connected and site.disconnected_at <= since for site in ends)


def drop_transfer(state: State, attempt: Attempt, member: Member, now: Instant) -> None:
    """Drop the copies for a member; each is cancelled unless another member uses it."""
    dropped = member.transfers
    member.transfer, member.more_transfers = None, ()
    used = {one for other in attempt.present for one in other.transfers} if dropped else set()
    for wanted in dropped:
        if wanted not in used:
            cancel_transfer(state, wanted, now)


def refund_hold(state: State, claim: Claim, now: Instant) -> None:
    """Refund the unused hold to the budgets when a claim passes or ends."""
    job = state.jobs[claim.job]
    if claim.id not in state.user_budgets[job.spec.owner]:
        return
    until = claim.passed_at if claim.passed_at is not None else now
    held_s = 0.0
    if claim.grant is not None:
        held_s = claim.processors * max(0.0, until - claim.grant.at)
        job.wasted_s += held_s
    state.user_budgets[job.spec.owner].refund(claim.id, held_s)
    state.site_budgets[claim.site].refund(claim.id, held_s)


def _may_have_run(attempt: Attempt, member: Member) -> bool:
    """Return True if the member passed the barrier, or if its starter was lost and might have."""
    lost = (EndKind.FENCED, EndKind.VANISHED)
    is_unknown = attempt.may_run and member.end is not None and member.end.kind in lost
    return member.passed_at is not None or is_unknown
