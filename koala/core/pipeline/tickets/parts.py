"""The part of a plan that is about one component at one site: tickets, gates, bookings."""

from __future__ import annotations

from koala.core.model.claim import Claim
from koala.core.model.grid import Assignment, Site
from koala.core.model.job import Attempt, Member
from koala.core.model.values import ClaimId, Instant, Seconds
from koala.core.pipeline.claiming import BUDGET_IS_USED, is_affordable, new_claim, order_claim
from koala.core.pipeline.ending import withdraw_tickets
from koala.core.pipeline.tickets.eligibility import tickets_left
from koala.core.pipeline.tickets.leaving import give_back, is_shut
from koala.core.pipeline.wanted import hold
from koala.core.policy_api import PartPlan
from koala.core.queries import is_held
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.ticket_sites import booking_at, may_hold, tickets_at, why_no_ticket

SHARE_IS_USED = "as much is held at the site as is allowed"
PAUSES = (BUDGET_IS_USED, SHARE_IS_USED)
"""Reasons for which a component may not hold for a while."""
TOLD_AGAIN_S = 6 * 3600.0
"""Time after which a site is told again that a ticket is wanted: a quarter of an agent's patience
(`koala_agent.claims.table.TICKET_S`)."""
SAME_S = 1.0
"""A booking is moved only by more."""


def apply_part(
    state: State, attempt: Attempt, plan: PartPlan, hold_s: Seconds, now: Instant
) -> None:
    """Apply the plan of a component at one of its sites."""
    member, site = attempt.members[plan.component], state.sites[plan.site]
    if plan.gives_back and member.claim is not None:
        give_back(state, attempt, member, "the others come up later", now)
    most = plan.tickets
    if member.tickets_max is not None:
        most = min(most, member.tickets_max.get(site.name, most))
    tickets = tickets_at(state, member, site.name)[:most]
    bookings = _good_bookings(state, member, plan, now)
    withdraw_tickets(state, member, at=site.name, keep=[*tickets, *bookings])
    rests = now < member.rests_until and not _is_last(state, attempt, member)
    open_ = 0 if rests else plan.open
    if open_ and not _may_open(state, attempt, member, site, hold_s, now):
        open_ = 0
    can_gate = bool(site.facts.gate)
    for place, ticket in enumerate(tickets):
        is_gated = can_gate and place >= open_
        _set_gate(state, attempt, state.ledger[ticket], now, is_gated=is_gated)
    for booking in bookings:
        _set_gate(state, attempt, state.ledger[booking], now, is_gated=False)
    if not is_usable(site):
        return
    if plan.begin_s is not None and not (bookings or rests):
        _book(state, attempt, member, site, now + plan.begin_s, hold_s, now)
    for place in range(len(tickets), most if can_gate else min(most, open_)):
        if not _may_queue(state, attempt, member, site):
            return
        _queue_ticket(state, attempt, member, site, hold_s, now, is_gated=place >= open_)


def rest(state: State, member: Member, now: Instant) -> None:
    """Let a component rest, for twice as long as the last time."""
    limits = state.parameters
    longest_s = max(limits.claiming_step_min_s, limits.scan_interval_s)
    member.rest_s = min(2 * (member.rest_s or limits.claiming_step_min_s), longest_s)
    member.rests_until = now + member.rest_s


def _is_last(state: State, attempt: Attempt, member: Member) -> bool:
    """Return True if all other components hold."""
    return all(is_held(state, present) for present in attempt.present if present is not member)


def _good_bookings(state: State, member: Member, plan: PartPlan, now: Instant) -> list[ClaimId]:
    """Return the booking of a component at a site, unless it shall be moved, which is noted, or
    given back."""
    booking = booking_at(state, member, plan.site)
    if booking is None or plan.begin_s is None:
        return []
    if abs(booking.begins_at - now - plan.begin_s) <= SAME_S:
        return [booking.id]
    member.moved_from = {**(member.moved_from or {}), plan.site: booking.begins_at}
    return []


def _book(
    state: State, attempt: Attempt, member: Member, site: Site,
    begins_at: Instant, hold_s: Seconds, now: Instant,
) -> None:  # fmt: skip
    """Book a site for a component, unless it could not hold there."""
    is_allowed = _may_open(state, attempt, member, site, hold_s, now)
    if is_allowed and _may_queue(state, attempt, member, site):
        _queue_ticket(state, attempt, member, site, hold_s, now, begins_at=begins_at)
        job = state.jobs[attempt.job]
        label, in_s = job.spec.label(member.component), begins_at - now
        state.announce(job, f"component {label} books {site.name}, to begin in {in_s:.0f} s", now)


def _may_open(
    state: State, attempt: Attempt, member: Member, site: Site, hold_s: Seconds, now: Instant
) -> bool:
    """Return True if a ticket of a component may start: if it could hold at this site now."""
    if is_shut(site):
        return False
    pause = why_no_hold(state, attempt, member, site, hold_s, now)
    member.refusal = pause or member.refusal
    return not pause


def why_no_hold(
    state: State,
    attempt: Attempt,
    member: Member,
    site: Site,
    hold_s: Seconds,
    now: Instant,
    ticket: Claim | None = None,
) -> str:
    """Explain why a component, with this ticket, may not hold at a site now; empty if it may."""
    job = state.jobs[attempt.job]
    assignment = Assignment(component=member.component, site=site.name)
    if not is_affordable(state, job, [assignment], now, hold_s=hold_s):
        return BUDGET_IS_USED
    processors = job.spec.components[member.component].processors
    is_last = _is_last(state, attempt, member)
    may = may_hold(state, site, job, ticket, processors, is_last=is_last)
    return "" if may else SHARE_IS_USED


def _may_queue(state: State, attempt: Attempt, member: Member, site: Site) -> bool:
    """Return True if a component may have one more ticket at a site. The first ticket of each
    component comes before others."""
    if reason := why_no_ticket(state, member, site):
        member.refusal = member.refusal or reason
        return False
    lacking = sum(not present.tickets and present.claim is None for present in attempt.present)
    return not member.tickets or tickets_left(state, state.jobs[attempt.job]) > lacking


def _queue_ticket(
    state: State,
    attempt: Attempt,
    member: Member,
    site: Site,
    hold_s: Seconds,
    now: Instant,
    *,
    is_gated: bool = False,
    begins_at: Instant = 0.0,
) -> None:
    ticket = new_claim(state, attempt, member, site, now, hold_s=hold_s)
    ticket.is_ticket = True
    ticket.is_gated = is_gated
    ticket.begins_at, ticket.start_at = begins_at, begins_at or None
    ticket.told_at = now
    member.tickets = (*member.tickets, ticket.id)
    order_claim(state, attempt, ticket)


def _set_gate(
    state: State, attempt: Attempt, ticket: Claim, now: Instant, *, is_gated: bool
) -> None:
    """Gate a ticket or open it: its site gets the claim again, with the other word. It also gets it
    now and then without a change, for it withdraws a ticket that nobody asks for any more."""
    if ticket.is_gated != is_gated or now - ticket.told_at >= TOLD_AGAIN_S:
        if ticket.is_gated != is_gated:
            ticket.stated = None
            ticket.opened_at = None if is_gated else now
        ticket.is_gated = is_gated
        ticket.told_at = now
        state.actions.append(hold(state, attempt, ticket))
