"""Mutants of tickets, in core and agents: deliberate bugs that the swarm must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.core import leases, scheduler
from koala.core.model.claim import Claim, Stopped
from koala.core.model.job import Attempt, Member, Queued
from koala.core.model.values import SiteName
from koala.core.pipeline import claim_end, claiming, ending, placing, wanted
from koala.core.pipeline.ending import stop_claim as really_stop
from koala.core.pipeline.ending import withdraw_tickets as really_withdraw
from koala.core.pipeline.placing import begin_attempt as really_begin
from koala.core.pipeline.tickets import leaving, parts, plans, questions, ticket_events
from koala.core.queries import claim_of
from koala.queue_model import queue
from koala_agent.claims import table
from koala_agent.claims.events import BatchFound
from tests.swarm.planted.mutating import Patches, mutant, replaced

# The core -----------------------------------------------------------------------------------------


@mutant
def a_second_ticket_is_kept() -> Patches:
    """A ticket that starts while another one holds for its component is not stopped."""

    def stop_claim(state: Any, claim: Claim) -> None:
        if claim_of(state, state.placed[claim.job].members[claim.component]) in (None, claim):
            really_stop(state, claim)

    with replaced((ticket_events, "stop_claim"), by=stop_claim):
        yield


@mutant
def tickets_outlive_the_start() -> Patches:
    """Tickets stay in the local queues when all components are held."""

    def withdraw_tickets(
        state: Any, member: Member, *, at: SiteName | None = None, keep: Any = ()
    ) -> None:
        if at is not None:
            really_withdraw(state, member, at=at, keep=keep)

    with replaced((plans, "withdraw_tickets"), by=withdraw_tickets):
        yield


@mutant
def tickets_outlive_a_move() -> Patches:
    """A queued job is placed where processors are idle, and its tickets stay."""
    with replaced((placing, "stop_attempt"), by=lambda *_attempt: None):
        yield


@mutant
def a_component_waits_at_one_site_more() -> Patches:
    """A component waits at a site more than its job asks for."""

    def begin_attempt(state: Any, job: Any, placement: Any, *rest: Any) -> Attempt:
        attempt = really_begin(state, job, placement, *rest)
        used = {member.site for member in attempt.members}
        more = [name for name in state.sites if name not in used]
        if more:
            attempt.members[0].others = (more[0],)
        return attempt

    with replaced((placing, "begin_attempt"), by=begin_attempt):
        yield


@mutant
def queues_of_owners_who_set_a_limit_are_filled() -> Patches:
    """Tickets are queued at a site whose owner lets no more wait."""
    no_limit = replaced((parts, "why_no_ticket"), by=lambda *_site: "")
    with no_limit, replaced((placing, "full_queues"), by=lambda _state: ()):
        yield


@mutant
def a_site_is_held_as_a_whole() -> Patches:
    """Tickets hold as much of a site as comes up."""
    with replaced((parts, "may_hold"), by=lambda *_hold, **_is_last: True):
        yield


@mutant
def tickets_of_an_attempt_that_ended_stay() -> Patches:
    """A job that is cancelled, fails or is set back forgets its tickets, and does not stop them."""

    def withdraw_tickets(_state: Any, member: Member) -> None:
        member.tickets = ()

    with replaced((ending, "withdraw_tickets"), by=withdraw_tickets):
        yield


@mutant
def a_hold_over_budget_is_kept() -> Patches:
    """A ticket that comes up when the budget is used up holds all the same."""
    with replaced((parts, "is_affordable"), by=lambda *_question, **_hold: True):
        yield


@mutant
def holds_are_not_charged() -> Patches:
    """A ticket that holds costs no budget."""
    with replaced((ticket_events, "charge_hold"), by=lambda *_charge: None):
        yield


@mutant
def a_hold_is_never_given_back() -> Patches:
    """Let what came up long before the others hold until its starter ends by itself."""
    with replaced((parts, "give_back"), (ticket_events, "give_back"), by=lambda *_hold: None):
        yield


@mutant
def a_hold_that_was_given_back_stays() -> Patches:
    """A component gives its processors back, and does not stop its claim."""
    with replaced((leaving, "stop_claim"), by=lambda _state, _claim: None):
        yield


@mutant
def tickets_are_fenced() -> Patches:
    """A ticket is given up because its site is away."""
    with replaced((leases, "Asked"), by=()):
        yield


@mutant
def an_ended_ticket_stays_in_its_member() -> Patches:
    """The end of a ticket is not taken note of."""

    def on_ticket_gone(state: Any, attempt: Attempt, *rest: Any) -> None:
        plans.plan_tickets(state, attempt, rest[-1])

    with replaced((claim_end, "on_ticket_gone"), by=on_ticket_gone):
        yield


@mutant
def a_ticket_of_another_attempt_holds() -> Patches:
    """A ticket that starts after its attempt ended holds for the next one."""
    real = ticket_events.on_ticket_started

    def on_ticket_started(state: Any, event: Any, now: float) -> None:
        ticket = state.ledger.get(event.claim)
        attempt = state.placed.get(ticket.job) if ticket is not None else None
        is_late = ticket is not None and ticket.is_ticket and isinstance(ticket.phase, Stopped)
        if is_late and attempt is not None and isinstance(state.jobs[ticket.job].phase, Queued):
            member = attempt.members[ticket.component]
            if member.claim is None and ticket.attempt != attempt.number:
                claiming.bind(ticket, event, now)
                member.claim = ticket.id
        real(state, event, now)

    with replaced((scheduler, "on_ticket_started"), by=on_ticket_started):
        yield


@mutant
def all_gates_open_after_a_cut() -> Patches:
    """A site that registers again is told that no ticket is gated."""
    real = wanted.hold

    def hold(*question: Any) -> Any:
        return replace(real(*question), is_gated=False)

    with replaced((wanted, "hold"), by=hold):
        yield


# Bookings -----------------------------------------------------------------------------------------


@mutant
def bookings_outlive_their_attempt() -> Patches:
    """A job that ends or is set back gives back its tickets, and forgets its bookings."""

    def withdraw_tickets(state: Any, member: Member) -> None:
        booked = [name for name in member.tickets if state.ledger[name].begins_at]
        really_withdraw(state, member, keep=booked)
        member.tickets = ()

    with replaced((ending, "withdraw_tickets"), by=withdraw_tickets):
        yield


@mutant
def a_moved_booking_is_not_given_back() -> Patches:
    """A booking is made again for another instant, and the first one stays."""

    def withdraw_tickets(state: Any, member: Member, *, keep: Any = (), **at: Any) -> None:
        booked = [name for name in member.tickets if state.ledger[name].begins_at]
        really_withdraw(state, member, keep=[*keep, *booked], **at)

    def booking_at(state: Any, member: Member, site: SiteName) -> Claim | None:
        tickets_there = [state.ledger[name] for name in member.tickets]
        booked = [one for one in tickets_there if one.site == site and one.begins_at]
        return booked[-1] if booked else None

    new_ones = replaced((parts, "booking_at"), (questions, "booking_at"), by=booking_at)
    with new_ones, replaced((parts, "withdraw_tickets"), by=withdraw_tickets):
        yield


@mutant
def instants_of_bookings_are_lost_by_a_cut() -> Patches:
    """A site that registers again is asked for a booking as for a ticket."""
    real = wanted.hold

    def hold(*question: Any) -> Any:
        return replace(real(*question), begins_at=0.0)

    with replaced((wanted, "hold"), by=hold):
        yield


@mutant
def sites_that_do_not_book_are_booked() -> Patches:
    """A component is booked at a site that does not book."""
    with replaced((questions, "_may_book"), by=lambda *_component: True):
        yield


@mutant
def refused_bookings_are_asked_for_again_at_once() -> Patches:
    """The instant for which a site refused a booking is not noted."""
    real = ticket_events.on_ticket_gone

    def on_ticket_gone(state: Any, attempt: Attempt, member: Member, *rest: Any) -> None:
        before = member.not_booked
        with replaced((ticket_events, "plan_tickets"), by=lambda *_plan: None):
            real(state, attempt, member, *rest)
        member.not_booked = before
        plans.plan_tickets(state, attempt, rest[-1])

    with replaced((claim_end, "on_ticket_gone"), by=on_ticket_gone):
        yield


@mutant
def bookings_begin_before_their_instant() -> Patches:
    """A local queue starts a booked job as soon as its processors are free."""
    real = queue.LocalQueue.book

    def book(self: Any, key: Any, *, now: float, begin: float, **more: Any) -> bool:
        is_booked = real(self, key, now=now, begin=begin, **more)
        if is_booked:
            self._booked[key] = self._booked[key]._replace(begin=now)
        return is_booked

    with replaced((queue.LocalQueue, "book"), by=book):
        yield


# The agent and the local queue --------------------------------------------------------------------


@mutant
def a_ticket_has_a_grace_time() -> Patches:
    """An agent withdraws a ticket that has not started within the grace time."""

    def grace_s(self: Any, _hold: Any) -> float:
        return float(self._limits.grace_s)

    with replaced((table.ClaimTable, "_grace_s"), by=grace_s):
        yield


@mutant
def gates_that_failed_are_not_repeated() -> Patches:
    """A gate that the local manager did not set is forgotten."""
    with replaced((table.ClaimTable, "_gate_failed"), by=lambda *_failure: None):
        yield


@mutant
def a_restarted_agent_forgets_gates() -> Patches:
    """A gate that was stored and not yet ordered when the agent ended is forgotten."""
    real = table.ClaimTable._on_site

    def on_site(self: Any, event: Any) -> None:
        if not isinstance(event, BatchFound):
            real(self, event)

    with replaced((table.ClaimTable, "_on_site"), by=on_site):
        yield


@mutant
def gates_are_not_changed() -> Patches:
    """An agent keeps the gate with which a ticket was queued."""
    with replaced(
        (table.ClaimTable, "_change_gate"), by=lambda _self, claim, _state, is_gated: claim
    ):
        yield


@mutant
def gates_that_do_not_hold() -> Patches:
    """A gated job in a local queue starts like any other."""
    with replaced((queue.LocalQueue, "gate"), by=lambda _self, _key: None):
        yield
