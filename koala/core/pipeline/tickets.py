"""Tickets: claims that wait in the local queues of busy sites, and come up together.

A job that no idle processors can take now, because jobs of others are in the way, gets tickets in
the local queues of the sites that could take it: there its wait counts. A policy plans which of
them may start. The others are gated, and keep their places. A ticket that comes up holds its
processors for a short time, or is given back; a younger one has the next place. At sites that book
processors it may also have a booking: a ticket that begins at a planned instant.

A component whose ticket came up rests: for a while it opens and books no other one, unless it is
the last that is lacking. Each rest of an attempt is twice the one before, so that no plan can ask a
site for processors, and give them back, many times in a row. It counts from when the ticket came
up: after a hold of some minutes it is over.

A refused booking is asked for again where nobody else is in the way any more: what was just about
to end may have been. Each time the refusal is believed for twice as long.

A plan is made when a ticket is queued, starts, ends or has its first expected start, and at least
once in `ticket_plan_s`. All tickets are withdrawn as soon as each component is held that the job
needs. It starts without optional ones that are not held by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model import events as ev
from koala.core.model.claim import Asked, Claim
from koala.core.model.grid import Assignment, Site
from koala.core.model.job import SITE_FAULTS, Attempt, ClaimEnd, EndKind, Job, Member, Queued
from koala.core.model.job_spec import StartType
from koala.core.model.replicas import Transfer
from koala.core.model.timers import TimerKind
from koala.core.model.values import FOREVER, ClaimId, Instant, JobId, Seconds, SiteName
from koala.core.pipeline.claiming import (
    BUDGET_IS_USED,
    bind,
    charge_hold,
    is_affordable,
    new_claim,
    order_claim,
    start_if_held,
)
from koala.core.pipeline.copying import drop_copies_elsewhere, move_to
from koala.core.pipeline.ending import drop_member, stop_claim, withdraw_tickets
from koala.core.pipeline.refusals import note_refusal
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.wanted import hold
from koala.core.policy_api import PartPlan, TicketPart, TicketPlan, TicketQuestion
from koala.core.queries import (
    claim_of,
    copies_under_way,
    describe,
    fixed_site,
    is_held,
    is_optional_member,
    ticket_of,
)
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.stated_starts import note_start, note_told_start
from koala.core.ticket_sites import (
    booking_at,
    may_hold,
    sites_of,
    tickets_at,
    why_no_ticket,
)

SHARE_IS_USED = "as much is held at the site as is allowed"
PAUSES = (BUDGET_IS_USED, SHARE_IS_USED)
"""Reasons for which a component may not hold for a while."""
PAUSE_S = 5.0
"""Time after which it is looked at again: nothing tells that another job holds no more."""
TOLD_AGAIN_S = 6 * 3600.0
"""Time after which a site is told again that a ticket is wanted: a quarter of an agent's patience
(`koala_agent.claims.table.TICKET_S`)."""
LOSSES = (EndKind.REFUSED, EndKind.FAILED, EndKind.SITE)
"""Ends of tickets after which no other is queued in their place."""
SAME_S = 1.0
"""A booking is moved only by more."""


def adopt_tickets(state: State) -> None:
    """Adopt the configured way to wait at a start of the daemon."""
    answer = state.recorder.ask(lambda: None if state.policies.tickets is None else "tickets")
    state.has_tickets = answer is not None


def why_not_queued(state: State, job: Job) -> str:
    """Explain why a job does not wait in local queues, where it would have to; empty if it may."""
    if job.deadline_at is not None:
        return "a job with a deadline starts at that instant, not when its turn comes"
    if any(component.start_type is StartType.NONE for component in job.spec.components):
        return "a component without a barrier would start when its own turn comes"
    if tickets_left(state, job) < (1 if job.spec.split else len(job.spec.components)):
        most = state.parameters.tickets_user_max
        return f"{job.spec.owner} has {most} claims there, as many as tickets_user_max allows"
    return ""


def may_wait_in_queues(state: State, job: Job) -> bool:
    """Return True if a job may have tickets: its components start together, whenever that is, jobs
    of others wait or run somewhere, and its user has tickets left."""
    return (
        state.has_tickets
        and any(is_usable(site) and _has_others(site) for site in state.sites.values())
        and not why_not_queued(state, job)
    )


def are_others_in_the_way(state: State, site: SiteName, processors: int) -> bool:
    """Return True if so many processors cannot be had at a site because of jobs of others. Where
    only Koala's own jobs are in the way, its own queues decide."""
    known = state.sites[site]
    if known.idle() >= processors:
        return False
    return known.reported_queued > 0 or known.facts.processors - known.reported_local < processors


def _has_others(site: Site) -> bool:
    return site.reported_queued > 0 or site.reported_local > 0 or bool(site.reservations)


def tickets_left(state: State, job: Job) -> int:
    """Return the number of further tickets that the job's user may have."""
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
    for member in attempt.present:
        for name in sites_of(member):
            site = state.sites[name]
            is_lost = (
                not site.is_connected and now - site.disconnected_at > state.parameters.fence_s
            )
            is_left = (is_lost or _is_shut(site)) and fixed_site(job, member.component) is None
            if is_left and not _leave(
                state, attempt, member, name, f"{name} takes no claims now", now
            ):
                return
    plan_tickets(state, attempt, now)


def _is_shut(site: Site) -> bool:
    return site.is_connected and not is_usable(site)


def _leave(
    state: State, attempt: Attempt, member: Member, site: SiteName, reason: str, now: Instant
) -> bool:
    """Go on without a site: at the others, or without the component if it is optional. Set the job
    back and return False if it needs the site."""
    if member.others and (member.claim is None or site != member.site):
        withdraw_tickets(state, member, at=site)
        first, *others = [queued_at for queued_at in sites_of(member) if queued_at != site]
        move_to(state, member, first, others=others)
        drop_copies_elsewhere(state, attempt, member, now)
        return True
    job = state.jobs[attempt.job]
    if is_optional_member(job, member.component) and len(attempt.present) > job.needed:
        drop_member(state, attempt, member, reason, now)
        return True
    set_back(state, attempt, reason, now)
    return False


def plan_tickets(state: State, attempt: Attempt, now: Instant) -> None:
    """Ask the policy for a plan and apply it; start once every component is held that the job
    needs."""
    job = state.jobs[attempt.job]
    waiting = [member for member in attempt.present if not is_held(state, member)]
    if all(is_optional_member(job, member.component) for member in waiting) and (
        len(attempt.present) - len(waiting) >= job.needed
    ):
        for member in attempt.present:
            withdraw_tickets(state, member)
            member.others = ()
            drop_copies_elsewhere(state, attempt, member, now)
        for member in waiting:
            drop_member(state, attempt, member, "the others hold", now)
        start_if_held(state, attempt, now)
        return
    question = ticket_question(state, attempt, now)

    def ask() -> TicketPlan:
        assert state.policies.tickets is not None
        return state.policies.tickets(question)

    plan = state.recorder.ask(ask)
    assert isinstance(plan, TicketPlan), plan
    for member in attempt.present:
        if member.refusal in PAUSES:
            member.refusal = ""
    members = attempt.members

    def comes_later(part: PartPlan) -> tuple[bool, bool]:
        """Return the key of an order in which a component without any claim comes first, for a site
        with little room."""
        member = members[part.component]
        return part.site in member.others, bool(member.tickets or member.claim)

    hold_s = plan.hold_s + 2 * _arming_s(state)
    for part in sorted(plan.parts, key=comes_later):
        _apply(state, attempt, part, hold_s, now)
    pauses = [PAUSE_S for member in attempt.present if member.refusal in PAUSES]
    rests = [member.rests_until - now for member in attempt.present if member.claim is None]
    doubts = [member.doubt_at - now for member in attempt.present if member.not_booked]
    again_s = min([plan.again_s, *pauses, *(in_s for in_s in (*rests, *doubts) if in_s > 0)])
    plan_at = now + min(max(again_s, _STEP_MIN_S), state.parameters.ticket_plan_s)
    state.enter(job, Queued(attempt=attempt, plan_at=plan_at), "", now)
    state.timers.set(plan_at, TimerKind.CLAIM, job.id)


SLACK_OF_A_RUN = 1 / 12
"""Share of the run by which a ticket is opened early at most: half of what it may hold."""
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
    members = [(member, site) for member in attempt.present for site in sites_of(member)]
    limits_s = [
        limit_s
        for _, site in members
        if (limit_s := state.sites[site].facts.hold_max_s) is not None
    ]
    allowed_s = min(limits_s, default=FOREVER) - 2 * _arming_s(state)
    longest_s = max(_HOLD_MIN_S, min(longest_s, allowed_s))
    return TicketQuestion(
        parts=tuple([_part(state, attempt, member, site, now) for member, site in members]),
        run_s=run_s,
        tickets_max=limits.tickets_max,
        slack_s=min(limits.ticket_slack_s, SLACK_OF_A_RUN * run_s),
        hold_min_s=min(limits.ticket_hold_min_s, longest_s, max(run_s / 3, _HOLD_MIN_S)),
        hold_max_s=min(limits.ticket_hold_max_s, longest_s),
        needed=job.needed,
    )


def _part(
    state: State, attempt: Attempt, member: Member, site: SiteName, now: Instant
) -> TicketPart:
    job = state.jobs[attempt.job]
    tickets = tickets_at(state, member, site)
    oldest = state.ledger[tickets[0]] if tickets else None
    start_at = None if oldest is None else oldest.start_at
    back_at = member.given_back_at
    held_at = member.claimed_at if site == member.site else None
    booking = booking_at(state, member, site)
    not_booked_at = (member.not_booked or {}).get(site)
    if not_booked_at and now >= member.doubt_at and _is_clear(state, attempt, site):
        not_booked_at = None
    moved_from_at = (member.moved_from or {}).get(site)
    return TicketPart(
        component=member.component,
        site=site,
        processors=job.spec.components[member.component].processors,
        tickets=len(tickets),
        waited_s=0.0 if oldest is None else now - oldest.asked_at,
        held_s=None if held_at is None else now - held_at,
        files_s=_files_s(state, attempt, member, site, now),
        start_s=None if start_at is None else max(0.0, start_at - now),
        is_known=oldest is not None and oldest.has_told_start,
        given_back_s=None if back_at is None else now - back_at,
        can_gate=bool(state.sites[site].facts.gate),
        books=_may_book(state.sites[site], job, member),
        begins_s=None if booking is None else booking.begins_at - now,
        not_booked_s=None if not_booked_at is None else not_booked_at - now,
        moved_from_s=None if moved_from_at is None else moved_from_at - now,
        is_optional=is_optional_member(job, member.component),
    )


def _may_book(site: Site, job: Job, member: Member) -> bool:
    """Return True if a site may be booked for a component: for no run without a limit, nor for one
    that has a reservation."""
    component = job.spec.component(member.component)
    is_bookable = component.wall_time_s is not None and component.reservation is None
    return bool(site.facts.books) and is_bookable and is_usable(site)


def _is_clear(state: State, attempt: Attempt, site: SiteName) -> bool:
    """Return True if nobody else is in the way of all that an attempt wants at a site: neither jobs
    of others nor claims of Koala's other jobs."""
    job = state.jobs[attempt.job]
    wanted = sum(
        job.spec.components[member.component].processors
        for member in attempt.present
        if site in sites_of(member)
    )
    taken = sum(
        claim.processors
        for claim in state.ledger.values()
        if claim.site == site and (claim.job, claim.attempt) != (attempt.job, attempt.number)
    )
    is_connected = state.sites[site].is_connected
    return is_connected and not are_others_in_the_way(state, site, wanted + taken)


def plan_where_cleared(state: State, site: Site, now: Instant) -> None:
    """Plan at once for jobs that were refused a booking at a site which has room for them now."""
    for attempt in tuple(state.placed.values()):
        if isinstance(state.jobs[attempt.job].phase, Queued) and any(
            site.name in (member.not_booked or ()) and now >= member.doubt_at
            for member in attempt.present
        ):
            plan_tickets(state, attempt, now)


def _files_s(
    state: State, attempt: Attempt, member: Member, site: SiteName, now: Instant
) -> Seconds:
    """Return the time until a component's input files are at one of its sites."""
    copies = copies_under_way(state, member, site)
    if not copies:
        return 0.0
    awaits = state.jobs[attempt.job].awaits_files
    at = attempt.start_at if awaits else max([copy.expected_at for copy in copies])
    return max(0.0, at - now)


def _apply(state: State, attempt: Attempt, plan: PartPlan, hold_s: Seconds, now: Instant) -> None:
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


def _rest(state: State, member: Member, now: Instant) -> None:
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
    if _is_shut(site):
        return False
    pause = _pause(state, attempt, member, site, hold_s, now)
    member.refusal = pause or member.refusal
    return not pause


def _pause(
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
    member.tickets = tuple(queued for queued in member.tickets if queued != ticket.id)
    _rest(state, member, now)
    site = state.sites[ticket.site]
    if member.claim is not None:
        stop_claim(state, ticket)
    elif pause := _pause(state, attempt, member, site, ticket.hold_s, now, ticket):
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
        if is_lost and not _leave(state, attempt, member, ticket.site, reason, now):
            return
    else:
        _rest(state, member, now)
    plan_tickets(state, attempt, now)


def on_hold_lost(
    state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant
) -> None:
    """Queue another ticket for a component whose hold has ended before the others came up. The next
    one keeps its place also after a fault of the site; without one the site is left."""
    job = state.jobs[attempt.job]
    _end_hold(member, now)
    member.refusal = end.describe()
    label = job.spec.label(member.component)
    state.announce(job, f"component {label} has lost {member.site}: {end.describe()}", now)
    if end.kind in SITE_FAULTS and end.kind is not EndKind.LEASE:  # that may be the daemon's
        job.failures += 1
        assert member.site is not None
        reason = f"{describe(job, member)}: {end.describe()}"
        if not tickets_at(state, member, member.site) and not _leave(
            state, attempt, member, member.site, reason, now
        ):
            return
    plan_tickets(state, attempt, now)


def give_back(state: State, attempt: Attempt, member: Member, reason: str, now: Instant) -> None:
    """Give back the processors that a component holds; its next ticket keeps a place."""
    job = state.jobs[attempt.job]
    claim = claim_of(state, member)
    if claim is None:
        return
    stop_claim(state, claim)
    _end_hold(member, now)
    label = job.spec.label(member.component)
    text = f"component {label} gives back {claim.processors} processors at {claim.site}: {reason}"
    state.announce(job, text, now)


def _end_hold(member: Member, now: Instant) -> None:
    """Note that a component holds no more; what was refused a while ago may be asked again."""
    member.claim = member.claimed_at = member.tickets_max = None
    member.not_booked = member.moved_from = None
    member.given_back_at = now


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
        _leave(state, attempt, member, transfer.target, reason, now)
    plan_tickets(state, attempt, now)


def queue_job(state: State, job: Job, attempt: Attempt, now: Instant) -> None:
    """Queue the first tickets of a job that was placed at busy sites."""
    placed = [member for member in attempt.members if member.site is not None]
    sites = ", ".join(["/".join(sites_of(member)) for member in placed])
    state.enter(job, Queued(attempt=attempt, plan_at=now), f"waits in the queues of {sites}", now)
    for member in attempt.members:
        if member.site is None:
            drop_member(state, attempt, member, "no site has room for it", now)
    plan_tickets(state, attempt, now)


def expect_at_once(state: State, attempt: Attempt, sites: Sequence[SiteName], now: Instant) -> None:
    """Expect the tickets of a job at these sites, by component, to start as soon as they are
    open."""
    by_member = zip(attempt.members, sites, strict=True)
    names = [name for member, site in by_member for name in tickets_at(state, member, site)[:1]]
    tickets = [state.ledger[name] for name in names]
    for ticket in tickets:
        ticket.start_at = now
        ticket.has_told_start = True
    if any(ticket.is_gated for ticket in tickets):
        plan_tickets(state, attempt, now)
