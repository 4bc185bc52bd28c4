"""Plans: when they are made, and what follows from one as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.grid import Site
from koala.core.model.job import Attempt, Job, Queued
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, SiteName
from koala.core.pipeline.claiming import start_if_held
from koala.core.pipeline.copying import drop_copies_elsewhere
from koala.core.pipeline.ending import drop_member, withdraw_tickets
from koala.core.pipeline.tickets.leaving import is_shut, leave_site
from koala.core.pipeline.tickets.parts import PAUSES, apply_part
from koala.core.pipeline.tickets.questions import arming_s, ticket_question
from koala.core.policy_api import PartPlan, TicketPlan
from koala.core.queries import fixed_site, is_held, is_optional_member
from koala.core.state import State
from koala.core.ticket_sites import sites_of, tickets_at

PAUSE_S = 5.0
"""Time after which it is looked at again: nothing tells that another job holds no more."""
_STEP_MIN_S = 0.01


def queue_job(state: State, job: Job, attempt: Attempt, now: Instant) -> None:
    """Queue the first tickets of a job that was placed at busy sites."""
    placed = [member for member in attempt.members if member.site is not None]
    sites = ", ".join(["/".join(sites_of(member)) for member in placed])
    state.enter(job, Queued(attempt=attempt, plan_at=now), f"waits in the queues of {sites}", now)
    for member in attempt.members:
        if member.site is None:
            drop_member(state, attempt, member, "no site has room for it", now)
    plan_tickets(state, attempt, now)


def plan_when_due(state: State, attempt: Attempt, now: Instant) -> None:
    """Make the next plan of a queued job; leave a site that is not usable any more."""
    job = state.jobs[attempt.job]
    for member in attempt.present:
        for name in sites_of(member):
            site = state.sites[name]
            is_lost = (
                not site.is_connected and now - site.disconnected_at > state.parameters.fence_s
            )
            is_left = (is_lost or is_shut(site)) and fixed_site(job, member.component) is None
            if is_left and not leave_site(
                state, attempt, member, name, f"{name} takes no claims now", now
            ):
                return
    plan_tickets(state, attempt, now)


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

    hold_s = plan.hold_s + 2 * arming_s(state)
    for part in sorted(plan.parts, key=comes_later):
        apply_part(state, attempt, part, hold_s, now)
    pauses = [PAUSE_S for member in attempt.present if member.refusal in PAUSES]
    rests = [member.rests_until - now for member in attempt.present if member.claim is None]
    doubts = [member.doubt_at - now for member in attempt.present if member.not_booked]
    again_s = min([plan.again_s, *pauses, *(in_s for in_s in (*rests, *doubts) if in_s > 0)])
    plan_at = now + min(max(again_s, _STEP_MIN_S), state.parameters.ticket_plan_s)
    state.enter(job, Queued(attempt=attempt, plan_at=plan_at), "", now)
    state.timers.set(plan_at, TimerKind.CLAIM, job.id)


def plan_where_cleared(state: State, site: Site, now: Instant) -> None:
    """Plan at once for jobs that were refused a booking at a site which has room for them now."""
    for attempt in tuple(state.placed.values()):
        if isinstance(state.jobs[attempt.job].phase, Queued) and any(
            site.name in (member.not_booked or ()) and now >= member.doubt_at
            for member in attempt.present
        ):
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
