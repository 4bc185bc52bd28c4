"""Books processors for claims with a known start, and gives them back.

A booking has the name of its claim's batch job. It is in the claim's row before the batch system
hears of it, so that after a crash at any instant a listing tells whether there is one. Each listing
of bookings is compared with the claims: a booking of ours that no open claim has is deleted, until
it is listed no more. So a claim that ends gives back the rest, whatever ended it.

A claim whose booking is gone before its start, or has been in trouble for a while, is ended; so is
one that has not begun `LATE_S` after its start.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from koala.common.protocol.messages import Wait
from koala.common.protocol.names import ClaimId
from koala.common.protocol.queue_limits import limit_text
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.claim_tracking import UNSURE, TrackedClaim
from koala_agent.lrm.batch.guarded_dialect import guarded
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.dialect import LATE_S, PREFIX, Booker, Booking, JobState, claim_of
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError

LEARN_S, UNKNOWN_S, DOUBT_S = 86_400.0, 60.0, 10.0
"""How often is asked whether our account may book; the same after an answer that could not be had,
and where bookings are refused."""
TROUBLE_S = 60.0
"""How long a booking may be in trouble before its start, as while a machine restarts."""
LOOK_S = 30.0
"""How often bookings are listed of which nothing is to be learned."""
FAILURES = 5
"""Looks without a deletion that was due, after which the site's administrator is told."""
STEP_S = 30.0
"""Times until starts are told in such steps: they must not change all the time."""
NONE = "the batch system books no processors for this account"

log = get_logger()


def nameable(listed: Iterable[Booking]) -> Iterator[Booking]:
    """Return the reservations that claims may name: none that an agent made for one."""
    return (one for one in listed if not one.name.startswith(f"{PREFIX}-"))


class Bookings(ManagerPart):
    """Bookings of a batch manager's claims."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._booker: Booker | None = None
        self._learning = asyncio.Lock()
        self._asked_at = self._ask_at = -math.inf
        self._made = 0  # bookings, counted before and after the command
        self._seen: dict[str, str] = {}  # claims and numbers, as of the last look
        self._is_settled = False  # nothing was left to do then
        self._is_deleting = False  # the last look found some that no claim has
        self._list_at = -math.inf
        self._failures = 0  # looks one after another that could not delete a booking
        self._troubled: dict[str, float] = {}  # since when, by number
        self._leaving: dict[str, float] = {}  # the same of claims that are being ended
        self.trouble = ""

    @property
    def name(self) -> str:
        """Name of the way; empty for none, and as long as it is unknown."""
        booker = self._booker
        is_allowed = booker is not None and booker.is_allowed and self._settings.books
        return booker.name if booker is not None and is_allowed else ""

    @property
    def is_giving_back(self) -> bool:
        """Return True while bookings of ours that no claim wants may be in the way of others; not
        for long where their jobs cannot be ended, as on a machine that has failed."""
        if self._booker is None:
            return False
        now = self._clock()
        rows = [one.row for one in self._claims.open() if one.row.is_unwanted]
        leaving = [row.claim for row in rows if row.begins_at]
        self._leaving = {claim: self._leaving.get(claim, now) for claim in leaving}
        if any(now - since < TROUBLE_S for since in self._leaving.values()):
            return True
        is_done = self._booker.list is None or self._failures > FAILURES
        return not is_done and (self._is_deleting or not self._seen.keys() <= self._booked().keys())

    def is_ours(self, booking: Booking) -> bool:
        """Return True for a booking of a claim, or one that is being given back."""
        return claim_of(booking.name, scope=self._scope) is not None

    async def try_to_learn(self) -> None:
        """Ask whether our account may book, when it is time; without an answer it stays so."""
        async with self._learning:  # also for those who need what is being learned
            now = self._clock()
            if now < self._ask_at or not self._settings.books:
                return
            self._asked_at, self._ask_at = now, now + UNKNOWN_S
            try:
                answers = [await self._breaker.ask(one, "") for one in self._dialect.booking()]
                booker = self._dialect.read_booking(tuple(answers))
            except LocalManagerError as error:
                log.warning("booking.unknown", reason=str(error))
                return
            self._booker = None if booker is None else guarded(booker)
            self._ask_at = now + LEARN_S

    async def book(self, tracked: TrackedClaim, asked: Placeholder, name: str) -> Placeholder:
        """Book what a claim asks for, unless that was done; return the placeholder with its
        booking. Raises LocalManagerError: after a transient one it may be booked."""
        if not asked.begins_at:
            return asked
        await self.try_to_learn()
        booker = self._booker
        if booker is None or not self.name:
            raise RequestRefusedError(NONE)
        if (late_s := self._calendar() - asked.begins_at) > 0 and not tracked.row.booking:
            raise RequestRefusedError(f"a booking that was to begin {late_s:.0f} s ago")
        if booker.book is None:
            return asked
        if tracked.row.booking:
            await self._reconcile(booker, own=tracked)
        if tracked.row.booking in ("", UNSURE):
            command = booker.book(asked, name)
            self._is_settled, self._made = False, self._made + 1
            self._claims.change(tracked, booking=UNSURE)
            answer = await self._breaker.submit(command, asked.account)
            try:
                number = booker.read_booked(answer)
            except RequestRefusedError:  # is the account still allowed to?
                self._seen.pop(tracked.row.claim, None)  # it is in nobody's way
                self._ask_at = min(self._ask_at, self._asked_at + DOUBT_S)
                raise
            self._is_settled, self._made = False, self._made + 1
            self._claims.change(tracked, booking=number)
        return replace(asked, booking=tracked.row.booking)

    async def reserved_at(self, asked: Placeholder) -> float:
        """Return when the reservation begins that a claim names; 0 for none. Raises
        LocalManagerError for one in which it could not run to its end."""
        name = asked.resources.reservation
        if not name:
            return 0.0
        command = self._dialect.reservations()
        if command is None:
            raise RequestRefusedError("the batch system has no reservations (expected none)")
        listed = self._dialect.read_reservations(await self._breaker.ask(command, asked.account))
        known = {one.number: one for one in nameable(listed)}
        if name not in known:
            words = f"one of {', '.join(known)}" if known else "none, as the site has none"
            raise RequestRefusedError(f"reservation {name} does not exist (expected {words})")
        reservation = known[name]
        if reservation.trouble:
            raise RequestRefusedError(f"reservation {name} cannot be used: {reservation.trouble}")
        if reservation.is_open:
            return 0.0
        if 0 < reservation.processors < asked.processors:
            raise RequestRefusedError(
                f"reservation {name} has {reservation.processors} processors"
                f" (expected {asked.processors} or more)"
            )
        has_s = reservation.ends_at - max(reservation.begins_at, self._calendar())
        if has_s < asked.time_limit_s < math.inf:
            raise RequestRefusedError(
                f"reservation {name} lasts {limit_text(has_s)} (expected at least"
                f" {limit_text(asked.time_limit_s)}: the run, its hold before and its end)"
            )
        return reservation.begins_at

    async def poll(self) -> None:
        """End claims whose bookings are gone, in trouble or late, and delete bookings that no claim
        has. What fails is tried again with the next poll."""
        self._end_late()
        booker = self._booker
        booked = self._booked()
        is_known = bool(self.name or booked or self._seen or self._is_deleting)
        if booker is None or booker.list is None or not is_known:
            return
        is_missing = any(one.missing_since is not None for one in self._claims.open())
        is_due = bool(booked) and (is_missing or self._clock() >= self._list_at)
        if self._is_settled and booked == self._seen and not is_due:
            return
        try:
            await self._reconcile(booker)
        except LocalManagerError as error:
            self.trouble = f"bookings cannot be listed: {error}"
            log.warning("booking.not_listed", reason=str(error))

    def _booked(self) -> dict[str, str]:
        """Return the open claims that have a booking, with its number."""
        rows = (one.row for one in self._claims.open())
        return {row.claim: row.booking for row in rows if row.booking}

    async def _reconcile(self, booker: Booker, *, own: TrackedClaim | None = None) -> None:
        """Compare a listing with the claims; of those that are being submitted only with `own`.
        Raises LocalManagerError."""
        assert booker.list is not None
        before, made = self._booked(), self._made
        submitting = (one.row.claim for one in self._claims.open() if one.is_submitting)
        busy = {claim for claim in submitting if own is None or claim != own.row.claim}
        self._is_settled = False
        listed = booker.read_list(await self._breaker.ask(booker.list, ""))
        ours: dict[str, list[Booking]] = {}
        for booking in listed:
            claim = claim_of(booking.name, scope=self._scope)
            if claim is not None:
                ours.setdefault(claim, []).append(booking)
        for claim, number in before.items():
            tracked = self._claims.get(claim)
            # One that was made meanwhile is in no listing of before.
            if tracked is not None and claim not in busy and tracked.row.booking == number:
                self._compare(tracked, ours.get(claim, ()))
        failure: LocalManagerError | None = None
        for claim, bookings in ours.items():
            tracked = self._claims.get(claim)
            is_open = tracked is not None and tracked.row.end is None
            kept = tracked.row.booking if tracked is not None and is_open else ""
            for booking in bookings:
                if booking.number != kept and not (is_open and claim in busy):
                    made = -1  # until it is listed no more
                    try:
                        await self._delete(booker, booking, tracked)
                    except LocalManagerError as error:  # as while its job is being ended
                        failure = error
        self.trouble = ""
        if failure is not None and self._failures > FAILURES:
            self.trouble = f"bookings are not given back: {failure}"
        self._failures = 0 if failure is None else self._failures + 1
        self._seen, self._list_at = self._booked(), self._clock() + LOOK_S
        self._is_settled = made == self._made and not busy
        self._is_deleting = made < 0

    def _compare(self, tracked: TrackedClaim, bookings: Sequence[Booking]) -> None:
        """Compare a claim with the bookings under its name: bind it to one, or end it."""
        row = tracked.row
        own = next((one for one in bookings if row.booking in (one.number, UNSURE)), None)
        if own is None:
            if row.booking == UNSURE or tracked.lacks_job():
                self._claims.change(tracked, booking="")
            elif tracked.state is JobState.QUEUED:
                words = f"its booking {row.booking} was deleted at the site"
                self._end(tracked, EndCause.CANCELLED_BY_SITE, words)
            return
        if row.booking != own.number:
            self._claims.change(tracked, booking=own.number)
        if not own.trouble or tracked.state is not JobState.QUEUED:
            self._troubled.pop(own.number, None)
            return
        since = self._troubled.setdefault(own.number, self._clock())
        if self._clock() - since >= TROUBLE_S or self._calendar() >= row.begins_at:
            words = f"its booking {own.number} cannot be kept: {own.trouble}"
            self._end(tracked, own.cause, words)

    def _end_late(self) -> None:
        now = self._calendar()
        for tracked in self._claims.open():
            late_s = now - tracked.row.begins_at
            if tracked.row.begins_at and tracked.is_waiting() and late_s > LATE_S:
                why = f": {tracked.reason}" if tracked.reason else ""
                words = f"not started {late_s:.0f} s after the begin of its booking{why}"
                self._end(tracked, EndCause.WITHDRAWN, words)

    def _end(self, tracked: TrackedClaim, cause: EndCause, words: str) -> None:
        if not tracked.row.is_unwanted:
            log.warning("booking.lost", claim=tracked.row.claim, reason=words)
            self._claims.change(tracked, is_unwanted=True, verdict=(cause, words))

    async def _delete(self, booker: Booker, booking: Booking, known: TrackedClaim | None) -> None:
        assert booker.delete is not None
        account = "" if known is None else known.row.account
        command = booker.delete(booking.number)
        booker.read_deleted(await self._breaker.act(command, account))
        log.info("booking.given_back", number=booking.number, name=booking.name)

    def wait_of(self, tracked: TrackedClaim) -> Wait:
        """Return the wait of a claim that is booked, or in a reservation of the site. Once that has
        begun, other jobs in it are in the way."""
        left_s = max(0.0, tracked.row.known_start - self._calendar())
        is_known = left_s > 0 or tracked.row.begins_at > 0
        return Wait(
            claim=ClaimId(tracked.row.claim),
            start_in_s=math.ceil(left_s / STEP_S) * STEP_S if is_known else None,
            source="booking" if tracked.row.begins_at else "reservation",
        )
