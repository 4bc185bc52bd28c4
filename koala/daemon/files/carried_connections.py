"""Connections to ports of programs, at the relay: the two ends of each are joined here.

The owner of a port keeps some calls waiting, and each dialler takes the one that waits longest.
What one end sends is read when the other takes it. Nothing is kept of a connection: when an end is
gone the other's call is ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from koala.common.files.exchange import RefusalError
from koala.common.runtime.freed_memory import keep_buffers
from koala.common.wire.v1.files_pb2 import DESCRIPTOR

END = b""
"""Message that ends its direction."""
WAITING_MAX = 64
"""Calls of the owner of one port that wait; the oldest gives way to a new one."""


def carry_handler(carry: Callable[..., Any]) -> grpc.GenericRpcHandler:
    """Return the handler of `Relay.Carry`, whose messages are bare bytes after the first frame: to
    parse and to write each would take as long as all else."""
    service = DESCRIPTOR.services_by_name["Relay"].full_name
    handler: Any = grpc.stream_stream_rpc_method_handler(carry)
    return grpc.method_handlers_generic_handler(service, {"Carry": handler})


@dataclass(kw_only=True, eq=False)
class _Waiting:
    """Call of the owner of a port. `over` is set when the connection that it serves has ended."""

    messages: AsyncIterator[bytes]
    context: Any
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    hang_up: Callable[[], None] | None = None
    is_replaced: bool = False


class CarriedConnections:
    """Rendezvous of the ends of connections, by port. A dialler waits `wait_s` for the owner; at
    most `most` connections are carried."""

    def __init__(
        self, *, wait_s: float, most: int, throttle: Callable[[int], Awaitable[None]]
    ) -> None:
        self.moved_bytes = 0
        self._wait_s = wait_s
        self._most = most
        self._throttle = throttle
        self._waiting: dict[str, deque[_Waiting]] = defaultdict(deque)
        self._dialling: Counter[str] = Counter()
        self._offered: dict[str, asyncio.Event] = {}
        self._carried = 0

    async def listen(self, port: str, messages: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401 - of a call
        """Wait as the owner's end for a dialler, and until the connection is over. Raises
        RefusalError."""
        own = _Waiting(messages=messages, context=context)
        waiting = self._waiting[port]
        waiting.append(own)
        if len(waiting) > WAITING_MAX:
            oldest = waiting.popleft()
            oldest.is_replaced = True
            oldest.over.set()
        if port in self._offered:
            self._offered[port].set()
        try:
            await own.over.wait()
        finally:
            if own in waiting:
                waiting.remove(own)
            if not waiting and self._waiting.get(port) is waiting:
                del self._waiting[port]
            if own.hang_up is not None:
                own.hang_up()
        if own.is_replaced:
            raise RefusalError(grpc.StatusCode.ABORTED, "a newer offer came")

    async def dial(self, port: str, messages: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401 - of a call
        """Carry as the end that dials, to the end of both directions. Raises RefusalError."""
        if self._carried >= self._most:
            reason = f"{self._carried} connections are carried (expected at most {self._most})"
            raise RefusalError(grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        self._carried += 1
        keep_buffers()
        try:
            owner = await self._owner_of(port)
            try:
                await self._join(owner, messages, context)
            finally:
                owner.hang_up = None
                owner.over.set()
        finally:
            self._carried -= 1

    async def _owner_of(self, port: str) -> _Waiting:
        """Take the owner's call that waits longest. Raises RefusalError."""
        self._dialling[port] += 1
        try:
            async with asyncio.timeout(self._wait_s):
                while not self._waiting.get(port):
                    offered = self._offered.setdefault(port, asyncio.Event())
                    offered.clear()
                    await offered.wait()
        except TimeoutError as error:
            reason = f"the port's own site did not offer it within {self._wait_s:g} s"
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, reason) from error
        finally:
            self._dialling[port] -= 1
            if not self._dialling[port]:
                del self._dialling[port]
                self._offered.pop(port, None)
        return self._waiting[port].popleft()

    async def _join(
        self,
        owner: _Waiting,
        messages: AsyncIterator[bytes],
        context: Any,  # noqa: ANN401 - of a call
    ) -> None:
        try:
            async with asyncio.timeout(None) as limit:
                owner.hang_up = lambda: limit.reschedule(asyncio.get_running_loop().time())
                await owner.context.write(END)
                await context.write(END)
                await self._pump_both(owner, messages, context)
        except TimeoutError as error:
            raise RefusalError(grpc.StatusCode.ABORTED, "the port's own end is gone") from error

    async def _pump_both(
        self,
        owner: _Waiting,
        messages: AsyncIterator[bytes],
        context: Any,  # noqa: ANN401 - of a call
    ) -> None:
        """Pass on both directions. Raises RefusalError."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(messages, owner.context))
                group.create_task(self._pump(owner.messages, context))
        except* (ConnectionError, aio.BaseError) as errors:
            reason = f"an end is gone: {errors.exceptions[0]}"
            raise RefusalError(grpc.StatusCode.ABORTED, reason) from None

    async def _pump(self, messages: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401 - of a call
        """Pass on one direction to its end, an empty frame."""
        async for frame in messages:
            await self._throttle(len(frame))
            await context.write(frame)
            if frame == END:
                return
            self.moved_bytes += len(frame)
        raise ConnectionError("it ended in the middle")
