"""Events of tickets: one starts, ends or is lost, or its expected start is told."""

from __future__ import annotations

from koala.core.model import events as ev
from koala.core.model.claim import Asked, Claim
from koala.core.model.job import SITE_FAULTS, Attempt, ClaimEnd, EndKind, Member
from koala.core.model.replicas import Transfer
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName
from koala.core.pipeline.claiming import bind, charge_hold
from koala.core.pipeline.copying import move_to
from koala.core.pipeline.ending import stop_claim
from koala.core.pipeline.refusals import note_refusal
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.tickets.leaving import end_hold, give_back, leave_site
from koala.core.pipeline.tickets.parts import rest, why_no_hold
from koala.core.pipeline.tickets.plans import plan_tickets
from koala.core.queries import describe, ticket_of
from koala.core.state import State
from koala.core.stated_starts import note_start, note_told_start
from koala.core.ticket_sites import booking_at, sites_of, tickets_at

LOSSES = (EndKind.REFUSED, EndKind.FAILED, EndKind.SITE)
"""Ends of tickets after which no other is queued in their place."""


def on_ticket_started(state: State, event: ev.ClaimGranted, now: Instant) -> None:
    """Let a ticket hold for its component, or give it back at once if nothing needs it."""
    ticket = state.ledger.get(event.claim)
    if ticket is None or not ticket.is_ticket or not isinstance(ticket.phase, Asked):
        return
    note_start(state.sites[ticket.site], ticket, now)
    bind(ticket, event, now)
    found = ticket_of(state, ticket)
    if found is None:
        return
    attempt, member = found
    job = state.jobs[attempt.job]
    member.tickets = tuple(queued for queued in member.tickets if queued != ticket.id)
    rest(state, member, now)
    site = state.sites[ticket.site]
    if member.claim is not None:
        stop_claim(state, ticket)
    elif pause := why_no_hold(state, attempt, member, site, ticket.hold_s, now, ticket):
        member.refusal = pause
        member.given_back_at = now
        stop_claim(state, ticket)
        label = job.spec.label(member.component)
        state.announce(job, f"component {label} may not hold at {site.name}: {pause}", now)
    else:
        processor_s = ticket.processors * ticket.hold_s
        charge_hold(state, job, ticket.id, ticket.site, processor_s, now)
        move_to(state, member, ticket.site, others=sites_of(member))
        member.claim = ticket.id
        member.claimed_at = now
        member.refusal = ""
        job.gained_s += ticket.processors * (now - attempt.placed_at)
        label = job.spec.label(member.component)
        state.announce(job, f"component {label} holds {ticket.processors} processors", now)
    plan_tickets(state, attempt, now)


def on_ticket_gone(
    state: State, attempt: Attempt, member: Member, ticket: Claim, end: ClaimEnd, now: Instant
) -> None:
    """Replace a ticket that has ended without a start; one that was refused is not replaced. Where
    a site cancels what it sees gated, the last one is: its agent uses another gate then. A booking
    that was refused or is lost is made again for a later instant, as the policy plans it."""
    job = state.jobs[attempt.job]
    member.tickets = tuple([queued for queued in member.tickets if queued != ticket.id])
    if ticket.begins_at:
        if end.kind in LOSSES:
            member.refusal = end.reason or end.kind.value
            member.not_booked = {**(member.not_booked or {}), ticket.site: ticket.begins_at}
            if now >= member.doubt_at:
                member.doubt_s = 2 * (member.doubt_s or state.parameters.claiming_step_min_s)
                member.doubt_at = now + member.doubt_s
        label = job.spec.label(member.component)
        text = f"component {label} has no booking at {ticket.site}: {end.describe()}"
        state.announce(job, text, now)
    elif end.kind in LOSSES:
        left = len(tickets_at(state, member, ticket.site))
        is_purged = end.kind is EndKind.SITE and ticket.is_gated
        is_booked = booking_at(state, member, ticket.site) is not None
        is_lost = not (left or is_booked or is_purged) and member.claim is None
        member.refusal = end.reason or end.kind.value
        limits = {} if member.tickets_max is None else member.tickets_max
        member.tickets_max = {**limits, ticket.site: max(left, int(is_purged))}
        note_refusal(state, job, ticket, end, now)
        reason = f"{describe(job, member)}: {end.describe()}"
        if is_lost and not leave_site(state, attempt, member, ticket.site, reason, now):
            return
    else:
        rest(state, member, now)
    plan_tickets(state, attempt, now)


def on_hold_lost(
    state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant
) -> None:
    """Queue another ticket for a component whose hold has ended before the others came up. The next
    one keeps its place also after a fault of the site; without one the site is left."""
    job = state.jobs[attempt.job]
    end_hold(member, now)
    member.refusal = end.describe()
    label = job.spec.label(member.component)
    state.announce(job, f"component {label} has lost {member.site}: {end.describe()}", now)
    if end.kind in SITE_FAULTS and end.kind is not EndKind.LEASE:  # that may be the daemon's
        job.failures += 1
        assert member.site is not None
        reason = f"{describe(job, member)}: {end.describe()}"
        if not tickets_at(state, member, member.site) and not leave_site(
            state, attempt, member, member.site, reason, now
        ):
            return
    plan_tickets(state, attempt, now)


def on_starts_told(
    state: State, starts: tuple[tuple[ClaimId, Seconds | None], ...], now: Instant
) -> None:
    """Note the expected starts of claims; plan at once for a job with tickets that was not told any
    before."""
    news: dict[JobId, Attempt] = {}
    for name, start_s in starts:
        ticket = state.ledger.get(name)
        if ticket is None or ticket.begins_at or not isinstance(ticket.phase, Asked):
            continue
        note_told_start(state.sites[ticket.site], ticket, start_s, now)
        found = ticket_of(state, ticket)
        if found is None:
            continue
        if start_s is not None and not ticket.has_told_start:
            ticket.has_told_start = True
            news[ticket.job] = found[0]
    for attempt in news.values():
        plan_tickets(state, attempt, now)


def leave_silent_site(state: State, attempt: Attempt, site: SiteName, now: Instant) -> None:
    """Give up what a queued job holds at a site that was silent past the hold lease."""
    for member in attempt.present:
        if member.site == site and member.claim is not None:
            give_back(state, attempt, member, "the site has been silent past the hold lease", now)
    plan_tickets(state, attempt, now)


def leave_without_files(
    state: State, attempt: Attempt, transfer: Transfer, reason: str, now: Instant
) -> None:
    """Leave the site of a copy that has failed, or set the job back where a component waits there
    alone, or holds there."""
    for member in attempt.present:
        if transfer.id not in member.transfers:
            continue
        member.transfers = tuple([one for one in member.transfers if one != transfer.id])
        if not member.others or (member.claim is not None and member.site == transfer.target):
            set_back(state, attempt, reason, now)
            return
        leave_site(state, attempt, member, transfer.target, reason, now)
    plan_tickets(state, attempt, now)
