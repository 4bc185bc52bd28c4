"""Tickets: claims that wait in the local queues of busy sites, and come up together.

A job that no idle processors can take now, because jobs of others are in the way, gets tickets in
the local queues of the sites that could take it: there its wait counts. A policy plans which of
them may start. The others are gated, and keep their places. A ticket that comes up holds its
processors for a short time, or is given back; a younger one has the next place.

A plan is made when a ticket is queued, starts, ends or has its first expected start, and at least
once in `ticket_plan_s`. All tickets are withdrawn as soon as each component is held.
"""

from __future__ import annotations

from koala.core.model import events as ev
from koala.core.model.claim import Asked, Claim
from koala.core.model.grid import Site
from koala.core.model.job import SITE_FAULTS, Attempt, ClaimEnd, EndKind, Job, Member, Queued
from koala.core.model.job_spec import StartType
from koala.core.model.timers import TimerKind
from koala.core.model.values import (
    FOREVER,
    ClaimId,
    Instant,
    JobId,
    Seconds,
    SiteName,
)
from koala.core.pipeline.claiming import (
    BUDGET_IS_USED,
    bind,
    charge_hold,
    is_affordable,
    new_claim,
    order_claim,
    start_if_held,
)
from koala.core.pipeline.ending import stop_claim, withdraw_tickets
from koala.core.pipeline.refusals import note_refusal
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.stated_starts import note_start, note_told_start
from koala.core.pipeline.wanted import hold
from koala.core.policy_api import TicketPart, TicketPlan, TicketQuestion
from koala.core.queries import (
    claim_of,
    describe,
    files_arrive_at,
    fixed_site,
    is_held,
    ticket_of,
)
from koala.core.sites import is_usable
from koala.core.state import State

TOLD_AGAIN_S = 6 * 3600.0
"""Time after which a site is told again that a ticket is wanted: a quarter of an agent's patience
(`koala_agent.claims.table.TICKET_S`)."""
LOSSES = (EndKind.REFUSED, EndKind.FAILED, EndKind.SITE)
"""Ends of tickets after which no other is queued in their place."""


def adopt_tickets(state: State) -> None:
    """Adopt the configured way to wait at a start of the daemon."""
    answer = state.recorder.ask(lambda: None if state.policies.tickets is None else "tickets")
    state.has_tickets = answer is not None


def may_wait_in_queues(state: State, job: Job) -> bool:
    """Return True if a job may have tickets: all its components start together, whenever that is,
    and its user has tickets left."""
    return (
        state.has_tickets
        and job.deadline_at is None
        and job.spec.quorum is None
        and all(one.start_type is StartType.STRICT for one in job.spec.components)
        and any(is_usable(site) and _has_others(site) for site in state.sites.values())
        and _tickets_left(state, job) >= len(job.spec.components)
    )


def are_others_in_the_way(state: State, site: SiteName, processors: int) -> bool:
    """Return True if so many processors cannot be had at a site because of jobs of others. Where
    only Koala's own jobs are in the way, its own queues decide."""
    known = state.sites[site]
    if known.idle() >= processors:
        return False
    return known.reported_queued > 0 or known.facts.processors - known.reported_local < processors


def _has_others(site: Site) -> bool:
    return site.reported_queued > 0 or site.reported_local > 0


def _tickets_left(state: State, job: Job) -> int:
    owner = job.spec.owner
    waiting = sum(
        claim.is_ticket and isinstance(claim.phase, Asked)
        for claim in state.ledger.values()
        if state.jobs[claim.job].spec.owner == owner
    )
    return state.parameters.tickets_user_max - waiting


# --- plans ---


def plan_when_due(state: State, attempt: Attempt, now: Instant) -> None:
    """Make the next plan of a queued job; leave a site that is not usable any more."""
    job = state.jobs[attempt.job]
    for member in attempt.members:
        assert member.site is not None
        site = state.sites[member.site]
        is_lost = not site.is_connected and now - site.disconnected_at > state.parameters.fence_s
        if (is_lost or _is_shut(site)) and fixed_site(job, member.component) is None:
            set_back(state, attempt, f"{site.name} takes no claims now", now)
            return
    plan_tickets(state, attempt, now)


def _is_shut(site: Site) -> bool:
    return site.is_connected and not is_usable(site)


def plan_tickets(state: State, attempt: Attempt, now: Instant) -> None:
    """Ask the policy for a plan and apply it; start once every component is held."""
    if all(is_held(state, member) for member in attempt.members):
        for member in attempt.members:
            withdraw_tickets(state, member)
        start_if_held(state, attempt, now)
        return
    question = ticket_question(state, attempt, now)

    def ask() -> TicketPlan:
        assert state.policies.tickets is not None
        return state.policies.tickets(question)

    plan = state.recorder.ask(ask)
    assert isinstance(plan, TicketPlan), plan
    _apply(state, attempt, plan, now)
    job = state.jobs[attempt.job]
    plan_at = now + min(max(plan.again_s, _STEP_MIN_S), state.parameters.ticket_plan_s)
    state.enter(job, Queued(attempt=attempt, plan_at=plan_at), "", now)
    state.timers.set(plan_at, TimerKind.CLAIM, job.id)


_STEP_MIN_S = 0.01
_HOLD_MIN_S = 1.0


def ticket_question(state: State, attempt: Attempt, now: Instant) -> TicketQuestion:
    """Make the policy's question."""
    job = state.jobs[attempt.job]
    limits = state.parameters
    walls = [one.wall_time_s for one in job.spec.components]
    run_s = max(FOREVER if one is None else one for one in walls)
    longest_s = job.spec.max_hold_s
    if longest_s is None:  # nothing is known of an endless run
        longest_s = limits.hold_s if run_s == FOREVER else FOREVER
    limits_s = [
        limit_s
        for member in attempt.members
        if member.site is not None
        and (limit_s := state.sites[member.site].facts.hold_max_s) is not None
    ]
    allowed_s = min(limits_s, default=FOREVER) - 2 * _arming_s(state)
    longest_s = max(_HOLD_MIN_S, min(longest_s, allowed_s))
    return TicketQuestion(
        parts=tuple(_part(state, job, member, now) for member in attempt.members),
        run_s=run_s,
        files_s=max(0.0, files_arrive_at(state, job, attempt) - now),
        tickets_max=limits.tickets_max,
        slack_s=limits.ticket_slack_s,
        hold_min_s=min(limits.ticket_hold_min_s, longest_s),
        hold_max_s=min(limits.ticket_hold_max_s, longest_s),
    )


def _part(state: State, job: Job, member: Member, now: Instant) -> TicketPart:
    assert member.site is not None
    oldest = state.ledger[member.tickets[0]] if member.tickets else None
    start_at = None if oldest is None else oldest.start_at
    back_at, held_at = member.given_back_at, member.claimed_at
    return TicketPart(
        component=member.component,
        processors=job.spec.components[member.component].processors,
        tickets=len(member.tickets),
        waited_s=0.0 if oldest is None else now - oldest.asked_at,
        held_s=None if held_at is None else now - held_at,
        start_s=None if start_at is None else max(0.0, start_at - now),
        is_known=oldest is not None and oldest.has_told_start,
        given_back_s=None if back_at is None else now - back_at,
        can_gate=bool(state.sites[member.site].facts.gate),
    )


def _apply(state: State, attempt: Attempt, plan: TicketPlan, now: Instant) -> None:
    job = state.jobs[attempt.job]
    lacking = sum(not one.tickets and one.claim is None for one in attempt.members)
    spare = _tickets_left(state, job) - lacking  # the first of each component comes before others
    for one in plan.parts:
        member = attempt.members[one.component]
        assert member.site is not None
        if one.gives_back and member.claim is not None:
            give_back(state, attempt, member, "the others come up later", now)
        most = one.tickets if member.tickets_max is None else min(one.tickets, member.tickets_max)
        withdraw_tickets(state, member, keep=most)
        site = state.sites[member.site]
        can_gate = bool(site.facts.gate)
        open_ = one.open
        if open_:
            is_paid = is_affordable(state, job, [member], now, hold_s=plan.hold_s)
            if not is_paid:
                member.refusal = BUDGET_IS_USED
                open_ = 0
            elif member.refusal == BUDGET_IS_USED:
                member.refusal = ""
        if _is_shut(site):
            open_ = 0
        for place, ticket in enumerate(member.tickets):
            is_gated = can_gate and place >= open_
            _set_gate(state, attempt, state.ledger[ticket], now, is_gated=is_gated)
        while len(member.tickets) < most and is_usable(site):
            if member.tickets and spare <= 0:
                break
            is_gated = len(member.tickets) >= open_
            if is_gated and not can_gate:
                break
            spare -= bool(member.tickets)
            _queue_ticket(state, attempt, member, plan.hold_s, now, is_gated=is_gated)


def _queue_ticket(
    state: State, attempt: Attempt, member: Member, hold_s: Seconds, now: Instant, *, is_gated: bool
) -> None:
    assert member.site is not None
    hold_s += 2 * _arming_s(state)
    ticket = new_claim(state, attempt, member, state.sites[member.site], now, hold_s=hold_s)
    ticket.is_ticket = True
    ticket.is_gated = is_gated
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
        ticket.is_gated = is_gated
        ticket.told_at = now
        state.actions.append(hold(state, attempt, ticket))


def _arming_s(state: State) -> Seconds:
    """Return the longest time that an arming takes; a hold must outlast some."""
    return state.parameters.lead_max_s + state.parameters.late_max_s


# --- what happens to tickets ---


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
    member.tickets = tuple(one for one in member.tickets if one != ticket.id)
    if not is_affordable(state, job, [member], now, hold_s=ticket.hold_s):
        member.refusal = BUDGET_IS_USED
        member.given_back_at = now
        stop_claim(state, ticket)
    elif member.claim is not None:
        stop_claim(state, ticket)
    else:
        processor_s = ticket.processors * ticket.hold_s
        charge_hold(state, job, ticket.id, ticket.site, processor_s, now)
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
    """Replace a ticket that has ended without a start; one that was refused is not replaced."""
    job = state.jobs[attempt.job]
    member.tickets = tuple(one for one in member.tickets if one != ticket.id)
    if end.kind in LOSSES:
        member.refusal = end.reason or end.kind.value
        member.tickets_max = max(1, len(member.tickets))
        note_refusal(state, job, ticket, end, now)
        if not member.tickets and member.claim is None:
            set_back(state, attempt, f"{describe(job, member)}: {end.describe()}", now)
            return
    plan_tickets(state, attempt, now)


def on_hold_lost(
    state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant
) -> None:
    """Queue another ticket for a component whose hold has ended before the others came up."""
    job = state.jobs[attempt.job]
    member.claim = member.claimed_at = None
    member.given_back_at = now
    member.refusal = end.describe()
    if end.kind in SITE_FAULTS and end.kind is not EndKind.LEASE:  # that may be the daemon's
        job.failures += 1
        set_back(state, attempt, f"{describe(job, member)}: {end.describe()}", now)
    else:
        plan_tickets(state, attempt, now)


def give_back(state: State, attempt: Attempt, member: Member, reason: str, now: Instant) -> None:
    """Give back the processors that a component holds; its next ticket keeps a place."""
    job = state.jobs[attempt.job]
    claim = claim_of(state, member)
    if claim is None:
        return
    stop_claim(state, claim)
    member.claim = member.claimed_at = None
    member.given_back_at = now
    label = job.spec.label(member.component)
    text = f"component {label} gives back {claim.processors} processors at {claim.site}: {reason}"
    state.announce(job, text, now)


def on_starts_told(
    state: State, starts: tuple[tuple[ClaimId, Seconds | None], ...], now: Instant
) -> None:
    """Note the expected starts of claims; plan at once for a job with tickets that was not told any
    before."""
    news: dict[JobId, Attempt] = {}
    for name, start_s in starts:
        ticket = state.ledger.get(name)
        if ticket is None or not isinstance(ticket.phase, Asked):
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
    for member in attempt.members:
        if member.site == site and member.claim is not None:
            give_back(state, attempt, member, "the site has been silent past the hold lease", now)
    plan_tickets(state, attempt, now)


def queue_job(state: State, job: Job, attempt: Attempt, now: Instant) -> None:
    """Queue the first tickets of a job that was placed at busy sites."""
    sites = ", ".join(str(member.site) for member in attempt.members)
    state.enter(job, Queued(attempt=attempt, plan_at=now), f"waits in the queues of {sites}", now)
    plan_tickets(state, attempt, now)
