"""Pure state machine of one copy of a part of a file, at its target.

    Queued -> Reading -> Checking -> Keeping -> Finished
       ^         |           |
       |         v           v            any but the ends -> Failed | Cancelled
       +----- Waiting <------+

The driver does what the state asks for and tells what came of it. Time is an argument, in seconds.
Bytes on the disk are never transferred again, unless their checksum turns out wrong.
Everything ends: tries without progress, pauses without bytes and spoilt copies have limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from koala.common.files.names import shown
from koala.common.files.orders import TransferReport
from koala.common.files.retries import GivenUpError, Retries, RetryLimits
from koala.common.protocol.messages import (
    FetchOrder,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)

REPORT_SHARE = 0.1
"""Least pause between two reports, as a share of the time taken so far."""
REPORT_S_MAX = 30.0
SPOILT_MAX = 3
"""Checks of the bytes that may fail."""
LIMITS = RetryLimits(tries_max=12, busy_s=3600.0, pause_s_max=15.0)


class Fault(StrEnum):
    """End of the copy at which an error occurred."""

    SOURCE = "source"
    TARGET = "target"
    NOBODY = "nobody"
    """The network between them, or unknown."""


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
    """Reading from the source, from `offset` on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """All bytes are here; `promised` is their checksum by the source."""

    promised: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """The bytes are right and are renamed to the final name."""

    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Finished or failed."""

    report: TransferReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """No longer wanted."""


State: TypeAlias = Waiting | Queued | Reading | Checking | Keeping | Ended | Cancelled


class Transfer:
    """State machine of one copy. `offset` is the number of good bytes of the part on the disk: what
    is behind them goes when the next try begins. What does not fit the state is late and changes
    nothing.
    """

    def __init__(self, order: FetchOrder, *, target: str, limits: RetryLimits, now: float) -> None:
        self.order = order
        self.offset = 0
        self.state: State = Waiting(retry_at=float("inf"))
        self._target = target
        self._retries = Retries(limits, now)
        self._ordered_at = now
        self._spoilt = 0
        self._begun_at: float | None = None
        self._spent_s = 0.0
        self._reported_s = 0.0  # time taken at the last report

    @property
    def is_over(self) -> bool:
        """True when nothing more happens, short of a cancellation."""
        return isinstance(self.state, Ended | Cancelled)

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

    def begin(self, now: float, *, have_bytes: int = 0, spent_s: float = 0.0) -> None:
        """Begin, with the bytes of an earlier life and the time that they took."""
        self._ordered_at = now - spent_s
        self._spent_s = self._reported_s = spent_s
        self.offset = have_bytes if have_bytes <= self.order.size_bytes else 0
        self.state = Queued(since=now)

    def resume_finished(self, took_s: float) -> None:
        """Begin with the whole copy, which an earlier life has checked."""
        self.offset = self.order.size_bytes
        self.state = Keeping(took_s=took_s)
        self.finish()

    def retry(self, now: float) -> None:
        """Go on after the pause."""
        if isinstance(self.state, Waiting) and now >= self.state.retry_at:
            self.state = Queued(since=now)

    def admit(self, now: float) -> None:
        """Begin a try: the driver has a free place for this copy."""
        if isinstance(self.state, Queued):
            if self._begun_at is None:
                self._begun_at = now - self._spent_s
            self._retries.excuse(now - self.state.since)  # our own queue is not the source's fault
            self.state = Reading()

    def arrive(self, size_bytes: int, now: float) -> None:
        """Count bytes that are on the disk."""
        if not isinstance(self.state, Reading):
            return
        self.offset += size_bytes
        if self.offset > self.order.size_bytes:
            self._fail(Fault.SOURCE, f"sent more than the ordered {self.order.size_bytes} bytes")
        elif size_bytes:
            self._retries.note_bytes(now)

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

    def end(self, checksum: str, now: float) -> None:
        """Note that the source has sent all, and the checksum that it promises."""
        if not isinstance(self.state, Reading):
            return
        if self.offset < self.order.size_bytes:
            reason = f"the stream ended after {self.offset} of {self.order.size_bytes} bytes"
            self.cut(Fault.SOURCE, reason, now)
        else:
            self.state = Checking(promised=checksum)

    def cut(self, fault: Fault, reason: str, now: float) -> None:
        """Note the end of a try, after which another one may help."""
        if isinstance(self.state, Reading | Checking | Keeping):
            try:
                pause_s = self._retries.pause_after_cut(reason, now)
                self.state = Waiting(retry_at=now + pause_s)
            except GivenUpError as given_up:
                self._fail(fault, str(given_up))

    def busy(self, reason: str, now: float) -> None:
        """Note that the source asks to come again later."""
        if isinstance(self.state, Reading):
            try:
                pause_s = self._retries.pause_after_busy(reason, now)
                self.state = Waiting(retry_at=now + pause_s)
            except GivenUpError as given_up:
                self._fail(Fault.SOURCE, str(given_up))

    def refuse(self, fault: Fault, reason: str) -> None:
        """Note that no further try would help."""
        if isinstance(self.state, Reading):
            self._fail(fault, reason)

    def compare(self, checksum: str, now: float) -> None:
        """Compare the checksum of the bytes on the disk, which are durable, with the promise."""
        if not isinstance(self.state, Checking):
            return
        order, promised = self.order, self.state.promised
        if checksum != promised:
            self._spoil(f"the copy has sha256 {checksum}, the source promised {promised}", now)
        elif order.offset == 0 and order.checksum not in ("", checksum):
            reason = f"the source's file has sha256 {checksum}, the catalogue's {order.checksum}"
            self._fail(Fault.SOURCE, reason)
        else:
            self.state = Keeping(took_s=max(0.0, now - self._ordered_at))

    def finish(self) -> None:
        """Note that the copy has its final name."""
        if isinstance(self.state, Keeping):
            report = TransferFinished(
                transfer=self.order.transfer,
                size_bytes=self.order.size_bytes,
                took_s=self.state.took_s,
            )
            self.state = Ended(report=report)

    def cancel(self) -> None:
        """End the copy, whatever its state."""
        self.state = Cancelled()

    def _spoil(self, reason: str, now: float) -> None:
        """Discard all bytes after a wrong checksum: it does not say which bytes are bad."""
        self._spoilt += 1
        self.offset = 0
        if self._spoilt >= SPOILT_MAX:
            self._fail(Fault.NOBODY, f"{self._spoilt} spoilt copies; the last: {reason}")
        else:
            self.cut(Fault.NOBODY, reason, now)

    def _fail(self, fault: Fault, reason: str) -> None:
        at = {Fault.SOURCE: self.order.source, Fault.TARGET: self._target}.get(fault, "")
        report = TransferFailed(
            transfer=self.order.transfer,
            reason=f"copy of {shown(self.order.file)} from {self.order.source}: {reason}",
            at=at,
        )
        self.state = Ended(report=report)
