"""Pure state machine of one copy of a part of a file, from the order to its end.

    Queued -> Reading -> Checking -> Finished
       ^         |           |
       |         v           v            any but the ends -> Failed | Cancelled
       +----- Waiting <------+

The driver passes events in and carries out the actions in order. Time is an argument, in seconds.
Bytes on the disk are never transferred again, unless their checksum turns out wrong.
Everything ends: tries without progress, pauses without bytes and spoilt copies have limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from koala.common.files.names import shown
from koala.common.files.transfer_events import (
    Action,
    Admitted,
    Arrived,
    AskPlace,
    Busy,
    CancelRequested,
    Check,
    Checked,
    Cut,
    Discard,
    Ended,
    Event,
    Fault,
    HangUp,
    Keep,
    Kept,
    Listening,
    Ordered,
    Read,
    Refused,
    SendReport,
    Ticked,
)
from koala.common.protocol.messages import (
    FetchOrder,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)

REPORT_SHARE = 0.1
"""Least pause between two reports, as a share of the time taken so far."""
REPORT_S_MAX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimits:
    """Limits of retries of a copy.

    - `tries_max`: tries in a row without a byte.
    - `stalled_s`: wait for the next byte within one try.
    - `progress_s`: time without a byte over all tries.
    - `busy_s`: time for which a source may keep answering that it is busy.
    - `spoilt_max`: checks of the bytes that may fail.
    - `pause_s`, `pause_s_max`: first and longest back-off between tries; it doubles.
    """

    tries_max: int = 12
    stalled_s: float = 30.0
    progress_s: float = 600.0
    busy_s: float = 3600.0
    spoilt_max: int = 3
    pause_s: float = 0.25
    pause_s_max: float = 15.0


# States -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Between two tries."""

    retry_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Waiting for a place among the copies of this site."""

    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Reading; `heard_at` starts the stall limit, None while we are busy ourselves."""

    has_progress: bool = False
    heard_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """All bytes are here; `promised` is their checksum by the source."""

    promised: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The bytes are right and are renamed to the final name."""

    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Complete."""

    report: TransferFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Given up."""

    report: TransferFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """No longer wanted."""


State: TypeAlias = Waiting | Queued | Reading | Checking | Keeping | Finished | Failed | Cancelled


class Transfer:
    """State machine of one copy, at its target.

    `offset` is the number of bytes of the part on the disk. An event that does not fit the state is
    late and changes nothing.
    """

    def __init__(
        self, order: FetchOrder, *, target: str, limits: TransferLimits, now: float
    ) -> None:
        self.order = order
        self.offset = 0
        self.state: State = Waiting(retry_at=float("inf"))
        self._target = target
        self._limits = limits
        self._ordered_at = now
        self._progress_at = now
        self._tries = 0
        self._spoilt = 0
        self._busy_answers = 0
        self._busy_since = now
        self._begun_at: float | None = None
        self._spent_s = 0.0
        self._reported_s = 0.0  # time taken at the last report

    @property
    def is_over(self) -> bool:
        """True when nothing more happens, short of a cancellation."""
        return isinstance(self.state, Finished | Failed | Cancelled)

    @property
    def wake_at(self) -> float | None:
        """The next instant at which Ticked would change something."""
        match self.state:
            case Waiting(retry_at=retry_at):
                return retry_at
            case Reading(heard_at=heard_at) if heard_at is not None:
                return heard_at + self._limits.stalled_s
            case _:
                return None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle one event; return the actions to carry out, in order."""
        match event:
            case CancelRequested():
                return self._cancel()
            case Ordered():
                return self._begin(event, now)
            case Admitted():
                return self._admit(now)
            case Listening() | Arrived() | Ended() | Busy():
                return self._handle_source(event, now)
            case Cut(fault=fault, reason=reason):
                return self._retry(fault, reason, now) if self._is_trying() else []
            case Refused(fault=fault, reason=reason):
                return self._fail(fault, reason) if self._is_trying() else []
            case Checked(checksum=checksum):
                return self._compare(checksum, now)
            case Kept():
                return self._finish()
            case Ticked():
                return self._tick(now)

    def progress(self, now: float) -> TransferProgress | None:
        """Return a progress report if one is due; call it when bytes have arrived.

        Reports come at a bounded rate. A copy that takes less than `report_s` has none.
        """
        report_s = self.order.report_s
        if not report_s or self._begun_at is None or not isinstance(self.state, Reading):
            return None
        took_s = now - self._begun_at
        pause_s = max(report_s, min(REPORT_S_MAX, REPORT_SHARE * took_s))
        if took_s < self._reported_s + pause_s:
            return None
        self._reported_s = took_s
        return TransferProgress(transfer=self.order.transfer, size_bytes=self.offset, took_s=took_s)

    def redirect(self, order: FetchOrder) -> None:
        """Replace the order of the same copy: another address, or another token."""
        assert order.transfer == self.order.transfer, (order, self.order)
        self.order = replace(
            self.order,
            source=order.source,
            address=order.address,
            token=order.token,
            report_s=order.report_s,
        )

    def _begin(self, event: Ordered, now: float) -> list[Action]:
        self._ordered_at = now - event.spent_s
        self._spent_s = self._reported_s = event.spent_s
        self._progress_at = now
        self.state = Queued(since=now)
        if event.have_bytes > self.order.size_bytes:
            return [Discard(), AskPlace()]
        self.offset = event.have_bytes
        return [AskPlace()]

    def _admit(self, now: float) -> list[Action]:
        if not isinstance(self.state, Queued):
            return []
        if self._begun_at is None:
            self._begun_at = now - self._spent_s
        self._progress_at += now - self.state.since  # time in our own queue is not the source's
        self.state = Reading(heard_at=now)
        return [Read(offset=self.offset)]

    def _handle_source(self, event: Listening | Arrived | Ended | Busy, now: float) -> list[Action]:
        if not isinstance(self.state, Reading):
            return []
        match event:
            case Listening():
                self.state = Reading(has_progress=self.state.has_progress, heard_at=now)
                return []
            case Arrived(size_bytes=size_bytes):
                return self._count(size_bytes, now)
            case Ended(checksum=checksum):
                return self._check(checksum, now)
            case Busy(reason=reason):
                return self._wait_for_source(reason, now)

    def _count(self, size_bytes: int, now: float) -> list[Action]:
        self.offset += size_bytes
        if self.offset > self.order.size_bytes:
            reason = f"sent more than the ordered {self.order.size_bytes} bytes"
            return [HangUp(), *self._fail(Fault.SOURCE, reason)]
        if size_bytes:
            self._tries = 0
            self._busy_answers = 0
            self._progress_at = now
        self.state = Reading(has_progress=True)
        return []

    def _check(self, checksum: str, now: float) -> list[Action]:
        if self.offset < self.order.size_bytes:
            reason = f"the stream ended after {self.offset} of {self.order.size_bytes} bytes"
            return self._retry(Fault.SOURCE, reason, now)
        self.state = Checking(promised=checksum)
        return [Check()]

    def _wait_for_source(self, reason: str, now: float) -> list[Action]:
        """Back off from a busy source. Its answers show that it lives, so they consume neither the
        tries nor the time without progress.
        """
        if self._busy_answers == 0:
            self._busy_since = now
        if now - self._busy_since >= self._limits.busy_s:
            return self._fail(Fault.SOURCE, f"busy for {self._limits.busy_s:g} s: {reason}")
        self._busy_answers += 1
        self._progress_at = now
        self.state = Waiting(retry_at=now + self._pause(self._busy_answers))
        return []

    def _retry(self, fault: Fault, reason: str, now: float) -> list[Action]:
        self._tries += 1
        if self._tries >= self._limits.tries_max:
            return self._fail(fault, f"{self._tries} tries without a byte; the last: {reason}")
        if now - self._progress_at >= self._limits.progress_s:
            return self._fail(fault, f"no byte for {now - self._progress_at:.0f} s: {reason}")
        self.state = Waiting(retry_at=now + self._pause(self._tries))
        return []

    def _compare(self, checksum: str, now: float) -> list[Action]:
        if not isinstance(self.state, Checking):
            return []
        order = self.order
        if checksum != self.state.promised:
            return self._spoil(checksum, self.state.promised, now)
        is_whole = order.offset == 0 and bool(order.checksum)
        if is_whole and order.checksum != checksum:
            reason = f"the source's file has sha256 {checksum}, the catalogue's {order.checksum}"
            return self._fail(Fault.SOURCE, reason)
        took_s = max(0.0, now - self._ordered_at)
        self.state = Keeping(took_s=took_s)
        return [Keep(took_s=took_s)]

    def _spoil(self, checksum: str, promised: str, now: float) -> list[Action]:
        """Discard all bytes after a wrong checksum: it does not say which bytes are bad."""
        self._spoilt += 1
        self.offset = 0
        reason = f"the copy has sha256 {checksum}, the source promised {promised}"
        if self._spoilt >= self._limits.spoilt_max:
            return self._fail(Fault.NOBODY, f"{self._spoilt} spoilt copies; the last: {reason}")
        return [Discard(), *self._retry(Fault.NOBODY, reason, now)]

    def _finish(self) -> list[Action]:
        if not isinstance(self.state, Keeping):
            return []
        report = TransferFinished(
            transfer=self.order.transfer,
            size_bytes=self.order.size_bytes,
            took_s=self.state.took_s,
        )
        self.state = Finished(report=report)
        return [SendReport(report=report)]

    def _fail(self, fault: Fault, reason: str) -> list[Action]:
        at = {Fault.SOURCE: self.order.source, Fault.TARGET: self._target}.get(fault, "")
        report = TransferFailed(
            transfer=self.order.transfer,
            reason=f"copy of {shown(self.order.file)} from {self.order.source}: {reason}",
            at=at,
        )
        self.state = Failed(report=report)
        return [Discard(), SendReport(report=report)]

    def _cancel(self) -> list[Action]:
        if isinstance(self.state, Cancelled):
            return []
        is_reading = isinstance(self.state, Reading)
        self.state = Cancelled()
        return [HangUp(), Discard()] if is_reading else [Discard()]

    def _tick(self, now: float) -> list[Action]:
        if self.wake_at is None or now < self.wake_at:
            return []
        if isinstance(self.state, Waiting):
            self.state = Queued(since=now)
            return [AskPlace()]
        stalled_s = self._limits.stalled_s
        return [HangUp(), *self._retry(Fault.SOURCE, f"sent nothing for {stalled_s:g} s", now)]

    def _is_trying(self) -> bool:
        return isinstance(self.state, Reading | Checking | Keeping)

    def _pause(self, tries: int) -> float:
        doublings = min(tries - 1, 30)
        return min(self._limits.pause_s_max, self._limits.pause_s * 2.0**doublings)
