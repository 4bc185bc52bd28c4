"""gRPC streams of the agents' link, at the daemon's end.

- Each stream has one handler with a reader, a writer behind a bounded outbox, and a timer. The
  registry makes all decisions, and calls the sessions itself: no driver (`common.runtime.driver`)
  stands between them, because a report is rate-limited after it is handled.
- What waits in an outbox is sent together (`koala.common.wire.packing`).
- No read or write has a timeout, because gRPC would then cancel the whole stream. A peer that does
  not read fills its outbox; beats detect one that is silent.
- Leaving a handler never waits: it may be cancelled anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import chain
from math import inf
from typing import TypeAlias

import grpc
from google.protobuf.message import DecodeError

from koala.common.runtime.clock import Clock, unix_now
from koala.common.runtime.driver import wait_until
from koala.common.runtime.token_bucket import RateLimits
from koala.common.wire.packing import PACK_MAX, PACKS, Spacing, can_unpack, packed, unpacked
from koala.common.wire.v1 import link_pb2 as pb
from koala.common.wire.v1.link_pb2_grpc import AgentLinkServicer
from koala.core.model.values import Instant, SiteName
from koala.daemon.agents.connections import AgentConnection
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.auth.access_rules import Caller, caller_of_call
from koala.daemon.loop.event_loop import EventLoop

OUTBOX_MAX = 20_000  # batches of messages; the wanted state at a registration is one
EXPIRY_CHECK_S = 60.0  # the wall clock may be set
REPORTS_WAITING_MAX = 100  # of one session in the event loop's inbox, for fairness to others
BURST_S = 10.0  # a session may send at once as much as the limit allows in this time
FLOOD_S = 10.0  # an agent that is throttled for so long is cut
RESTED_SHARE = 0.5  # of the burst; an agent whose bucket is that full is no longer throttled
SLOW_S = 0.01  # shorter waits are put together
ORDERS = frozenset(("hold", "arm", "release"))
"""Messages that carry decisions of the scheduler; no agent can provoke more of them than it has
claims."""
REPORTS_PER_ORDER = 3  # grant, promise, pass and end of a claim, a ping, figures of the site
LAST_WORDS_S = 1.0  # to flush the outbox when a session ends

Context: TypeAlias = "grpc.aio.ServicerContext[pb.FromAgent, pb.ToAgent]"


class Outbox:
    """Bounded queue of messages for one writer; it fills up when the agent does not read."""

    def __init__(self) -> None:
        self._batches: deque[Sequence[pb.ToAgent]] = deque()
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, batch: Sequence[pb.ToAgent]) -> bool:
        """Queue these together; False when the outbox is full."""
        if self._is_closed or len(self._batches) >= OUTBOX_MAX:
            return False
        self._batches.append(batch)
        self._changed.set()
        return True

    def close(self) -> None:
        """Accept no more messages; `waiting` ends after those that are queued."""
        self._is_closed = True
        self._changed.set()

    async def waiting(self, *, is_packing: bool) -> AsyncIterator[Sequence[pb.ToAgent]]:
        """Yield queued messages in order, some batches at a time, until closed."""
        spacing = Spacing()
        while self._batches or not self._is_closed:
            if self._batches:
                if is_packing:
                    await spacing.wait()
                count = min(PACK_MAX, len(self._batches))
                yield [*chain.from_iterable(self._batches.popleft() for _ in range(count))]
            else:
                self._changed.clear()
                await self._changed.wait()


class Stream:
    """One gRPC stream (`connections.AgentStream`)."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.over = asyncio.Event()
        self.wakes_at: Instant = inf  # when the session's timer fires, as it was set last
        self.changed = asyncio.Event()  # the timer must fire earlier
        self.committed = asyncio.Event()  # a report was committed
        self._orders = 0

    @property
    def has_ended(self) -> bool:
        """See `connections.AgentStream`."""
        return self.over.is_set()

    def put(self, batch: Sequence[pb.ToAgent]) -> bool:
        """See `connections.AgentStream`."""
        kinds = [message.WhichOneof("kind") for message in batch]
        if "wanted_end" not in kinds:  # those of a registration are no news, and it can be repeated
            self._orders += sum(kind in ORDERS for kind in kinds)
        return self.outbox.put(batch)

    def take_reports_due(self) -> int:
        """Return how many reports the orders since the last call account for."""
        orders, self._orders = self._orders, 0
        return REPORTS_PER_ORDER * orders

    def end(self) -> None:
        """See `connections.AgentStream`."""
        self.over.set()

    def report_committed(self) -> None:
        """See `connections.AgentStream`."""
        self.committed.set()


class Streams(AgentLinkServicer):
    """gRPC service of all streams."""

    def __init__(
        self,
        registry: AgentRegistry,
        event_loop: EventLoop,
        clock: Clock,
        *,
        reports_per_s: float,
        is_awaited: Callable[[SiteName | None, pb.FromAgent], bool],
    ) -> None:
        """`is_awaited` tells answers to the daemon from reports; only reports are rate-limited."""
        self._is_awaited = is_awaited
        self._reports_per_s = reports_per_s
        self._registry = registry
        self._event_loop = event_loop
        self._clock = clock
        # All streams of a site share one bucket, later ones, too: a reconnect does not refill it.
        self._buckets = RateLimits[SiteName | int](reports_per_s, burst=reports_per_s * BURST_S)

    async def Connect(  # type: ignore[override]  # noqa: N802 - gRPC's name; its stubs know no coroutine that reads and writes by its context
        self, request_iterator: AsyncIterator[pb.FromAgent], context: Context
    ) -> None:
        """Serve one session, from its stream's beginning to its end."""
        stream = Stream()
        caller = caller_of_call()
        bound_to = SiteName(caller.name) if caller.name else None
        connection = self._registry.accept(stream, context.peer(), bound_to=bound_to)
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(stream, context))
                others = [
                    group.create_task(self._read(connection, stream, request_iterator)),
                    group.create_task(self._tick(connection, stream)),
                    group.create_task(self._expire(connection, caller)),
                ]
                await stream.over.wait()
                stream.outbox.close()
                await asyncio.wait({writing}, timeout=LAST_WORDS_S)
                for task in (writing, *others):
                    task.cancel()
        finally:
            self._registry.detach(connection)

    async def _read(
        self, connection: AgentConnection, stream: Stream, requests: AsyncIterator[pb.FromAgent]
    ) -> None:
        """Read messages no faster than the rate limit, by backpressure; cut an agent that keeps
        exceeding it."""
        slowed_at: Instant | None = None
        async for message in self._messages(connection, requests):
            while connection.reports >= REPORTS_WAITING_MAX:
                stream.committed.clear()
                await stream.committed.wait()
            await self._event_loop.wait_for_room()
            is_report = not self._is_awaited(connection.site, message)
            self._registry.receive(connection, message)
            wake_at = connection.session.wake_at
            if wake_at is not None and wake_at < stream.wakes_at:
                stream.changed.set()
            now = self._clock.now()
            bucket = self._buckets.of(connection.opener, now)
            bucket.refund(stream.take_reports_due())
            if is_report:
                bucket.consume(1)
            wait_s = bucket.wait_s(now)
            if bucket.remaining(now) > RESTED_SHARE:
                slowed_at = None
            elif wait_s > 0 and (slowed_at is None or not connection.session.is_live):
                slowed_at = now  # an inventory may be long
            elif slowed_at is not None and now - slowed_at > FLOOD_S:
                self._registry.block_flood(
                    connection,
                    f"a flood: more than {self._reports_per_s:g} reports a second for"
                    f" {FLOOD_S + BURST_S:g} s (expected at most that: limits.reports_per_s)"
                    "",
                )
                break  # the rest is the same flood
            if wait_s > SLOW_S:
                await asyncio.sleep(wait_s)
        stream.end()

    async def _messages(
        self, connection: AgentConnection, requests: AsyncIterator[pb.FromAgent]
    ) -> AsyncIterator[pb.FromAgent]:
        """Yield messages as long as they can be decoded."""
        try:
            async for message in requests:
                for part in unpacked(message):
                    yield part
        except DecodeError as error:
            self._registry.refuse(connection, f"not a message of this protocol: {error}")

    async def _write(self, stream: Stream, context: Context) -> None:
        is_packing = can_unpack(context.invocation_metadata())
        try:
            await context.send_initial_metadata(PACKS)
            async for messages in stream.outbox.waiting(is_packing=is_packing):
                for message in packed(messages) if is_packing else messages:
                    await context.write(message)
        except (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError):
            pass  # the agent is gone; the reader ends, too
        stream.end()

    async def _expire(self, connection: AgentConnection, caller: Caller) -> None:
        """End the stream when the certificate that authenticated it expires."""
        if caller.expires_at is None:
            return
        left_s = caller.expires_at - unix_now()
        while left_s > 0:
            await asyncio.sleep(min(left_s + 0.01, EXPIRY_CHECK_S))
            left_s = caller.expires_at - unix_now()
        self._registry.refuse(connection, f"the certificate of {caller.name} has expired")

    async def _tick(self, connection: AgentConnection, stream: Stream) -> None:
        """Drive the session's timer, set again only when it fires: most messages postpone it."""
        while True:
            stream.changed.clear()
            wake_at = connection.session.wake_at
            stream.wakes_at = inf if wake_at is None else wake_at
            if not await wait_until(stream.changed, wake_at, self._clock.now):
                self._registry.wake(connection)
