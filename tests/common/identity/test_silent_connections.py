"""Connections that say nothing are bounded at each port, and let go."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from koala.common.identity.tls import DAEMON_HOST, secure_channel
from koala.common.wire import connection_limits as strangers
from koala.common.wire.v1.identity_pb2 import WhereRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from tests.common.identity.stage import CALLS, LIMIT_S, Secured, secured

AT_ONCE = 8


class Silent(asyncio.Protocol):
    """A connection that says nothing, and how it ended."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(exc)


async def crowd(stack: ExitStack, address: str, count: int) -> list[Silent]:
    host, _, port = address.rpartition(":")
    found = []
    for _ in range(count):
        transport, silent = await asyncio.get_running_loop().create_connection(
            Silent, host, int(port)
        )
        stack.callback(transport.abort)
        found.append(silent)
    return found


async def until_closed(silents: list[Silent], count: int) -> None:
    """Waits until so many of them have been closed by the other end."""
    async with asyncio.timeout(LIMIT_S):
        ended = asyncio.as_completed([silent.closed for silent in silents])
        for _ in range(count):
            await next(ended)


async def asks(grid: Secured) -> None:
    """A call by somebody who has no connection yet."""
    channel = secure_channel(grid.address, DAEMON_HOST, authority=grid.authority, options=())
    async with channel:
        await EnrolmentStub(channel).Where(
            WhereRequest(), timeout=LIMIT_S, metadata=CALLS, wait_for_ready=True
        )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "connections_max", lambda _ports: AT_ONCE)


@pytest.mark.usefixtures("few")
async def test_a_crowd_at_the_clients_port_keeps_no_site_out(tmp_path: Path) -> None:
    with ExitStack() as stack:
        async with secured(tmp_path) as grid, grid.client() as client:
            site = await grid.site("delft")
            await client.sites()  # the connection that goes on while strangers come
            agents = await grid.certified_address()
            silents = await crowd(stack, grid.address, 3 * AT_ONCE)
            # Those that came first are waited for; ours are among them.
            await until_closed(silents, 2 * AT_ONCE)
            await client.sites()
            channel = secure_channel(
                agents, DAEMON_HOST, authority=grid.authority, identity=site, options=()
            )
            async with channel, asyncio.timeout(LIMIT_S):
                await channel.channel_ready()


@pytest.mark.usefixtures("few")
async def test_who_says_nothing_is_let_go_and_others_get_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "HANDSHAKE_S", 1)
    with ExitStack() as stack:
        async with secured(tmp_path) as grid:
            silents = await crowd(stack, grid.address, AT_ONCE)
            await asks(grid)
            await until_closed(silents, AT_ONCE)


async def test_who_asks_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake proves nothing where no certificate is asked for."""
    monkeypatch.setattr(strangers, "IDLE_S", 1)
    async with secured(tmp_path) as grid:
        channel = secure_channel(grid.address, DAEMON_HOST, authority=grid.authority, options=())
        async with channel, asyncio.timeout(LIMIT_S):
            await channel.channel_ready()
            while (state := channel.get_state()) is grpc.ChannelConnectivity.READY:
                await channel.wait_for_state_change(state)
        await asks(grid)


@contextmanager
def descriptors(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_each_port_has_a_part_of_the_descriptors() -> None:
    with descriptors(900):
        assert strangers.connections_max(2) == 300
        assert strangers.connections_max(1) == 450
        strangers.raise_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == min(hard, 65_536)
        assert dict(strangers.options(2))["grpc.max_allowed_incoming_connections"] == soft // 3
