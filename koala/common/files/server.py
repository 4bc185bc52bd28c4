"""Serve ordered parts of files to other sites, over the site's port or through the relay.

Only ordered transfers are served, to the bearer of the token, and never another path than the
ordered one. Both ways send the same messages: bytes, then the checksum of the whole part.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import grpc
from grpc import aio

from koala.common.files.bandwidth_limits import LinkLimits
from koala.common.files.channels import Channels, RefusalError
from koala.common.files.confined_folder import UnusableFileError, is_passing
from koala.common.files.replica_store import FileStore, PartReader
from koala.common.protocol.messages import ServeOrder, TransferFailed
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_steps, in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError, SpecError

_Context: TypeAlias = "aio.ServicerContext[files_pb2.ReadRequest, files_pb2.Chunk]"

log = get_logger(__name__)

_RETRY_S = 0.2
_RETRY_S_MAX = 10.0


@dataclass(kw_only=True)
class ServeContext:
    """Resources shared by all serving at this site; `orders` are those wanted now.

    A source never learns that its copy is complete. So an order expires `idle_s` after the last
    read, and `after_s` after it was read to its end: then only a spoilt copy is read again.
    """

    site: str
    store: FileStore
    links: LinkLimits
    channels: Channels
    readers_max: int
    stalled_s: float
    idle_s: float
    after_s: float
    orders: dict[str, ServeOrder] = field(default_factory=dict)
    readers: int = 0
    _until: dict[str, float] = field(default_factory=dict)

    def add(self, order: ServeOrder) -> None:
        """Add or renew an order."""
        self.orders[order.transfer] = order
        self.touch(order.transfer)

    def touch(self, transfer: str, *, is_complete: bool = False) -> None:
        """Renew the expiry of an order that was read from, or to its end."""
        if transfer in self.orders:
            self._until[transfer] = clock.now() + (self.after_s if is_complete else self.idle_s)

    def drop(self, transfer: str) -> None:
        """Remove an order that is no longer wanted."""
        self.orders.pop(transfer, None)
        self._until.pop(transfer, None)

    def expired(self) -> tuple[str, ...]:
        """Return the transfers whose orders have expired."""
        now = clock.now()
        return tuple(transfer for transfer, until in self._until.items() if until <= now)


async def send_part(
    place: ServeContext, order: ServeOrder, offset: int
) -> AsyncGenerator[files_pb2.Chunk, None]:
    """Yield the messages of a part from `offset` on, paced by the rate limit, the checksum last.

    Ends early when the order is cancelled. Raises SpecError, UnusableFileError, OSError.
    """
    part = await in_thread(_open, place.store, order)
    try:
        await in_steps(partial(part.skip, offset))
        chunk_bytes = place.links.chunk_bytes(order.target, order.booked_bps)
        with place.links.booking(order.transfer, order.target, order.booked_bps, clock.now()):
            while block := await in_thread(part.read, chunk_bytes):
                wait_s = place.links.reserve(
                    order.target, len(block), clock.now(), transfer=order.transfer
                )
                await asyncio.sleep(wait_s)
                if order.transfer not in place.orders:
                    return
                place.touch(order.transfer)
                yield files_pb2.Chunk(data=block)
        yield files_pb2.Chunk(checksum=await in_thread(part.checksum))
        place.touch(order.transfer, is_complete=True)
    finally:
        part.close()


class FileServer(files_pb2_grpc.FilesServicer):
    """gRPC service `Files.Read` on the site's own port."""

    def __init__(self, place: ServeContext) -> None:
        self._place = place

    async def Read(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self,
        request: files_pb2.ReadRequest,
        context: _Context,
    ) -> None:
        """Send the ordered part. A wrong token and an unknown transfer get the same answer."""
        try:
            await self._read(request, context)
        except RefusalError as refusal:
            await context.abort(refusal.code, refusal.reason)
        except aio.InternalError as error:  # how a write says that the reader is gone
            log.debug("reader.lost", transfer=request.transfer, reason=str(error))

    async def _read(self, request: files_pb2.ReadRequest, context: _Context) -> None:
        order = self._place.orders.get(request.transfer)
        expected = order.token if order is not None and not order.relay else ""
        is_right = hmac.compare_digest(expected.encode(), request.token.encode())
        if order is None or not expected or not is_right:
            raise RefusalError(
                grpc.StatusCode.UNAUTHENTICATED, "no such transfer, or the wrong token"
            )
        if request.offset > order.size_bytes:
            raise RefusalError(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"offset {request.offset}: the part has {order.size_bytes} bytes",
            )
        if self._place.readers >= self._place.readers_max:
            raise RefusalError(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self._place.readers} others are reading"
            )
        self._place.readers += 1
        try:
            await self._send(order, request.offset, context)
        finally:
            self._place.readers -= 1

    async def _send(self, order: ServeOrder, offset: int, context: _Context) -> None:
        try:
            parts = aclosing(send_part(self._place, order, offset))
            async with parts as chunks, asyncio.timeout(None) as limit:
                async for chunk in chunks:
                    # A reader that stops reading is cut; this cancels the call on purpose.
                    limit.reschedule(asyncio.get_running_loop().time() + self._place.stalled_s)
                    await context.write(chunk)
                    limit.reschedule(None)
        except TimeoutError as error:
            reason = "the reader takes nothing"
            raise RefusalError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
        except (SpecError, UnusableFileError, OSError) as error:
            log.warning("transfer.not_served", transfer=order.transfer, reason=str(error))
            raise RefusalError(grpc.StatusCode.DATA_LOSS, str(error)) from error


class Offer:
    """Offer of one transfer to the relay, repeated after each cut until it is cancelled."""

    def __init__(
        self, order: ServeOrder, place: ServeContext, send_report: Callable[[TransferFailed], None]
    ) -> None:
        self._order = order
        self._place = place
        self._send_report = send_report

    async def run(self) -> None:
        """Offer until cancelled, or until the file turns out not to be the ordered one."""
        pause_s = _RETRY_S
        while True:
            try:
                async with self._place.channels.use(self._order.relay) as channel:
                    has_served = await self._offer(files_pb2_grpc.RelayStub(channel))
                pause_s = _RETRY_S if has_served else min(_RETRY_S_MAX, 2 * pause_s)
            except (SpecError, UnusableFileError, ConfigError, OSError) as error:
                if not (isinstance(error, ConfigError) or is_passing(error)):
                    self._fail(str(error))
                    return
                log.warning("offer.retried", transfer=self._order.transfer, reason=str(error))
                pause_s = min(_RETRY_S_MAX, 2 * pause_s)
            await asyncio.sleep(pause_s)

    async def _offer(self, stub: files_pb2_grpc.RelayAsyncStub) -> bool:
        """Make one Offer call, to its end; True if a reader came."""
        call = stub.Offer()
        order = self._order
        has_served = False
        try:
            start = files_pb2.OfferStart(transfer=order.transfer, token=order.token)
            await call.write(files_pb2.OfferUp(start=start))
            wanted = await call.read()
            if not isinstance(wanted, files_pb2.OfferDown):
                return False
            if wanted.offset > order.size_bytes:
                # The reader's claim, which the relay cannot check. Our file is right, so that
                # nothing is reported.
                log.warning("offer.refused", transfer=order.transfer, offset=wanted.offset)
                return False
            has_served = True
            async with aclosing(send_part(self._place, order, wanted.offset)) as chunks:
                async for chunk in chunks:
                    await call.write(files_pb2.OfferUp(chunk=chunk))
            await call.done_writing()
            await call.read()  # the end of the call: the relay has passed all on
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            # The latter is how grpc says that the call ended before the write.
            log.debug("offer.cut", transfer=order.transfer, reason=str(error))
        finally:
            call.cancel()
        return has_served

    def _fail(self, reason: str) -> None:
        log.warning("offer.failed", transfer=self._order.transfer, reason=reason)
        self._send_report(
            TransferFailed(transfer=self._order.transfer, reason=reason, at=self._place.site)
        )


def _open(store: FileStore, order: ServeOrder) -> PartReader:
    descriptor = store.open(order.file)
    try:
        return PartReader(descriptor, order.file, offset=order.offset, size_bytes=order.size_bytes)
    except (UnusableFileError, OSError):
        descriptor.close()
        raise
