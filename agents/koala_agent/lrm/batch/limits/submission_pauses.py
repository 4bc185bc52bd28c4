"""Pauses between submissions that a batch system refuses or does not take: one for all claims of a
kind, ever longer.

A controller that is full refuses every claim of an account. A refusal whose cause is not known (of
a filter of the site's own, for instance) counts for all claims with the same account, queue and
quality of service; a known one for those that are alike. While a pause lasts no command is sent for
such a claim; when it is over, the first one tries it for all.

A booking that was refused may be had for another instant: those that are alike are not refused
meanwhile, but wait, the longer, the later it was to begin. So a search for an instant far ahead
asks seldom, and one for a near instant loses little of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from koala.common.protocol.queue_limits import limit_text
from koala.errors import LocalManagerError
from koala_agent.lrm.local_manager import (
    PausedError,
    Placeholder,
    RequestRefusedError,
    UnclearRefusalError,
)

FIRST_S, LONGEST_S = 1.0, 300.0
"""The first pause, doubled each time, and the longest."""
BOOKING_SHARE = 1 / 60
"""Pause after the refusal of a booking, as a share of the time until its begin."""
TRY_S = 15.0
"""Time that the claim which tries it for all has for its commands."""
KEPT_S = 600.0
"""Time after the end of a pause after which it is forgotten."""
TOLD_MAX = 3


@dataclass(slots=True, kw_only=True)
class _Pause:
    reason: str
    is_refusal: bool
    is_of_bookings: bool
    length_s: float
    until: float


class SubmissionPauses:
    """Pauses of one batch system by kind of claim."""

    def __init__(self, now: Callable[[], float], calendar: Callable[[], float]) -> None:
        self._now, self._calendar = now, calendar
        self._pauses: dict[Hashable, _Pause] = {}

    def check(self, placeholder: Placeholder) -> None:
        """Raise the error of a claim that must wait: RequestRefusedError, or PausedError; let one
        through when its pause is over."""
        for kind in _kinds(placeholder):
            pause = self._pauses.get(kind)
            if pause is None:
                continue
            left_s = pause.until - self._now()
            if left_s <= 0:
                pause.until = self._now() + TRY_S
                continue
            message = f"{pause.reason}; not asked again for {limit_text(left_s)}"
            if pause.is_refusal and not pause.is_of_bookings:
                raise RequestRefusedError(message)
            raise PausedError(message, again_s=left_s)

    def note_failure(self, placeholder: Placeholder, error: LocalManagerError) -> None:
        """Begin a pause, or a longer one. Errors that stay as they are need none, nor does the
        refusal in a reservation, which is between its user and the site."""
        is_refusal = isinstance(error, RequestRefusedError)
        is_own = placeholder.resources.reservation is not None
        is_of_bookings = is_refusal and placeholder.begins_at > 0.0
        if (is_refusal and is_own) or not (is_refusal or error.transient):
            return
        every, unclear, alike = _kinds(placeholder)
        kind = alike if is_refusal else every
        if isinstance(error, UnclearRefusalError) and not is_of_bookings:
            kind = unclear
        before = self._pauses.get(kind)
        length_s = FIRST_S if before is None else min(LONGEST_S, 2 * before.length_s)
        if is_of_bookings:
            ahead_s = placeholder.begins_at - self._calendar()
            length_s = max(FIRST_S, BOOKING_SHARE * ahead_s)
        self._pauses[kind] = _Pause(
            reason=str(error),
            is_refusal=is_refusal,
            is_of_bookings=is_of_bookings,
            length_s=length_s,
            until=self._now() + length_s,
        )

    def note_success(self, placeholder: Placeholder) -> None:
        """Forget the pauses of a claim that was queued."""
        for kind in _kinds(placeholder):
            self._pauses.pop(kind, None)

    def is_shut(self, account: str) -> bool:
        """Return True while nothing of an account can be queued."""
        pause = self._pauses.get((account,))
        return pause is not None and self._now() < pause.until

    @property
    def summary(self) -> str:
        """The reasons of all pauses, as a text for users and the site's administrator."""
        now = self._now()
        self._pauses = {
            kind: pause for kind, pause in self._pauses.items() if now < pause.until + KEPT_S
        }
        told = [pause.reason for pause in self._pauses.values() if not pause.is_of_bookings]
        reasons = list(dict.fromkeys(told))
        more = f"; and {len(reasons) - TOLD_MAX} others" if len(reasons) > TOLD_MAX else ""
        return f"it refuses claims: {'; '.join(reasons[:TOLD_MAX])}{more}" if reasons else ""


def _kinds(placeholder: Placeholder) -> tuple[Hashable, Hashable, Hashable]:
    """Return the keys of a claim: its account's, that with its wishes for a place, and its own."""
    wishes = placeholder.resources
    place = (placeholder.account, wishes.queue, wishes.project, wishes.qos)
    size = (placeholder.processors, placeholder.processes, placeholder.time_limit_s)
    is_booked = placeholder.begins_at > 0.0
    return (placeholder.account,), place, (placeholder.account, wishes, *size, is_booked)
