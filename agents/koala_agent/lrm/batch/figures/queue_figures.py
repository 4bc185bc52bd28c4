"""Figures of a batch system: what is idle, who waits, and when waiting claims may start.

They are asked for seldom; between two looks they follow what happens to our own claims.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from koala.common.protocol.limits import ENDLESS_S
from koala.common.protocol.messages import Hole, Outlook, Wait
from koala.common.protocol.names import ClaimId
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.bookings import Bookings
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.batch.figures.forecast import forecast, holes
from koala_agent.lrm.batch.figures.idle_processors import (
    booked_of,
    hole_words,
    idle_of,
    others_waiting,
    presumed_figures,
    taken_of,
)
from koala_agent.lrm.batch.limits.queue_knowledge import QueueKnowledge
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.dialect import Booking, Figures, JobState
from koala_agent.lrm.local_manager import Idle

log = get_logger()

SPARE_S = 30.0
"""Time before the end of a reservation in which nothing is to run: jobs begin late, and have whole
minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """Figures of our claims by a listing that was asked for at `at`: those that used processors,
    processors of jobs that it had although their starters had left, claims that waited, and the
    processors of both in reservations that claims name."""

    at: float
    using: frozenset[str] = frozenset()
    leaving: int = 0
    waiting: int = 0
    inside: Mapping[str, int] = field(default_factory=dict)


class QueueFigures(ManagerPart):
    """The last figures of a batch system, with what our claims did since."""

    def __init__(self, shared: Shared, queues: QueueKnowledge, bookings: Bookings) -> None:
        super().__init__(shared)
        self._bookings = bookings
        self._queues = queues
        self._figures: Figures | None = None  # of the last look
        self._foreign = 0  # jobs of others that waited then
        self._in_use = 0  # processors of our claims in it
        self._inside: Mapping[str, int] = {}  # those in reservations that claims name
        self._leaving = 0  # processors in it of claims that are over
        self._asked_at = -math.inf
        self._listed = _Listing(at=-math.inf)
        self._forecasts: dict[str, Wait] = {}  # by number
        self._outlook: tuple[Outlook, ...] = ()
        self._looked_for: frozenset[str] = frozenset()  # numbers when the queue was asked for last
        self._holes: tuple[Hole, ...] = ()
        self._holes_at = -math.inf
        self._waits_due_at = -math.inf

    @property
    def asked_at(self) -> float:
        """When figures were asked for last; -inf where they never were."""
        return self._asked_at

    @property
    def are_known(self) -> bool:
        """True once there are figures."""
        return self._figures is not None

    @property
    def is_settling(self) -> bool:
        """True while processors are about to be free."""
        return self._figures is not None and self._figures.is_settling

    @property
    def has_others_waiting(self) -> bool:
        """True where jobs of others wait, or where it is not known."""
        if self._figures is None:
            return True
        return bool(others_waiting(self._now(self._figures), self._counted()).jobs)

    def note_listing(self, at: float) -> None:
        """Note that our claims were compared with a listing that was asked for at `at`."""
        claims = self._counted()
        self._listed = _Listing(
            at=at,
            using=frozenset(one.row.claim for one in claims if one.uses_processors()),
            leaving=sum(taken_of(one) for one in claims if one.is_leaving()),
            waiting=sum(one.is_eligible() and not one.is_limited for one in claims),
            inside=_inside(one for one in claims if one.uses_processors() or one.is_leaving()),
        )

    def expect_new_places(self) -> None:
        """Let the queue be looked at again: the places of claims in it have changed."""
        self._waits_due_at = -math.inf

    async def poll(self) -> None:
        """Ask for the figures that belong to the last listing."""
        look = self._listed
        answers = tuple(
            [
                await self._commands.ask(command, "", since=look.at)
                for command in self._dialect.figures()
            ]
        )
        figures = await asyncio.to_thread(self._dialect.read_figures, answers)
        if figures is None:
            figures = presumed_figures(self._claims.open(), allowed=self._settings.processors)
        await self._queues.try_to_learn()
        resources = self._queues.completed(figures.resources)
        if figures.waiting is not None:  # of one of ours nobody knows later that it was
            ours = {one.row.number for one in self._claims.all()}
            others = tuple(row for row in figures.waiting if row.number not in ours)
            figures = replace(figures, waiting=others)
        booked = tuple(one for one in figures.booked if not self._bookings.is_ours(one))
        self._figures = replace(figures, resources=resources, booked=booked)
        # One that left meanwhile may be in the listing, and in no later answer.
        self._in_use = sum(
            taken_of(one)
            for one in self._counted()
            if one.uses_processors() and one.row.claim in look.using
        )
        self._leaving, self._inside = look.leaving, look.inside
        self._foreign = max(0, figures.queued_jobs - look.waiting)
        self._asked_at = self._clock()

    def _now(self, figures: Figures) -> Figures:
        """Return the last figures with what has happened to our claims since."""
        claims = self._counted()
        in_use = sum(taken_of(one) for one in claims if one.uses_processors())
        idle = figures.idle + self._in_use - in_use
        waiting = sum(one.is_eligible() and not one.is_limited for one in claims)
        inside = _inside(one for one in claims if one.uses_processors())

        def with_ours(booking: Booking) -> Booking:
            more = inside.get(booking.number, 0) - self._inside.get(booking.number, 0)
            left = min(booking.size, booking.processors - more)
            return replace(booking, processors=max(0, left))

        reservations = figures.reservations
        return replace(
            figures,
            idle=max(0, min(idle, figures.processors)),
            queued_jobs=self._foreign + waiting,
            booked=tuple(map(with_ours, figures.booked)),
            reservations=reservations and tuple(map(with_ours, reservations)),
        )

    async def forecast(self) -> None:
        """Run the whole queue forward now and then, while claims of ours or others wait in it, and
        at once for a new one of ours. A queue that cannot be had only leaves their starts unknown.
        """
        figures = self._figures
        if figures is None:
            return
        waiting = [one for one in self._claims.open() if one.is_waiting()]
        ours = {one.row.number: one for one in waiting if not one.row.known_start}
        command = self._dialect.list_queue() if ours or figures.queued_jobs else None
        if command is None:
            self._forecasts, self._outlook, self._holes = {}, (), ()
            return
        if self._clock() < self._waits_due_at and self._looked_for.issuperset(ours):
            return
        self._looked_for = frozenset(ours)
        pause_s = self._settings.waits_s if ours else self._settings.outlook_s
        self._waits_due_at = self._clock() + pause_s
        try:
            answer = await self._commands.ask(command, "", since=self._listed.at)
            rows = await asyncio.to_thread(self._dialect.read_queue, answer)
        except LocalManagerError as error:
            log.debug("batch.queue_unknown", reason=str(error))
            self._forecasts, self._outlook, self._holes = {}, (), ()
            return
        claims = [one for one in self._claims.open() if self._is_usual(one, figures)]
        others = {one.row.number for one in self._claims.open()} - {
            one.row.number for one in claims
        }
        rows = tuple(row for row in rows if row.number not in others)
        booked = booked_of(figures, self._claims.open())
        known = (rows, claims, figures, booked, self._calendar())
        self._forecasts, self._outlook = await asyncio.to_thread(forecast, *known)
        self._holes = await asyncio.to_thread(holes, *known)
        self._holes_at = self._clock()

    def _is_usual(self, tracked: TrackedClaim, figures: Figures) -> bool:
        """Test for a claim in a queue of which the figures tell, and that starts jobs."""
        queue = tracked.row.queue
        is_booked = tracked.row.known_start and tracked.state is JobState.QUEUED
        return not is_booked and queue not in figures.shut_queues and self._queues.is_usual(queue)

    def _reason(self, tracked: TrackedClaim) -> str:
        """Return why a claim waits: by the batch system, its gate or its queue."""
        if tracked.gate_error is not None:
            return f"its gate: {tracked.gate_error}"
        queue = tracked.row.queue
        why = self._figures.shut_queues.get(queue) if self._figures is not None else None
        return f"{tracked.reason}: queue {queue} starts no jobs: {why}" if why else tracked.reason

    def _waits(self) -> tuple[Wait, ...]:
        """Return the waits of our claims, with the forecasts that there are."""
        return tuple(
            replace(
                self._bookings.wait_of(one)
                if one.row.known_start
                else self._forecasts.get(one.row.number) or Wait(claim=ClaimId(one.row.claim)),
                number=one.row.number,
                reason=self._reason(one),
            )
            for one in self._claims.open()
            if one.is_waiting()
        )

    def reserved_s(self, name: str | None) -> float:
        """Return the time that a reservation has for claims, as far as it is known."""
        figures = self._figures
        for one in (figures and figures.reservations) or ():
            if one.number == name and not one.is_open:
                return one.ends_at - max(one.begins_at, self._calendar()) - SPARE_S
        return math.inf

    def none_idle(self) -> Idle:
        """Return the figures where nothing can be started."""
        if self._figures is None:
            return Idle(
                processors=self._settings.processors,
                idle=0,
                startable=0,
                queued_jobs=0,
                local_processors=0,
            )
        return replace(self._idle_of(self._figures), idle=0, startable=0, idle_gpus=0, why="")

    def idle(self, *, is_shut: bool) -> Idle:
        """Return the figures of now, with the reasons why no more is idle. While the site `is_shut`
        for submissions of our own account, nothing is startable."""
        if self._figures is None:
            return self.none_idle()
        idle = self._idle_of(self._figures)
        idle = replace(
            idle, waits=self._waits(), outlook=self._outlook, holes=self._holes_now(idle)
        )
        now, limits = self._clock(), []
        for (account, charged), (at, reason) in sorted(self._claims.limits.items()):
            if now - at < self._settings.limited_s:
                whose = f"account {account}" if account else "the account of Koala"
                named = f" with {charged}" if charged else ""
                limits.append(f"{whose}{named} has reached a limit ({reason})")
                # Others may have what one user, project or quality of service cannot.
                is_shut = is_shut or not (account or charged)
        if is_shut:
            idle = replace(idle, startable=0, holes=())
        words = [*limits, idle.why, *map(hole_words, idle.holes[:1])]
        return replace(idle, why="; ".join(filter(None, words)))

    def _idle_of(self, figures: Figures) -> Idle:
        return idle_of(
            self._now(figures),
            self._counted(),
            allowed=self._settings.processors,
            unsure=sum(one.row.processors for one in self._claims.open() if self._is_unsure(one)),
            leaving=self._leaving,
            now=self._calendar(),
        )

    def _holes_now(self, idle: Idle) -> tuple[Hole, ...]:
        """Return what is left of the holes, in whole minutes: they must not change all the time."""
        unit = max(1, idle.resources.unit)
        age_s = 0.0 if idle.holes else self._clock() - self._holes_at
        left = []
        for hole in idle.holes or self._holes:
            for_s = (hole.for_s - age_s) // 60 * 60
            for_s = hole.for_s if hole.for_s == ENDLESS_S else for_s
            processors = min(hole.processors, idle.idle) // unit * unit
            if for_s > 0 and processors > idle.startable:
                left.append(Hole(processors=processors, for_s=for_s))
        return tuple(left)

    def _is_unsure(self, tracked: TrackedClaim) -> bool:
        """Test for a claim of an account with an open circuit. A waiting one counts as a foreign
        job."""
        return tracked.row.account in self._breaker.troubled

    def _counted(self) -> list[TrackedClaim]:
        """Return the claims that the figures are compared with."""
        return [tracked for tracked in self._claims.open() if not self._is_unsure(tracked)]


def _inside(claims: Iterable[TrackedClaim]) -> dict[str, int]:
    """Return the processors that claims have in the reservations that they name."""
    found: dict[str, int] = {}
    for one in claims:
        if one.row.reservation:
            found[one.row.reservation] = found.get(one.row.reservation, 0) + taken_of(one)
    return found
