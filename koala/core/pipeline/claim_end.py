"""Apply the end of a claim to its site and its job (KOALA 3.4; design: Failure)."""

from __future__ import annotations

from dataclasses import replace

from koala.core.model import events as ev
from koala.core.model.actions import AcknowledgeClaim
from koala.core.model.claim import Claim, Released, Stopped, claim_charge
from koala.core.model.job import (
    SITE_FAULTS,
    Attempt,
    ClaimEnd,
    Claiming,
    EndKind,
    Job,
    Member,
    Queued,
    Releasing,
    Starting,
    Stopping,
)
from koala.core.model.values import Instant
from koala.core.pipeline.claiming import after_answer, bind, split_lost
from koala.core.pipeline.ending import (
    deciding_members,
    drop_member,
    fail,
    finish_if_over,
    refund_hold,
    stop_claim,
)
from koala.core.pipeline.progress_control import restore_full_speed
from koala.core.pipeline.refusals import (
    count_end_for_site,
    is_permanent_refusal,
    is_refusal,
    note_failed_program,
    note_refusal,
)
from koala.core.pipeline.requeueing import requeue_if_fenced, set_back
from koala.core.pipeline.resizing.growth import lose_addition, on_resize_gone
from koala.core.pipeline.resizing.leaving import tell_world
from koala.core.pipeline.start_barrier import advance_start, run_if_passed
from koala.core.pipeline.tickets.plans import plan_tickets
from koala.core.pipeline.tickets.ticket_events import on_hold_lost, on_ticket_gone
from koala.core.queries import describe, is_enough, is_optional_member, member_of, ticket_of
from koala.core.sites import decrease_window, note_gone
from koala.core.state import State

LIMIT_ERROR_S = 1.0
"""Most by which the run of a program until its limit seems shorter than that."""


def on_fenced(state: State, event: ev.ClaimFenced, now: Instant) -> None:
    """Fence a claim that was silent past its lease, or told no pass. A connected site first gets a
    Stop for what it may still have of the claim, and time to answer."""
    claim = state.ledger.get(event.claim)
    if claim is None:
        return
    site = state.sites[claim.site]
    is_frozen = site.is_connected and isinstance(claim.phase, Released)
    reason = "armed, then told neither a pass nor an end" if is_frozen else "silent past its lease"
    end = ClaimEnd(kind=EndKind.FENCED, reason=reason, ended_at=now)
    is_asked = isinstance(claim.phase, Stopped) or member_of(state, claim) is None
    if site.is_connected and not is_asked:
        count_end_for_site(state, site, claim, end, now)
        mark_unreachable(state, claim, end, now, is_silent=True)
        return
    on_gone(state, ev.ClaimGone(claim=event.claim, end=end), now)


def on_gone(state: State, event: ev.ClaimGone, now: Instant) -> None:
    """Remove a claim that is gone from the ledger, and apply its end to its site and job."""
    identity, end = event.claim, event.end
    claim = state.ledger.get(identity)
    if claim is None:
        return
    if end.kind is EndKind.EXITED and not claim.may_run:  # it cannot have run without a Release
        end = replace(end, kind=EndKind.VANISHED, reason="said to have run without a Release")
    if end.kind is EndKind.UNKNOWN and claim.may_run and claim.grant is not None:
        mark_unreachable(state, claim, end, now)
        return
    if claim.grant is None and event.began_at is not None:  # nobody told while it held them
        bind(claim, ev.ClaimGranted(claim=identity, nonce="", began_at=event.began_at), now)
    del state.ledger[identity]
    refund_hold(state, claim, now)
    if claim.grant is not None or end.kind in SITE_FAULTS:
        charge = claim_charge(claim, end, now, batch_job=event.batch_job)
        state.jobs[claim.job].charges.append(charge)
    if claim.passed_at is not None:
        job = state.jobs[claim.job]
        job.ran_s += claim.processors * max(0.0, (end.ended_at or now) - claim.passed_at)
    site = state.sites[claim.site]
    note_gone(site, identity)
    if end.kind is not EndKind.FENCED:
        state.actions.append(AcknowledgeClaim(claim=identity, site=claim.site))
    if not (isinstance(claim.phase, Stopped) and claim.phase.is_silent):
        count_end_for_site(state, site, claim, end, now)
    is_slow = is_refusal(claim, end, now) and not is_permanent_refusal(claim, end, now)
    if claim.grant is None and is_slow:
        decrease_window(site, claim.ask_number)
    state.request_scan()
    _apply_to_job(state, claim, end, now)


def _apply_to_job(state: State, claim: Claim, end: ClaimEnd, now: Instant) -> None:
    """Apply the end of a claim to the component that had it, or waited for it."""
    if (current := member_of(state, claim)) is not None:
        on_member_gone(state, *current, claim, end, now)
    elif (waiting := ticket_of(state, claim)) is not None:
        on_ticket_gone(state, *waiting, claim, end, now)


def mark_unreachable(
    state: State, claim: Claim, end: ClaimEnd, now: Instant, *, is_silent: bool = False
) -> None:
    """Mark a claim as unreachable: its agent lost its record of it, or it is silent.

    Its starter may live, so the claim is stopped but stays in the ledger. Only a report of its
    agent, the fence or an operator ends it."""
    current = member_of(state, claim)
    if current is None or isinstance(claim.phase, Stopped):
        return
    stop_claim(state, claim, is_silent=is_silent)
    lose_member(state, *current, end, now)


def on_member_gone(
    state: State, attempt: Attempt, member: Member, claim: Claim, end: ClaimEnd, now: Instant
) -> None:
    """Apply the end of a member's claim to its job: ask again, go on without it, retry, finish or
    set the job back."""
    job = state.jobs[attempt.job]
    member.claim = None
    # The others were stopped.
    is_ending = all(decider.end is not None for decider in deciding_members(attempt))
    if isinstance(job.phase, Stopping):
        member.end = end
        requeue_if_fenced(state, job.phase, now)
    elif member.is_dropped:
        finish_if_over(state, attempt, now)
    elif isinstance(job.phase, Queued) and not end.is_program:
        on_hold_lost(state, attempt, member, end, now)
    elif end.kind is EndKind.REFUSED and isinstance(job.phase, Claiming):
        member.refusal = end.reason or "refused: not started within the grace time"
        note_refusal(state, job, claim, end, now)
        after_answer(state, attempt, now)
    elif not is_ending and on_resize_gone(state, attempt, member, claim, end, now):
        pass  # the job goes on
    elif end.succeeded or is_ending:
        lacked_file = member.lacks_file
        member.end = end
        restore_full_speed(state, attempt)
        tell_world(state, attempt)
        after_answer(state, attempt, now)
        if lacked_file and isinstance(job.phase, Starting):
            advance_start(state, job.phase, now)
        finish_if_over(state, attempt, now)
    elif _is_end_of_job(job, member, end, now):
        member.end = end
        program_failed(state, attempt, member, end, now)
    else:
        lose_member(state, attempt, member, end, now)


def _is_end_of_job(job: Job, member: Member, end: ClaimEnd, now: Instant) -> bool:
    """Return True if a failure of a component's program is that of its job. A malleable job goes on
    without the component, but not past the limit that it asked for; a site's may be shorter."""
    if not end.is_program or job.spec.quorum is not None:
        return False
    limit_s = job.spec.component(member.component).wall_time_s
    if not job.spec.is_malleable or end.kind is not EndKind.WALL_TIME:
        return not job.spec.is_malleable
    ran_s = 0.0 if member.passed_at is None else (end.ended_at or now) - member.passed_at
    return limit_s is not None and ran_s > limit_s - LIMIT_ERROR_S


def lose_member(
    state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant
) -> None:
    """Handle the loss of a component by a fault of its site, or of a quorum's component by its own:
    go on without it, or set the job back.
    """
    job = state.jobs[attempt.job]
    if member in attempt.joining:
        lose_addition(state, attempt, member, end.describe(), now)
        return
    member.end = end
    text = f"{describe(job, member)}: {end.describe()}"
    # Those that leave are not counted: without them the job would seem to be over.
    stays = [m for m in attempt.present if m.leave_at is None]
    left = [m for m in stays if m not in (member, *attempt.joining)]
    is_optional = is_optional_member(job, member.component) and job.release is None
    may_lose = is_optional or job.spec.quorum is not None or job.spec.is_malleable
    if may_lose and is_enough(job, left):
        drop_member(state, attempt, member, end.describe(), now)
        if job.spec.is_malleable and end.is_program and member.site is not None:
            since = now if member.passed_at is None else member.passed_at
            note_failed_program(state, job, member.site, end.describe(), now, since=since)
        restore_full_speed(state, attempt)
        tell_world(state, attempt)
        proceed_without_member(state, attempt, now)
    elif end.is_program:
        program_failed(state, attempt, member, end, now)
    else:
        job.failures += end.kind in SITE_FAULTS
        if end.kind is EndKind.HOLD and not all(present.is_fetched for present in attempt.present):
            job.awaits_files = True
        if end.kind is not EndKind.HOLD and split_lost(state, attempt, member, text, now):
            return
        passed = [m.passed_at is not None for m in attempt.members]
        is_partial = isinstance(job.phase, Releasing) and any(passed) and not all(passed)
        set_back(state, attempt, f"partial start: {text}" if is_partial else text, now)


def proceed_without_member(state: State, attempt: Attempt, now: Instant) -> None:
    """Proceed after a member was dropped: the others may have waited for it alone."""
    job = state.jobs[attempt.job]
    match job.phase:
        case Claiming():
            after_answer(state, attempt, now)
        case Queued():
            plan_tickets(state, attempt, now)
        case Starting() as starting:
            again = replace(starting, arming=None)
            state.enter(job, again, "", now)
            advance_start(state, again, now)
        case _:
            run_if_passed(state, attempt, now)
            finish_if_over(state, attempt, now)


def program_failed(
    state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant
) -> None:
    """Handle a failed program, which is no error of the site: retry the job if it has retries left,
    else fail it. A job with a deadline is not retried.
    """
    job = state.jobs[attempt.job]
    text = f"component {describe(job, member)}: {end.describe()}"
    if job.retries < job.spec.retries and job.deadline_at is None:
        job.retries += 1
        set_back(state, attempt, f"{text}; retry {job.retries} of {job.spec.retries}", now)
    else:
        fail(state, job, text, now, status=end.status)
