"""Sites at which a component waits: its tickets at each, and the room for more of them.

A job with redundancy has components with several sites. They wait at all of them, hold at one, and
leave the others as soon as the job starts.
"""

from __future__ import annotations

from koala.core.model.claim import Armed, Asked, Claim, Granted
from koala.core.model.grid import Site
from koala.core.model.job import Job, Member, Queued
from koala.core.model.values import FOREVER, ClaimId, SiteName
from koala.core.state import State


def sites_of(member: Member) -> tuple[SiteName, ...]:
    """Return the sites at which a component waits, first the one that it was placed at, or at which
    it holds or held."""
    assert member.site is not None
    return (member.site, *member.others)


def tickets_at(state: State, member: Member, site: SiteName) -> list[ClaimId]:
    """Return the tickets of a component in the queue of a site, the oldest first, without its
    booking."""
    tickets = [state.ledger[name] for name in member.tickets]
    return [ticket.id for ticket in tickets if ticket.site == site and not ticket.begins_at]


def booking_at(state: State, member: Member, site: SiteName) -> Claim | None:
    """Return the booking of a component at a site that has not begun."""
    tickets = [state.ledger[name] for name in member.tickets]
    return next((ticket for ticket in tickets if ticket.site == site and ticket.begins_at), None)


def stands_in_line(state: State, member: Member, site: SiteName) -> bool:
    """Return True if a component would come up at a site as soon as nothing is in its way: it holds
    or waits there, and not with a booking alone."""
    is_booked = booking_at(state, member, site) is not None
    return site in sites_of(member) and (not is_booked or bool(tickets_at(state, member, site)))


def by_expected_wait(state: State, job: Job) -> list[Site]:
    """Return the sites, the shortest queue first: by the time after which one would start the
    largest component of a job, where all tell that, else by the jobs that wait for a processor."""
    sites = list(state.sites.values())
    walls = [component.wall_time_s for component in job.spec.components]
    run_s = max(FOREVER if wall_s is None else wall_s for wall_s in walls)
    starts = [site.expected_wait_s(job.room_min[0], run_s) for site in sites]
    if None in starts:
        return sorted(sites, key=lambda site: site.reported_queued / site.facts.processors)
    waits = {site.name: start_s or 0.0 for site, start_s in zip(sites, starts, strict=True)}
    return sorted(sites, key=lambda site: waits[site.name])


# --- room ---


def waiting_at(state: State, site: SiteName) -> int:
    """Count the tickets in the queue of a site."""
    return sum(
        claim.is_ticket and claim.site == site and isinstance(claim.phase, Asked)
        for claim in state.ledger.values()
    )


def full_queues(state: State) -> list[SiteName]:
    """Return the sites whose owners let no more tickets wait."""
    return [
        site.name
        for site in state.sites.values()
        if (most := site.facts.tickets_max) is not None and waiting_at(state, site.name) >= most
    ]


def why_no_ticket(state: State, member: Member, site: Site) -> str:
    """Explain why a site takes no more tickets of a component; empty if it does."""
    most, share = site.facts.tickets_max, state.parameters.redundancy_share_max
    if most is not None and waiting_at(state, site.name) >= most:
        return f"site.tickets_max of {site.name} allows {most} waiting claims"
    if site.name not in member.others:
        return ""
    waiting = waiting_at(state, site.name)
    if waiting and waiting + 1 > share * (site.reported_queued + waiting + 1):
        return f"redundant claims are at most {share:.0%} of the queue of {site.name}"
    return ""


def held_room(site: Site) -> int:
    """Return the processors that tickets of a site may hold, by its owner."""
    share = site.facts.held_share_max
    return site.facts.processors if share is None else int(share * site.facts.processors)


def may_hold(
    state: State, site: Site, job: Job, ticket: Claim | None, processors: int, *, is_last: bool
) -> bool:
    """Return True if a ticket of a job may hold so many processors beside what is held before the
    barrier. A job that is larger than the share that is held of a site may hold alone. The last
    component of a job may always come up: the job starts then, and holds no more."""
    held = [
        claim
        for claim in state.ledger.values()
        if claim.is_ticket
        and claim.site == site.name
        and claim is not ticket
        and isinstance(claim.phase, Granted | Armed)
    ]
    early = [claim for claim in held if isinstance(state.jobs[claim.job].phase, Queued)]
    most = state.parameters.held_share_max * site.facts.processors
    is_within = (
        is_last
        or all(claim.job == job.id for claim in early)
        or processors + sum([claim.processors for claim in early]) <= most
    )
    return is_within and processors + sum([claim.processors for claim in held]) <= held_room(site)
