"""End jobs: finished, failed or cancelled; stop attempts and claims.

Every end of an attempt goes through `stop_attempt`, so no claim is left without a Stop.
"""

from __future__ import annotations

from collections.abc import Collection

from koala.core.model import events as ev
from koala.core.model.actions import CancelTransfer, PublishOutputs, StopClaim
from koala.core.model.allowances import payers_of
from koala.core.model.claim import Claim, Stopped
from koala.core.model.job import (
    Attempt,
    Cancelled,
    Claiming,
    Delayed,
    Failed,
    Finished,
    Job,
    Member,
    Placing,
    Releasing,
    Running,
    Starting,
    Terminal,
    Waiting,
)
from koala.core.model.replicas import Transfer
from koala.core.model.timers import TimerKind
from koala.core.model.values import ClaimId, Instant, SiteName, TransferId
from koala.core.pipeline.claiming_schedule import deadline_missed_at
from koala.core.pipeline.dependencies import remove_dependencies, resolve_successors
from koala.core.pipeline.queue_entry import admit, set_timer
from koala.core.queries import claim_of, describe, is_held
from koala.core.state import State


def end(state: State, job: Job, phase: Terminal, text: str, now: Instant) -> None:
    """End a job in a terminal phase; stops of claims that it still has are pending in the ledger.
    `text` adds to the phase's name.
    """
    state.queues.remove(job)
    state.fresh.pop(job.id, None)
    remove_dependencies(state, job)
    attempt = state.remove_attempt(job)
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
    if job.has_ended:
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
    if job is None or job.has_ended:
        return
    reason = f"by {event.by or 'somebody without a name'}"
    phase = Cancelled(at=now, reason=reason, attempt=state.placed.get(job.id))
    end(state, job, phase, reason, now)


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
    """Stop a member's claim, unless it is gone or its stop is pending, and its tickets."""
    withdraw_tickets(state, member)
    claim = claim_of(state, member)
    if claim is not None and not isinstance(claim.phase, Stopped):
        stop_claim(state, claim)


def withdraw_tickets(
    state: State, member: Member, *, at: SiteName | None = None, keep: Collection[ClaimId] = ()
) -> None:
    """Withdraw the tickets and bookings of a member, at all sites or one, but some."""
    if not member.tickets:
        return
    tickets = [state.ledger[name] for name in member.tickets]
    unwanted = [claim for claim in tickets if at in (None, claim.site) and claim.id not in keep]
    member.tickets = tuple([ticket.id for ticket in tickets if ticket not in unwanted])
    for ticket in unwanted:
        stop_claim(state, ticket)


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
    drop_copies(state, attempt, member, member.transfers, now)
    if job.spec.is_malleable:
        state.recount(job, attempt)
    state.announce(job, f"goes on without {describe(job, member)}: {reason}", now)


def finish_if_over(state: State, attempt: Attempt, now: Instant) -> None:
    """Finish a job whose barrier members all ended well, after stopping those without a barrier."""
    if not isinstance(state.jobs[attempt.job].phase, Releasing | Running):
        return
    if any(member.end is None for member in deciding_members(attempt)):
        return
    running = [member for member in attempt.present if member.end is None]
    joining = attempt.joining
    for member in running:
        if member in joining:
            member.leave_at = now  # it may still pass, and is not waited for to end well
        stop_member(state, member)
    if not running:
        finish(state, attempt, "", now)


def finish(state: State, attempt: Attempt, text: str, now: Instant) -> None:
    """End a job as Finished, and publish the outputs of this attempt."""
    end(state, state.jobs[attempt.job], Finished(at=now, attempt=attempt), text, now)
    state.actions.append(PublishOutputs(job=attempt.job, attempt=attempt.number))


def deciding_members(attempt: Attempt) -> list[Member]:
    """Return the members whose ends decide the job's: those with a barrier, or all if there are
    none. One that is about to join a running job does not count yet."""
    joining = attempt.joining
    return [m for m in attempt.with_barrier if m not in joining] or attempt.present


def cancel_transfer(state: State, transfer_id: TransferId, now: Instant) -> None:
    """Cancel a copy at both sites; one that was slow lowers the estimate of its link."""
    transfer = state.files.transfers.pop(transfer_id, None)
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


def drop_copies(
    state: State, attempt: Attempt, member: Member, dropped: Collection[TransferId], now: Instant
) -> None:
    """Drop copies of a member; each is cancelled unless another member uses it."""
    member.transfers = tuple([copy_id for copy_id in member.transfers if copy_id not in dropped])
    used = (
        {copy_id for reader in attempt.present for copy_id in reader.transfers}
        if dropped
        else set()
    )
    for wanted in dropped:
        if wanted not in used:
            cancel_transfer(state, wanted, now)


def refund_hold(state: State, claim: Claim, now: Instant) -> None:
    """Refund the unused hold to the budgets when a claim passes or ends."""
    job = state.jobs[claim.job]
    budgets = [state.payer_budgets.get(payer) for payer in payers_of(job.spec)]
    charged = [budget for budget in budgets if budget is not None and claim.id in budget]
    if not charged:
        return  # a ticket that has not started is not charged
    until = claim.passed_at if claim.passed_at is not None else now
    held_s = 0.0
    if claim.grant is not None:
        held_s = claim.processors * max(0.0, until - claim.grant.held_from)
        job.wasted_s += held_s
    for budget in (*charged, state.site_budgets[claim.site]):
        budget.refund(claim.id, held_s)
