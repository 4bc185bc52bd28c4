"""Copies of a simulated agent: the real state machine of a transfer, with a simulated driver (the
spool on the site's disk, the stream from the other agent).

Bytes are counted, not moved: a part has a length, and is damaged or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from koala.common.files.orders import Report, TransferReport
from koala.common.files.retries import RetryLimits
from koala.common.files.transfer import (
    Checking,
    Ended,
    Fault,
    Keeping,
    Queued,
    Reading,
    Transfer,
    Waiting,
)
from koala.common.protocol.messages import FetchOrder, ServeOrder, TransferFailed
from koala.core.model.values import Instant, SiteName
from tests.swarm.system.machines import Process, Timer
from tests.swarm.system.network import Network

LIMITS = RetryLimits(
    tries_max=6, stalled_s=10.0, progress_s=120.0, busy_s=60.0, pause_s=0.25, pause_s_max=5.0
)
CHUNKS = 4
CHUNK_S_MAX = 4.0
"""Longest time of a chunk that arrives normally: much less than a stall."""
RIGHT, WRONG = "right", "wrong"


@dataclass(slots=True)
class Part:
    """Partial copy in the site's spool; it outlives the agent. `order` identifies its bytes."""

    order: FetchOrder
    begun_at: Instant
    have_bytes: int = 0
    written_at: Instant = 0.0
    is_spoilt: bool = False
    took_s: float | None = None


Spool = dict[str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Environment of a copy: the other site's offer (None: no agent there), the rate in bytes a
    second, and the name of an agent in the network."""

    serves: Callable[[SiteName, str], bool | None]
    bandwidth: Callable[[SiteName, SiteName], float]
    network: Network


class Copy:
    """One copy, in one life of the agent (koala.common.files.transfer_driver.Fetch)."""

    def __init__(self, order: FetchOrder, copies: Copies) -> None:
        process = copies.process
        self.machine = Transfer(
            order, target=copies.site, limits=LIMITS, now=process.machine.boot()
        )
        self._copies = copies
        self._timer = Timer(process, self._wake)
        self._try = 0

    @property
    def report(self) -> TransferReport | None:
        """Return the report of its end."""
        state = self.machine.state
        return state.report if isinstance(state, Ended) else None

    @property
    def _now(self) -> float:
        return self._copies.process.machine.boot()

    @property
    def _part(self) -> Part:
        return self._copies.spool[self.machine.order.transfer]

    def begin(self) -> None:
        """Resume from an earlier life."""
        order, copies = self.machine.order, self._copies
        part = copies.spool.get(order.transfer)
        now = copies.process.engine.now
        if part is None or _identity(part.order) != _identity(order):
            copies.spool[order.transfer] = part = Part(order=order, begun_at=now)
        if part.took_s is None:
            spent_s = max(0.0, part.written_at - part.begun_at)
            self.machine.begin(self._now, have_bytes=part.have_bytes, spent_s=spent_s)
        else:
            self.machine.resume_finished(part.took_s)
        self._go_on()

    def cancel(self) -> None:
        """Cancel the copy."""
        self.machine.cancel()
        self._try += 1
        self._timer.stop()

    def _wake(self) -> None:
        if self.machine.is_over:
            return  # the process was frozen when the timer rang, and it was cancelled since
        if isinstance(self.machine.state, Reading):
            self._cut(Fault.SOURCE, "sent nothing")
        else:
            self.machine.retry(self._now)
            self._go_on()

    def _cut(self, fault: Fault, reason: str) -> None:
        self.machine.cut(fault, reason, self._now)
        self._go_on()

    def _go_on(self) -> None:
        """Do what the state asks for. Each step but the bytes of a try belongs to a new one: what
        an older one brings is late."""
        self._try += 1
        number, process = self._try, self._copies.process
        self._timer.set(None)
        match self.machine.state:
            case Waiting(retry_at=retry_at):
                self._timer.set(retry_at)
            case Queued():
                process.soon(lambda: self._if_current(number, self._read))
            case Checking():
                process.after(0.01, lambda: self._if_current(number, self._check))
            case Keeping(took_s=took_s):
                process.after(0.01, lambda: self._if_current(number, lambda: self._keep(took_s)))
            case Ended(report=report):
                if isinstance(report, TransferFailed):
                    self._part.have_bytes, self._part.is_spoilt = 0, False
                self._copies.tell(report)
            case _:
                raise AssertionError(self.machine.state)

    def _if_current(self, number: int, act: Callable[[], None]) -> None:
        if number == self._try:
            act()

    def _later(self, after_s: float, act: Callable[[], None]) -> None:
        number = self._try
        self._copies.process.after(after_s, lambda: self._if_current(number, act))

    # --- one try ---

    def _read(self) -> None:
        """Have the source send the rest, in some chunks."""
        copies, order, machine = self._copies, self.machine.order, self.machine
        machine.admit(self._now)
        self._listen()
        if not machine.offset:
            self._part.is_spoilt = False
        self._part.have_bytes = machine.offset
        plan, now = copies.process.plan, copies.process.engine.now
        source = SiteName(order.source)
        serves = copies.sources.serves(source, order.transfer)
        network = copies.sources.network
        names = (f"agent:{source}", f"agent:{copies.site}")
        if serves is None or not network.is_open(*names):
            at_source = Fault.SOURCE if machine.offset == 0 else Fault.NOBODY
            self._later(0.5, lambda: self._cut(at_source, "UNAVAILABLE: not reached"))
        elif plan.strikes("transfer_busy", now):
            self._later(0.05, self._find_busy)
        elif not serves:
            self._later(0.05, lambda: self._cut(Fault.SOURCE, "UNAUTHENTICATED"))
        elif plan.strikes("transfer_error", now):
            self._later(0.05, self._find_refused)
        else:
            self._stream(order.size_bytes - machine.offset)

    def _listen(self) -> None:
        self._timer.set(self._now + LIMITS.stalled_s)

    def _find_busy(self) -> None:
        self.machine.busy("RESOURCE_EXHAUSTED: readers", self._now)
        self._go_on()

    def _find_refused(self) -> None:
        self.machine.refuse(Fault.SOURCE, "NOT_FOUND")
        self._go_on()

    def _stream(self, left: int) -> None:
        copies = self._copies
        plan, order = copies.process.plan, self.machine.order
        bps = order.booked_bps or copies.sources.bandwidth(SiteName(order.source), copies.site)
        factor = 0.6 + 0.8 * plan.stream("transfer").random()
        at_s = 0.01
        for size_bytes in _shares(left, max(CHUNKS, math.ceil(left / bps / CHUNK_S_MAX))):
            now = copies.process.engine.now
            if plan.strikes("transfer_cut", now):
                self._later(at_s, lambda: self._cut(Fault.NOBODY, "the stream broke"))
                return
            if plan.strikes("transfer_stall", now):
                at_s += plan.stream("stall").choice((5.0, 20.0, 1000.0))
            at_s += size_bytes / bps * factor
            self._later(at_s, lambda size=size_bytes: self._arrive(size))  # type: ignore[misc]
        self._later(at_s, self._end)

    def _end(self) -> None:
        self.machine.end(RIGHT, self._now)
        self._go_on()

    def _arrive(self, size_bytes: int) -> None:
        process, order = self._copies.process, self.machine.order
        network = self._copies.sources.network
        names = (f"agent:{order.source}", f"agent:{self._copies.site}")
        if self._copies.sources.serves(SiteName(order.source), order.transfer) is None:
            self._cut(Fault.NOBODY, "the source is gone")
            return
        if not network.is_open(*names):  # nothing comes, and nobody says so
            self._try += 1
            return
        process.point()
        if process.plan.strikes("spool_error", process.engine.now):
            self._cut(Fault.TARGET, "No space left on device")
            return
        part = self._part
        part.have_bytes += size_bytes
        part.written_at = process.engine.now
        part.is_spoilt |= process.plan.strikes("transfer_spoilt", process.engine.now)
        process.point()
        self.machine.arrive(size_bytes, self._now)
        if not isinstance(self.machine.state, Reading):
            self._go_on()
            return
        if (progress := self.machine.progress(self._now)) is not None:
            self._copies.tell(progress)
        self._listen()

    def _check(self) -> None:
        self.machine.compare(WRONG if self._part.is_spoilt else RIGHT, self._now)
        self._go_on()

    def _keep(self, took_s: float) -> None:
        process, part, order = self._copies.process, self._part, self.machine.order
        assert not part.is_spoilt, f"promise 4: a spoilt copy of {order.file} is kept"
        is_whole = part.have_bytes == order.size_bytes
        assert is_whole, f"promise 4: {part.have_bytes} bytes are kept as {order}"
        process.point()
        self._part.took_s = took_s
        process.point()
        self.machine.finish()
        self._go_on()


def _identity(order: FetchOrder) -> tuple[object, ...]:
    return (order.transfer, order.file, order.offset, order.size_bytes, order.checksum)


def _shares(left: int, chunks: int) -> Iterator[int]:
    for n in range(chunks, 0, -1):
        share = left // n
        left -= share
        yield share


class Copies:
    """All copies to one site, and those it serves (koala_agent.files.Files)."""

    def __init__(
        self,
        process: Process,
        site: SiteName,
        spool: Spool,
        sources: Sources,
        tell: Callable[[Report], None],
    ) -> None:
        self.process = process
        self.site = site
        self.spool = spool
        self.sources = sources
        self.tell = tell
        self.served: dict[str, ServeOrder] = {}
        self._copies: dict[str, Copy] = {}

    def fetch(self, order: FetchOrder) -> None:
        """See Files."""
        known = self._copies.get(order.transfer)
        if known is None:
            copy = self._copies[order.transfer] = Copy(order, self)
            copy.begin()
            return
        known.machine.redirect(order)
        if known.report is not None:
            self.tell(known.report)

    def release(self, transfer: str) -> None:
        """See Files."""
        self.remove(transfer)

    def remove_replica(self, name: str) -> None:
        """See Files: no user adds files here."""

    def serve(self, order: ServeOrder) -> None:
        """See Files."""
        self.served[order.transfer] = order

    def cancel(self, transfer: str) -> None:
        """See Files."""
        self.served.pop(transfer, None)
        self.remove(transfer)

    def remove(self, transfer: str) -> None:
        """See Files."""
        copy = self._copies.pop(transfer, None)
        if copy is not None:
            copy.cancel()
        self.spool.pop(transfer, None)

    def retain(self, transfers: frozenset[str]) -> None:
        """See Files."""
        for transfer in sorted({*self._copies, *self.served, *self.spool} - transfers):
            self.cancel(transfer)

    def inventory(self) -> tuple[Report, ...]:
        """See Files."""
        ends = (copy.report for copy in self._copies.values())
        return tuple(report for report in ends if report is not None)
