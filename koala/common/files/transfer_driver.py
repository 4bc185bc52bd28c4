"""Driver of one copy at its target: read from the source, or from the relay in its place.

All decisions are those of `transfer`; this module carries out its actions. It has a loop of its own
(not `common.runtime.driver`), because events come from within an action: a try is one `Files.Read`
call, served by two tasks. One reads, stores, and waits for the rate limit. The other watches the
clock and cancels the call when the machine says so. A time limit around a single read of a stream
would cancel the whole call, and at the wrong moments.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias

import grpc
from grpc import aio

from koala.common.files.bandwidth_limits import LinkLimits
from koala.common.files.channels import Channels
from koala.common.files.confined_folder import Descriptor
from koala.common.files.incoming import Incoming, Remains, Summing
from koala.common.files.orders import Report, TransferReport
from koala.common.files.transfer import Failed, Finished, Transfer, TransferLimits
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
from koala.common.protocol.messages import FetchOrder, TransferFailed, TransferFinished
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_steps, in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError

_P = ParamSpec("_P")
_Call: TypeAlias = "aio.UnaryStreamCall[files_pb2.ReadRequest, files_pb2.Chunk]"

log = get_logger(__name__)

_REFUSALS = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Statuses of a source that a retry would not change."""
_TICKS = 8
"""Checks of the clock in one stall limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """Resources shared by all copies to this site.

    `places` bounds how many read at the same time, and `room_bytes` how much disk they may use.
    """

    site: str
    incoming: Incoming
    channels: Channels
    links: LinkLimits
    limits: TransferLimits
    places: asyncio.Semaphore
    send_report: Callable[[Report], None]
    relay: Callable[[], str]
    """host:port of the relay, empty when unknown."""
    room_bytes: Callable[[], float]


class Fetch:
    """Driver of one copy. Call `run` once; call `cancel` from any other task."""

    def __init__(self, order: FetchOrder, place: FetchContext) -> None:
        self._place = place
        self._machine = Transfer(order, target=place.site, limits=place.limits, now=clock.now())
        self._task: asyncio.Task[None] | None = None
        self._earlier: TransferFinished | None = None
        self._is_cancelled = False
        self.over = asyncio.Event()

    @property
    def order(self) -> FetchOrder:
        """The newest order of this copy."""
        return self._machine.order

    @property
    def report(self) -> TransferReport | None:
        """Final report of the copy; None before the end, and after a cancellation."""
        if self._is_cancelled:
            return None
        if self._earlier is not None:
            return self._earlier
        state = self._machine.state
        return state.report if isinstance(state, Finished | Failed) else None

    @property
    def is_finished(self) -> bool:
        """True when the whole copy is here and checked."""
        return isinstance(self.report, TransferFinished)

    def order_again(self, order: FetchOrder) -> None:
        """Apply a repeated order: it may have a new address, or the daemon may have missed the
        report.
        """
        self._machine.redirect(order)
        if self.report is not None:
            self._place.send_report(self.report)

    async def run(self) -> None:
        """Run the copy to its end; `over` is set then."""
        try:
            await self._run()
        finally:
            self.over.set()

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        order = self.order
        try:
            found = await in_thread(self._place.incoming.remains, order)
        except OSError as error:  # opening the part will say so, and that is tried again
            log.warning("transfer.spool_failed", transfer=order.transfer, reason=str(error))
            found = Remains(have_bytes=0)
        if found.took_s is not None:
            self._earlier = TransferFinished(
                transfer=order.transfer, size_bytes=order.size_bytes, took_s=found.took_s
            )
            self._place.send_report(self._earlier)
            return
        pending = deque(self._handle(Ordered(have_bytes=found.have_bytes, spent_s=found.spent_s)))
        while pending or not self._machine.is_over:
            if pending:
                pending.extend(await self._carry_out(pending.popleft()))
            else:
                pending.extend(await self._wait())

    async def cancel(self) -> None:
        """Cancel the copy and delete its files; return when nothing is left."""
        self._is_cancelled = True
        self._handle(CancelRequested())
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        await in_thread(self._place.incoming.remove, self.order.transfer)

    def _handle(self, event: Event) -> list[Action]:
        return self._machine.handle(event, clock.now())

    async def _wait(self) -> list[Action]:
        wake_at = self._machine.wake_at
        assert wake_at is not None, self._machine.state
        await asyncio.sleep(max(0.0, wake_at - clock.now()))
        return self._handle(Ticked())

    async def _carry_out(self, action: Action) -> list[Action]:
        """Carry out one action; return the actions that follow from it."""
        transfer = self.order.transfer
        match action:
            case AskPlace():
                async with self._place.places:
                    return await self._try()
            case Read() | HangUp():
                return []  # done within the try
            case Check():
                return await self._store(self._check)
            case Keep(took_s=took_s):
                return await self._store(self._keep, took_s)
            case Discard():
                with suppress(OSError):  # what is left goes when the transfer is forgotten
                    await in_thread(self._place.incoming.discard_part, transfer)
                return []
            case SendReport(report=report):
                if isinstance(report, TransferFailed):
                    log.warning("transfer.failed", transfer=transfer, reason=report.reason)
                self._place.send_report(report)
                return []

    async def _store(
        self, work: Callable[_P, Awaitable[Event]], *args: _P.args, **kwargs: _P.kwargs
    ) -> list[Action]:
        """Run work on our own disk; its errors count against this site."""
        try:
            return self._handle(await work(*args, **kwargs))
        except OSError as error:
            return self._handle(self._own_fault(error))

    async def _check(self) -> Event:
        part = await in_thread(self._place.incoming.open, self.order.transfer)
        try:
            await in_thread(part.sync)
            summing = Summing(part, size_bytes=self.order.size_bytes)
            await in_steps(summing.step)
            return Checked(checksum=summing.digest.value())
        finally:
            part.close()

    async def _keep(self, took_s: float) -> Event:
        await in_thread(self._place.incoming.keep, self.order, took_s)
        return Kept()

    # One try --------------------------------------------------------------------------------------

    async def _try(self) -> list[Action]:
        """One call of Read, to its end."""
        wanted = self._handle(Admitted())
        order = self.order
        request = files_pb2.ReadRequest(
            transfer=order.transfer, token=order.token, offset=self._machine.offset
        )
        try:
            self._require_room(order.size_bytes - self._machine.offset)
            part = await in_thread(self._place.incoming.open, order.transfer)
        except OSError as error:
            return self._handle(self._own_fault(error))
        try:
            site = "" if order.address == self._place.relay() else order.source
            async with self._place.channels.use(order.address, site) as channel:
                call = files_pb2_grpc.FilesStub(channel).Read(request)
                booking = self._place.links.booking(
                    order.transfer, order.source, order.booked_bps, clock.now()
                )
                try:
                    with booking:
                        return wanted + await self._watched(call, part)
                finally:
                    call.cancel()
        except (ConfigError, OSError) as error:  # of our own identity
            return self._handle(Cut(fault=Fault.TARGET, reason=str(error)))
        finally:
            part.close()

    async def _watched(self, call: _Call, part: Descriptor) -> list[Action]:
        """Receive while another task watches the clock."""
        late: list[Action] = []
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(call, late))
            try:
                return await self._receive(call, part) + late
            except asyncio.CancelledError:
                if not late:
                    raise
                return late  # the watch has hung up: the call was cancelled, not this task
            finally:
                watch.cancel()

    async def _watch(self, call: _Call, late: list[Action]) -> None:
        while not late:
            await asyncio.sleep(self._place.limits.stalled_s / _TICKS)
            late.extend(self._handle(Ticked()))
        call.cancel()

    async def _receive(self, call: _Call, part: Descriptor) -> list[Action]:
        try:
            while True:
                self._handle(Listening())
                chunk = await call.read()
                if not isinstance(chunk, files_pb2.Chunk):
                    reason = "the stream ended without a checksum"
                    return self._handle(Cut(fault=Fault.SOURCE, reason=reason))
                if wanted := await self._accept(chunk, part):
                    return wanted
        except aio.AioRpcError as error:
            return self._handle(self._verdict(error))
        except OSError as error:
            return self._handle(self._own_fault(error))

    async def _accept(self, chunk: files_pb2.Chunk, part: Descriptor) -> list[Action]:
        """Store a message, then wait for the rate limit: our backpressure slows the source."""
        size_bytes = len(chunk.data)
        if size_bytes and self._machine.offset + size_bytes <= self.order.size_bytes:
            self._require_room(size_bytes)
            await in_thread(part.write, chunk.data, self._machine.offset)
        wanted = self._handle(Arrived(size_bytes=size_bytes))
        if not wanted and (progress := self._machine.progress(clock.now())) is not None:
            self._place.send_report(progress)
        if not wanted and chunk.checksum:
            wanted = self._handle(Ended(checksum=chunk.checksum))
        if not wanted:
            order = self.order
            wait_s = self._place.links.reserve(
                order.source, size_bytes, clock.now(), transfer=order.transfer
            )
            await asyncio.sleep(wait_s)
        return wanted

    def _verdict(self, error: aio.AioRpcError) -> Event:
        """Classify an error of the call: the end at fault, and the use of a retry."""
        code, reason = error.code(), f"{error.code().name}: {error.details()}"
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Busy(reason=reason)
        if code in _REFUSALS:
            return Refused(fault=Fault.SOURCE, reason=reason)
        if code in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAUTHENTICATED):
            return Cut(fault=Fault.SOURCE, reason=reason)
        is_direct = self.order.address != self._place.relay()
        if code == grpc.StatusCode.UNAVAILABLE and is_direct and self._machine.offset == 0:
            return Cut(fault=Fault.SOURCE, reason=reason)
        return Cut(fault=Fault.NOBODY, reason=reason)

    def _require_room(self, size_bytes: int) -> None:
        """Raise OSError when the disk has too little room.

        A copy that filled the disk would end the agent, whose records need room. Each later agent
        would fail too, before it could delete the copy.
        """
        room_bytes = self._place.room_bytes()
        if size_bytes > room_bytes:
            text = f"{size_bytes} bytes are to come, and there is room for {room_bytes:.0f}"
            raise OSError(errno.ENOSPC, text)

    def _own_fault(self, error: OSError) -> Event:
        what = error.strerror or str(error)
        return Cut(fault=Fault.TARGET, reason=f"the spool of {self._place.site}: {what}")
