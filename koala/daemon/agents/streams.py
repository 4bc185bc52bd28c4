"""The streams of the agents' link: gRPC at the daemon's end.

One handler a stream, with a reader, one writer behind a bounded outbox, and a timer; what is said
and believed is the roster's. Nothing times a read or write out, because gRPC then cancels the whole
stream: a peer that does not read fills its outbox, and one that is silent is found by its beats.
Leaving a handler never waits: it may be cancelled anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from math import inf
from typing import TypeAlias

import grpc
from google.protobuf.message import DecodeError

from koala.core.model.values import Instant, SiteName
from koala.daemon.agents.registry import AgentConnection, AgentRegistry
from koala.daemon.auth.access_rules import Caller, caller_of_call
from koala.daemon.clock import Clock, wall_s
from koala.daemon.event_loop import EventLoop
from koala.daemon.quotas import RateLimits
from koala.wire.v1 import link_pb2 as pb
from koala.wire.v1.link_pb2_grpc import AgentLinkServicer

OUTBOX_MAX = 20_000  # messages; what is wanted at a registration counts as one
EXPIRY_LOOK_S = 60.0  # the wall clock may be set
REPORTS_WAITING_MAX = 100  # of one session in the pump's inbox, so that others' turns come soon
BURST_S = 10.0  # a session may say at once what the limit allows in this time
FLOOD_S = 10.0  # an agent that is slowed down for so long does not mean well
RESTED_SHARE = 0.5  # of the burst is there again: it is not slowed down any more
SLOW_S = 0.01  # shorter waits are put together
LAST_WORDS_S = 1.0  # for what is in the outbox when a session ends

Context: TypeAlias = "grpc.aio.ServicerContext[pb.FromAgent, pb.ToAgent]"


class Outbox:
    """Messages for one writer. Full means that the agent does not read."""

    def __init__(self) -> None:
        self._lots: deque[Sequence[pb.ToAgent]] = deque()
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, lot: Sequence[pb.ToAgent]) -> bool:
        """Queue these together; False when the outbox is full."""
        if self._is_closed or len(self._lots) >= OUTBOX_MAX:
            return False
        self._lots.append(lot)
        self._changed.set()
        return True

    def close(self) -> None:
        """Nothing more comes; `lots` ends after what is queued."""
        self._is_closed = True
        self._changed.set()

    async def lots(self) -> AsyncIterator[Sequence[pb.ToAgent]]:
        """What was put, until closed."""
        while self._lots or not self._is_closed:
            if self._lots:
                yield self._lots.popleft()
            else:
                self._changed.clear()
                await self._changed.wait()


class Stream:
    """One stream, as the roster's end of it (`roster.Line`)."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.over = asyncio.Event()
        self.wakes_at: Instant = inf  # when the session's timer rings, as it was set last
        self.changed = asyncio.Event()  # it is to ring earlier
        self.settled = asyncio.Event()  # a report was

    @property
    def is_over(self) -> bool:
        """Nothing more is sent."""
        return self.over.is_set()

    def put(self, lot: Sequence[pb.ToAgent]) -> bool:
        """See `roster.Line`."""
        return self.outbox.put(lot)

    def end(self) -> None:
        """See `roster.Line`."""
        self.over.set()


class Streams(AgentLinkServicer):
    """All streams; agents are heard from when `open` is set: the relay's address is then known."""

    def __init__(
        self,
        roster: AgentRegistry,
        pump: EventLoop,
        clock: Clock,
        *,
        reports_per_s: float,
        is_awaited: Callable[[SiteName | None, pb.FromAgent], bool],
    ) -> None:
        """`is_awaited` says of a message whether it answers a question of ours: how many there are
        of those is up to us, and they are no reports."""
        self.open = asyncio.Event()
        self._is_awaited = is_awaited
        self._reports_per_s = reports_per_s
        self._roster = roster
        self._pump = pump
        self._clock = clock
        # All streams of a site share one, the next ones, too: dialling anew gives nothing.
        self._buckets = RateLimits[SiteName | int](reports_per_s, burst=reports_per_s * BURST_S)

    async def Connect(  # type: ignore[override]  # noqa: N802 - gRPC's name; its stubs know no coroutine that reads and writes by its context
        self, request_iterator: AsyncIterator[pb.FromAgent], context: Context
    ) -> None:
        """One session, from its stream's beginning to its end."""
        stream = Stream()
        caller = caller_of_call()
        bound_to = SiteName(caller.name) if caller.name else None
        connection = self._roster.opened(stream, context.peer(), bound_to=bound_to)
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
            self._roster.left(connection)

    async def _read(
        self, connection: AgentConnection, stream: Stream, requests: AsyncIterator[pb.FromAgent]
    ) -> None:
        """What comes, no faster than the limit: more than that stays at the agent's end. An agent
        that goes on with it is cut."""
        await self.open.wait()
        connection.on_settled = stream.settled.set
        slowed_at: Instant | None = None
        async for message in self._messages(connection, requests):
            while connection.reports >= REPORTS_WAITING_MAX:
                stream.settled.clear()
                await stream.settled.wait()
            await self._pump.wait_for_room()
            is_report = not self._is_awaited(connection.site, message)
            self._roster.heard(connection, message)
            wake_at = connection.session.wake_at
            if wake_at is not None and wake_at < stream.wakes_at:
                stream.changed.set()
            now = self._clock.now()
            bucket = self._buckets.of(connection.opener, now)
            if is_report:
                bucket.consume(1)
            wait_s = bucket.wait_s(now)
            if bucket.remaining(now) > RESTED_SHARE:
                slowed_at = None
            elif wait_s > 0 and (slowed_at is None or not connection.session.is_live):
                slowed_at = now  # an inventory may be long
            elif slowed_at is not None and now - slowed_at > FLOOD_S:
                self._roster.flooded(
                    connection,
                    f"a flood: more than {self._reports_per_s:g} reports a second for"
                    f" {FLOOD_S + BURST_S:g} s; allowed are {self._reports_per_s:g}"
                    " (limits.reports_per_s)",
                )
                break  # what else has come of it is the same flood
            if wait_s > SLOW_S:
                await asyncio.sleep(wait_s)
        stream.end()

    async def _messages(
        self, connection: AgentConnection, requests: AsyncIterator[pb.FromAgent]
    ) -> AsyncIterator[pb.FromAgent]:
        """What comes, as long as it can be read."""
        try:
            async for message in requests:
                yield message
        except DecodeError as error:
            self._roster.refuse(connection, f"what came is no message: {error}")

    async def _write(self, stream: Stream, context: Context) -> None:
        try:
            async for lot in stream.outbox.lots():
                for message in lot:
                    await context.write(message)
        except (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError):
            pass  # the agent is gone; the reader's end says so, too
        stream.end()

    async def _expire(self, connection: AgentConnection, caller: Caller) -> None:
        """A link does not outlive the certificate by which it was let in."""
        if caller.expires_at is None:
            return
        left_s = caller.expires_at - wall_s()
        while left_s > 0:
            await asyncio.sleep(min(left_s + 0.01, EXPIRY_LOOK_S))
            left_s = caller.expires_at - wall_s()
        self._roster.refuse(connection, f"the certificate of {caller.name} has expired")

    async def _tick(self, connection: AgentConnection, stream: Stream) -> None:
        """Drive the session's timer. Most of what is heard only makes it ring later: then it looks
        again when it rings."""
        while True:
            stream.changed.clear()
            wake_at = connection.session.wake_at
            stream.wakes_at = inf if wake_at is None else wake_at
            try:
                async with asyncio.timeout(
                    None if wake_at is None else max(0.0, wake_at - self._clock.now())
                ):
                    await stream.changed.wait()
            except TimeoutError:
                self._roster.woke(connection)
