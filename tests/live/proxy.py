"""A TCP proxy that spoils connections: cuts them, holds what they carry, or makes it late.

    async with asyncio.TaskGroup() as group:
        proxy = Proxy(group)
        await proxy.listen("delft", ("127.0.1.1", 7740), to=("127.0.0.1", 7740))
        proxy.hold("delft", "up")       # what the dialling side says goes nowhere, nor does its end
        proxy.free("delft")             # it all arrives, late
        proxy.close()

Connections are named by *routes*; faults are of a route, and of connections that are made while
they last. What is held is not lost: TCP sends again until one side gives up, so bytes never go
missing out of the middle of a connection. A side that dies while its direction is held is not told
of to the other one, which is what "half-open" means. The proxy ends when it is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Direction: TypeAlias = Literal["up", "down"]
"""Up is from who dialled to who listened."""
Address: TypeAlias = tuple[str, int]
WAITING_BYTES_MAX = 256 * 1024
"""What a direction holds before it stops reading, and TCP stops the sender."""


@dataclass(slots=True)
class Route:
    """Say what connections of one name meet now; durations in seconds."""

    held: set[Direction] = field(default_factory=set)
    nothing_held: asyncio.Event = field(default_factory=asyncio.Event)
    delay_s: float = 0.0
    flows: set[_Flow] = field(default_factory=set)


class Proxy:
    """Listens for all routes. Everything belongs to the loop that called `listen`."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._routes: dict[str, Route] = {}
        self._servers: list[asyncio.Server] = []

    @property
    def routes(self) -> tuple[str, ...]:
        """Their names, in the order in which they came to be."""
        return tuple(self._routes)

    async def listen(self, route: str, at: Address, *, to: Address) -> None:
        """Take connections at an address, and make each on to the other one."""
        if route not in self._routes:
            self._routes[route] = Route()
            self.free(route)
        found = self._routes[route]

        def accept() -> asyncio.Protocol:
            return _Dialler(found, to, self._group)

        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(accept, *at))

    def cut(self, route: str) -> None:
        """End all connections of it at once, as a router does that forgot them."""
        for flow in list(self._routes[route].flows):
            flow.abort()

    def hold(self, route: str, *directions: Direction) -> None:
        """Let nothing through in these directions, not even an end; with one of them held no new
        connection is made either."""
        self._routes[route].held |= set(directions)
        self._routes[route].nothing_held.clear()

    def slow(self, route: str, delay_s: float) -> None:
        """Delay by that much what comes from now on."""
        self._routes[route].delay_s = delay_s

    def free(self, route: str) -> None:
        """Let all through again, first what was held."""
        found = self._routes[route]
        found.held.clear()
        found.nothing_held.set()
        found.delay_s = 0.0
        for flow in list(found.flows):
            flow.forward()

    def close(self) -> None:
        """End it all."""
        for server in self._servers:
            server.close()
        for route in self._routes:
            self.cut(route)
            self.free(route)  # for those that wait to be made


class _Flow:
    """One direction of a connection: what came from `source` and did not go on yet.

    The end of the source is the last entry, so that it passes in order, and is held as data is.
    """

    def __init__(self, route: Route, direction: Direction) -> None:
        self._route = route
        self._direction = direction
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.is_choked = False
        route.flows.add(self)

    def take(self, data: bytes | None) -> None:
        """Return the next bytes of the source; None for its end."""
        last_at = self._waiting[-1][0] if self._waiting else 0.0
        self._waiting.append((max(self._loop.time() + self._route.delay_s, last_at), data))
        self._bytes += len(data or b"")
        self.forward()

    def forward(self) -> None:
        """Pass on what may go now."""
        while self._may_go():
            _, data = self._waiting.popleft()
            assert self.sink is not None
            if data is None:
                self.sink.close()
                self._route.flows.discard(self)
                return
            self._bytes -= len(data)
            if not self.sink.is_closing():
                self.sink.write(data)
        self._steer_source()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self.sink is not None and not self.is_choked and not self._is_held:
            self._timer = self._loop.call_at(self._waiting[0][0], self.forward)

    def abort(self) -> None:
        """Drop what waits, and both ends with it."""
        self._waiting.clear()
        self._route.flows.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        for transport in (self.source, self.sink):
            if transport is not None:
                transport.abort()

    @property
    def _is_held(self) -> bool:
        return self._direction in self._route.held

    def _may_go(self) -> bool:
        if not self._waiting or self.sink is None or self.is_choked or self._is_held:
            return False
        return self.sink.is_closing() or self._waiting[0][0] <= self._loop.time()

    def _steer_source(self) -> None:
        if self.source is None or self.source.is_closing():
            return
        if self._bytes > WAITING_BYTES_MAX:
            self.source.pause_reading()
        else:
            self.source.resume_reading()


class _End(asyncio.Protocol):
    """One socket: hears `heard`, says what comes out of `said`."""

    def __init__(self, heard: _Flow, said: _Flow) -> None:
        self._heard = heard
        self._said = said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._heard.source = self._said.sink = transport
        self._said.forward()

    def data_received(self, data: bytes) -> None:
        self._heard.take(data)

    def pause_writing(self) -> None:
        self._said.is_choked = True

    def resume_writing(self) -> None:
        self._said.is_choked = False
        self._said.forward()

    def connection_lost(self, _: Exception | None) -> None:
        self._heard.take(None)


class _Dialler(_End):
    """The socket of who dialled; makes the other one as soon as nothing is held."""

    def __init__(self, route: Route, to: Address, group: asyncio.TaskGroup) -> None:
        super().__init__(_Flow(route, "up"), _Flow(route, "down"))
        self._to = to
        self._group = group
        self._route = route

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._group.create_task(self._dial())

    async def _dial(self) -> None:
        await self._route.nothing_held.wait()
        if self._heard.source is None or self._heard.source.is_closing():
            return
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: _End(self._said, self._heard), *self._to)
        except OSError:
            self._heard.abort()
            self._said.abort()
