"""Check of tickets from outside: none is given up because of the time that it waits, and none that
came up holds longer than a plan may let it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koala.common.protocol.messages import Hold
from koala.core.model.actions import Action, ClaimProcessors, StopClaim
from koala.core.model.claim import Armed, Asked, Claim, Granted
from koala.core.model.events import ClaimFenced, ClaimGone, ClaimGranted, Event
from koala.core.model.job import Queued
from koala.core.model.values import FOREVER, ClaimId, Instant, JobId, Seconds, SiteName
from koala.core.scheduler import Scheduler
from tests.swarm.breach import require

LATE = "not started within"
"""First words of an agent's refusal after the grace time."""
HELD_S = 0.1
"""Limit on the time from the end of a hold to the plan that ends it."""
GATED_S = 60.0
"""Limit on the time without faults until the gate that the daemon ordered is in force."""


class Tickets:
    """Tickets that wait in local queues, as is durable, and their gates."""

    def __init__(self) -> None:
        self._waiting: set[ClaimId] = set()
        self._wrong: dict[ClaimId, tuple[bool, Instant]] = {}

    def committed(self, event: Event, actions: Sequence[Action]) -> None:
        """Require that a ticket waits as long as it takes: while its site is away, too."""
        match event:
            case ClaimGranted(claim=claim):
                self._waiting.discard(claim)
            case ClaimFenced(claim=claim):
                require(claim not in self._waiting, 9, f"{claim} is fenced in the local queue")
            case ClaimGone(claim=claim, end=end):
                is_late = claim in self._waiting and end.reason.startswith(LATE)
                require(not is_late, 9, f"{claim} is a ticket: {end.reason}")
                self._waiting.discard(claim)
            case _:
                pass
        for action in actions:
            match action:
                case ClaimProcessors(waits=True, is_granted=False):
                    self._waiting.add(action.claim)
                case StopClaim():
                    self._waiting.discard(action.claim)
                case _:
                    pass

    def restored(self) -> None:
        """Forget all: the backup may know less."""
        self._waiting.clear()

    def require_short_holds(self, scheduler: Scheduler, now: Instant) -> None:
        """Require that what came up before the others is given back in time."""
        timer_at = scheduler.timers.next_at
        if timer_at is not None and timer_at <= now:
            return  # the core is about to be woken for it
        for attempt in scheduler.placed.values():
            job = scheduler.jobs[attempt.job]
            if not isinstance(job.phase, Queued):
                continue
            own_s = FOREVER if job.spec.max_hold_s is None else job.spec.max_hold_s
            most_s = min(own_s, scheduler.parameters.ticket_hold_max_s)
            for member in attempt.members:
                held_s = 0.0 if member.claimed_at is None else now - member.claimed_at
                text = f"{member.claim} holds for {held_s:g} s (expected {most_s:g} s"
                require(held_s <= most_s + HELD_S, 5, text)

    def require_caps(self, scheduler: Scheduler) -> None:
        """Require that no more waits at a site, nor is held there, than is allowed, and that a
        component waits at no more sites than its job asks for."""
        tickets = [claim for claim in scheduler.ledger.values() if claim.is_ticket]
        for name, site in scheduler.sites.items():
            here = [claim for claim in tickets if claim.site == name]
            waiting = sum(isinstance(claim.phase, Asked) for claim in here)
            most = site.facts.tickets_max
            require(most is None or waiting <= most, 5, f"{waiting} tickets wait at {name}")
            held: dict[JobId, int] = {}
            early: dict[JobId, int] = {}
            for one in here:
                if isinstance(one.phase, Granted | Armed):
                    is_early = isinstance(scheduler.jobs[one.job].phase, Queued)
                    for found in (held, early) if is_early else (held,):
                        found[one.job] = found.get(one.job, 0) + one.processors
            shares = (site.facts.held_share_max, scheduler.parameters.held_share_max)
            owners, ours = [site.facts.processors * (share or 1.0) for share in shares]
            is_allowed = len(early) <= 1 or sum(early.values()) <= ours
            require(is_allowed and sum(held.values()) <= owners, 5, f"{held} hold at {name}")
        self._require_one_booking(scheduler, tickets)
        waits: dict[tuple[JobId, int, int], set[SiteName]] = {}
        for one in tickets:
            if isinstance(one.phase, Asked):
                waits.setdefault((one.job, one.attempt, one.component), set()).add(one.site)
        for (job, *_), sites in waits.items():
            most = scheduler.jobs[job].spec.redundancy
            require(len(sites) <= most, 5, f"a component of {job} waits at {len(sites)} sites")

    def _require_one_booking(self, scheduler: Scheduler, tickets: Sequence[Claim]) -> None:
        """Require that a component has one booking, at a site that books, and never a gated one."""
        booked: set[tuple[JobId, int, int]] = set()
        for one in tickets:
            if not one.begins_at or not isinstance(one.phase, Asked):
                continue
            component = (one.job, one.attempt, one.component)
            require(component not in booked, 5, f"a component of {one.job} is booked twice")
            booked.add(component)
            books = bool(scheduler.sites[one.site].facts.books)
            require(books and not one.is_gated, 9, f"{one.id} is booked at {one.site}")

    def require_instants(self, scheduler: Scheduler, holds: Iterable[Hold]) -> None:
        """Require that a site has the instants at which the daemon wants bookings to begin."""
        for hold in holds:
            wanted = scheduler.ledger.get(ClaimId(hold.claim))
            is_other = wanted is not None and wanted.begins_at != hold.begins_at
            require(not is_other, 9, f"{hold.claim} begins at {hold.begins_at:g} at its site")

    def require_gate(
        self, scheduler: Scheduler, claim: ClaimId, now: Instant, *, is_gated: bool
    ) -> None:
        """Require that the gate in force at a site is the one that the daemon wants, when nothing
        has failed for a while."""
        ticket = scheduler.ledger.get(claim)
        if ticket is None or not isinstance(ticket.phase, Asked) or ticket.is_gated == is_gated:
            self._wrong.pop(claim, None)
            return
        was_gated, since = self._wrong.setdefault(claim, (is_gated, now))
        if was_gated != is_gated:
            self._wrong[claim] = (is_gated, now)
            return
        wrong_s: Seconds = now - since
        words = ("open", "gated")
        text = f"{claim} is {words[is_gated]} for {wrong_s:g} s and ordered {words[not is_gated]}"
        require(wrong_s <= GATED_S, 9, text)
