"""Driver of one copy at its target: read from the source, or from the relay in its place.

All decisions are those of `transfer`; this module does what its state asks for. It has a loop of
its own (not `common.runtime.driver`), because a try is one `Get` call that tells of many bytes.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import grpc
from grpc import aio

from koala.common.files.bandwidth_limits import LinkLimits
from koala.common.files.channels import Channels
from koala.common.files.confined_folder import Descriptor, UnusableFileError
from koala.common.files.incoming import Incoming, Remains
from koala.common.files.orders import Report, TransferReport
from koala.common.files.parts import PartReader
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
from koala.common.protocol.messages import FetchOrder, TransferFailed, TransferFinished
from koala.common.runtime.clock import now
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError

_Call: TypeAlias = "aio.UnaryStreamCall[files_pb2.GetRequest, files_pb2.Frame]"

log = get_logger(__name__)

_REFUSALS = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Statuses of a source that a retry would not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """Resources shared by all copies to this site.

    `places` bounds how many read at the same time, and `room_bytes` how much disk they may use.
    """

    site: str
    incoming: Incoming
    channels: Channels
    links: LinkLimits
    limits: RetryLimits
    places: asyncio.Semaphore
    send_report: Callable[[Report], None]
    relay: Callable[[], str]
    """host:port of the relay, empty when unknown."""
    room_bytes: Callable[[], float]


class Fetch:
    """Driver of one copy. Call `run` once; call `cancel` from any other task."""

    def __init__(self, order: FetchOrder, place: FetchContext) -> None:
        self._place = place
        self._machine = Transfer(order, target=place.site, limits=place.limits, now=now())
        self._task: asyncio.Task[None] | None = None
        self.over = asyncio.Event()

    @property
    def order(self) -> FetchOrder:
        """The newest order of this copy."""
        return self._machine.order

    @property
    def report(self) -> TransferReport | None:
        """Final report of the copy; None before the end, and after a cancellation."""
        state = self._machine.state
        return state.report if isinstance(state, Ended) else None

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

    async def cancel(self) -> None:
        """Cancel the copy and delete its files; return when nothing is left."""
        self._machine.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        await in_thread(self._place.incoming.remove, self.order.transfer)

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        machine, order = self._machine, self.order
        try:
            remains = await in_thread(self._place.incoming.remains, order)
        except OSError as error:  # opening the part will say so, and that is tried again
            log.warning("transfer.spool_failed", transfer=order.transfer, reason=str(error))
            remains = Remains(have_bytes=0)
        if remains.took_s is None:
            machine.begin(now(), have_bytes=remains.have_bytes, spent_s=remains.spent_s)
        else:
            machine.resume_finished(remains.took_s)
        while not machine.is_over:
            match machine.state:
                case Waiting(retry_at=retry_at):
                    await asyncio.sleep(max(0.0, retry_at - now()))
                    machine.retry(now())
                case Queued():
                    async with self._place.places:
                        await self._try()
                case Checking():
                    await self._check()
                case Keeping(took_s=took_s):
                    await self._keep(took_s)
                case _:
                    raise AssertionError(machine.state)  # a try ends in another state
        if self.report is not None:
            await self._end(self.report)

    async def _end(self, report: TransferReport) -> None:
        if isinstance(report, TransferFailed):
            log.warning("transfer.failed", transfer=report.transfer, reason=report.reason)
            with suppress(OSError):  # what is left goes when the transfer is forgotten
                await in_thread(self._place.incoming.discard_part, report.transfer)
        self._place.send_report(report)

    async def _check(self) -> None:
        order = self.order
        try:
            part = await in_thread(self._place.incoming.open, order.transfer, order.size_bytes)
            try:
                await in_thread(part.sync)
                reader = PartReader(part, order.transfer, size_bytes=order.size_bytes)
                checksum = await reader.whole_checksum()
            finally:
                part.close()
        except UnusableFileError:  # somebody else writes there
            checksum = ""
        except OSError as error:
            self._blame_spool(error)
            return
        self._machine.compare(checksum, now())

    async def _keep(self, took_s: float) -> None:
        try:
            await in_thread(self._place.incoming.keep, self.order, took_s)
        except OSError as error:
            self._blame_spool(error)
        else:
            self._machine.finish()

    # One try --------------------------------------------------------------------------------------

    async def _try(self) -> None:
        """One call of Get, to its end."""
        machine, place, order = self._machine, self._place, self.order
        machine.admit(now())
        try:
            self._require_room(order.size_bytes - machine.offset)
            part = await in_thread(place.incoming.open, order.transfer, machine.offset)
        except OSError as error:
            self._blame_spool(error)
            return
        try:
            site = "" if order.address == place.relay() else order.source
            booking = place.links.booking(order.transfer, order.source, order.booked_bps, now())
            async with place.channels.use(order.address, site) as channel:
                request = files_pb2.GetRequest(
                    name=order.transfer, token=order.token, offset=machine.offset
                )
                call = files_pb2_grpc.FilesStub(channel).Get(request)
                try:
                    with booking:
                        await self._receive(call, part)
                finally:
                    call.cancel()
        except (ConfigError, OSError) as error:  # of our own identity
            machine.cut(Fault.TARGET, str(error), now())
        finally:
            part.close()

    async def _receive(self, call: _Call, part: Descriptor) -> None:
        machine, stalled_s = self._machine, self._place.limits.stalled_s
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(None) as limit:
                while isinstance(machine.state, Reading):
                    limit.reschedule(clock() + stalled_s)  # it cancels the call, on purpose
                    frame = await call.read()
                    limit.reschedule(None)
                    if isinstance(frame, files_pb2.Frame):
                        await self._accept(frame, part)
                    else:
                        reason = "the stream ended without a checksum"
                        machine.cut(Fault.SOURCE, reason, now())
        except TimeoutError:
            machine.cut(Fault.SOURCE, f"sent nothing for {stalled_s:g} s", now())
        except aio.AioRpcError as error:
            self._judge(error)

    async def _accept(self, frame: files_pb2.Frame, part: Descriptor) -> None:
        """Store a frame, then wait for the rate limit: our backpressure slows the source."""
        machine, place, order = self._machine, self._place, self.order
        size_bytes = len(frame.data)
        if size_bytes and machine.offset + size_bytes <= order.size_bytes:
            try:
                self._require_room(size_bytes)
                await in_thread(part.write, frame.data, machine.offset)
            except OSError as error:
                self._blame_spool(error)
                return
        machine.arrive(size_bytes, now())
        if (progress := machine.progress(now())) is not None:
            place.send_report(progress)
        if isinstance(machine.state, Reading):
            await asyncio.sleep(
                place.links.reserve(order.source, size_bytes, now(), transfer=order.transfer)
            )
        if frame.checksum:
            machine.end(frame.checksum, now())

    def _judge(self, error: aio.AioRpcError) -> None:
        """Tell the machine of an error of the call: the end at fault, and the use of a retry."""
        code, reason = error.code(), f"{error.code().name}: {error.details()}"
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            self._machine.busy(reason, now())
        elif code in _REFUSALS:
            self._machine.refuse(Fault.SOURCE, reason)
        else:
            is_direct = self.order.address != self._place.relay()
            is_absent = code == grpc.StatusCode.UNAVAILABLE and self._machine.offset == 0
            is_its = code in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAUTHENTICATED)
            fault = Fault.SOURCE if is_its or (is_direct and is_absent) else Fault.NOBODY
            self._machine.cut(fault, reason, now())

    def _require_room(self, size_bytes: int) -> None:
        """Raise OSError when the disk has too little room.

        A copy that filled the disk would end the agent, whose records need room. Each later agent
        would fail too, before it could delete the copy.
        """
        room_bytes = self._place.room_bytes()
        if size_bytes > room_bytes:
            text = f"{size_bytes} bytes are to come, and there is room for {room_bytes:.0f}"
            raise OSError(errno.ENOSPC, text)

    def _blame_spool(self, error: OSError) -> None:
        """Tell the machine of an error of our own disk; it counts against this site."""
        what = error.strerror or str(error)
        self._machine.cut(Fault.TARGET, f"the spool of {self._place.site}: {what}", now())
