"""Serve ordered parts of files to other sites, over the site's port or through the relay.

Only ordered transfers are served, to the bearer of the token, and never another path than the
ordered one.
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
from koala.common.files.channels import Channels
from koala.common.files.confined_folder import UnusableFileError, is_passing
from koala.common.files.exchange import (
    CutError,
    RefusalError,
    answer_get,
    answering,
    frames,
    put,
)
from koala.common.files.parts import PartReader
from koala.common.files.replica_store import FileStore
from koala.common.protocol.messages import ServeOrder, TransferFailed
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import in_thread
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.errors import ConfigError, SpecError

_Context: TypeAlias = "aio.ServicerContext[files_pb2.GetRequest, files_pb2.Frame]"

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
) -> AsyncGenerator[files_pb2.Frame, None]:
    """Yield the frames of an ordered part from `offset` on, paced by the rate limit.

    Ends early when the order is cancelled. Raises as `frames` does, and SpecError for a wrong name.
    """
    transfer, target = order.transfer, order.target

    async def pace(size_bytes: int) -> None:
        now = clock.now()
        await asyncio.sleep(place.links.reserve(target, size_bytes, now, transfer=transfer))

    part = await in_thread(_open, place.store, order)
    frame_bytes = place.links.chunk_bytes(target, order.booked_bps)
    sent = frames(part, offset, pace=pace, frame_bytes=frame_bytes)
    try:
        with place.links.booking(transfer, target, order.booked_bps, clock.now()):
            async with aclosing(sent):
                async for frame in sent:
                    if transfer not in place.orders:
                        return
                    place.touch(transfer)
                    yield frame
        place.touch(transfer, is_complete=True)
    finally:
        part.close()


class FileServer(files_pb2_grpc.FilesServicer):
    """gRPC service `Files.Get` on the site's own port."""

    def __init__(self, place: ServeContext) -> None:
        self._place = place

    async def Get(  # type: ignore[override]  # noqa: N802 - the service's name for it
        self,
        request: files_pb2.GetRequest,
        context: _Context,
    ) -> None:
        """Send the ordered part. A wrong token and an unknown transfer get the same answer."""
        async with answering(context):
            order = self._order(request)
            if self._place.readers >= self._place.readers_max:
                reason = f"{self._place.readers} others are reading"
                raise RefusalError(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
            self._place.readers += 1
            try:
                sent = send_part(self._place, order, request.offset)
                await answer_get(context, sent, self._place.stalled_s)
            except (SpecError, UnusableFileError, OSError) as error:
                log.warning("transfer.not_served", transfer=order.transfer, reason=str(error))
                raise RefusalError(grpc.StatusCode.DATA_LOSS, str(error)) from error
            finally:
                self._place.readers -= 1

    def _order(self, request: files_pb2.GetRequest) -> ServeOrder:
        order = self._place.orders.get(request.name)
        expected = order.token if order is not None and not order.relay else ""
        is_right = hmac.compare_digest(expected.encode(), request.token.encode())
        if order is None or not expected or not is_right:
            reason = "no such transfer, or the wrong token"
            raise RefusalError(grpc.StatusCode.UNAUTHENTICATED, reason)
        return order


class Offer:
    """Offer of one transfer to the relay, repeated after each cut until it is cancelled."""

    def __init__(
        self, order: ServeOrder, place: ServeContext, send_report: Callable[[TransferFailed], None]
    ) -> None:
        self._order = order
        self._place = place
        self._send_report = send_report
        self._has_reader = False

    async def run(self) -> None:
        """Offer until cancelled, or until the file turns out not to be the ordered one."""
        order, pause_s = self._order, _RETRY_S
        while True:
            self._has_reader = False
            try:
                await self._offer()
            except (aio.AioRpcError, CutError, RefusalError) as error:
                # An offset behind the end is the reader's claim, which the relay cannot check.
                log.debug("offer.cut", transfer=order.transfer, reason=str(error))
            except (SpecError, UnusableFileError, ConfigError, OSError) as error:
                if not (isinstance(error, ConfigError) or is_passing(error)):
                    self._fail(str(error))
                    return
                log.warning("offer.retried", transfer=order.transfer, reason=str(error))
            pause_s = _RETRY_S if self._has_reader else min(_RETRY_S_MAX, 2 * pause_s)
            await asyncio.sleep(pause_s)

    async def _offer(self) -> None:
        """Make one Put call, to its end."""
        order = self._order
        start = files_pb2.PutStart(
            name=order.transfer, token=order.token, size_bytes=order.size_bytes
        )
        send = partial(send_part, self._place, order)
        async with self._place.channels.use(order.relay) as channel:
            call = files_pb2_grpc.RelayStub(channel).Put()
            try:
                await put(call, start, send, note=self._note)
            finally:
                call.cancel()

    def _note(self, _offset: int) -> None:
        self._has_reader = True

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
