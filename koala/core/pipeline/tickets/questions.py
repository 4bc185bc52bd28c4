"""Questions to the policy: what is known of each component at each of its sites."""

from __future__ import annotations

from koala.core.model.grid import Site
from koala.core.model.job import Attempt, Job, Member
from koala.core.model.values import FOREVER, Instant, Seconds, SiteName
from koala.core.pipeline.tickets.eligibility import are_others_in_the_way
from koala.core.policy_api import TicketPart, TicketQuestion
from koala.core.queries import copies_under_way, is_optional_member
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.ticket_sites import booking_at, sites_of, tickets_at

SLACK_OF_A_RUN = 1 / 12
"""Share of the run by which a ticket is opened early at most: half of what it may hold."""
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
    allowed_s = min(limits_s, default=FOREVER) - 2 * arming_s(state)
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


def arming_s(state: State) -> Seconds:
    """Return the longest time that an arming takes; a hold must outlast some."""
    return state.parameters.lead_max_s + state.parameters.late_max_s
