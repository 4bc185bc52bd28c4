"""The proxy of the tests does what it says: what goes through, what waits, what ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.live.proxy import Direction, Proxy

LIMIT_S = 60.0


class Ends:
    """Both ends of one connection through the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.Queue()
        )

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._accepted.put_nowait((reader, writer))

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.2", self.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def accepted(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._accepted.get()


@asynccontextmanager
async def through_proxy() -> AsyncIterator[Ends]:
    """A listener, and the proxy in front of it at the same port of another address."""
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        ends = Ends(Proxy(group))
        server = await asyncio.start_server(ends.take, "127.0.0.1", 0)
        ends.port = server.sockets[0].getsockname()[1]
        to = ("127.0.0.1", ends.port)
        await ends.proxy.listen("way", ("127.0.0.2", ends.port), to=to)
        yield ends
        ends.proxy.close()
        server.close()
        await ends.close()


async def test_what_is_said_goes_both_ways_and_ends_with_either_side() -> None:
    async with through_proxy() as ends:
        reader, writer = await ends.dial()
        far_reader, far_writer = await ends.accepted()
        large = b"x" * 3_000_000
        writer.write(large)
        assert await far_reader.readexactly(len(large)) == large
        far_writer.write(b"answer")
        far_writer.close()
        assert await reader.read() == b"answer"


@pytest.mark.parametrize("held", ["up", "down"])
async def test_a_direction_that_is_held_says_nothing_not_even_its_end(held: Direction) -> None:
    async with through_proxy() as ends:
        near, far = await ends.dial(), await ends.accepted()
        silent, deaf = (near, far) if held == "up" else (far, near)
        ends.proxy.hold("way", held)
        silent[1].write(b"late")
        deaf[1].write(b"now")
        assert await silent[0].readexactly(3) == b"now"
        silent[1].close()
        reading = asyncio.get_running_loop().create_task(deaf[0].read())
        done, _ = await asyncio.wait({reading}, timeout=0.2)
        assert done == set()
        ends.proxy.free("way")
        assert await reading == b"late"


async def test_no_connection_is_made_while_one_direction_is_held() -> None:
    async with through_proxy() as ends:
        ends.proxy.hold("way", "down")
        _, writer = await ends.dial()
        writer.write(b"hello")
        accepting = asyncio.get_running_loop().create_task(ends.accepted())
        done, _ = await asyncio.wait({accepting}, timeout=0.2)
        assert done == set()
        ends.proxy.free("way")
        reader, _ = await accepting
        assert await reader.readexactly(5) == b"hello"


async def test_what_is_slow_comes_later_and_in_order() -> None:
    async with through_proxy() as ends:
        _, writer = await ends.dial()
        reader, _ = await ends.accepted()
        loop = asyncio.get_running_loop()
        ends.proxy.slow("way", 0.5)
        began_at = loop.time()
        writer.write(b"first ")
        await writer.drain()
        assert await reader.readexactly(6) == b"first "
        assert loop.time() - began_at >= 0.5
        writer.write(b"second ")
        await writer.drain()
        ends.proxy.free("way")
        writer.write(b"third")
        assert await reader.readexactly(12) == b"second third"


async def test_a_cut_ends_both_sides_and_new_connections_go_through() -> None:
    async with through_proxy() as ends:
        near, far = await ends.dial(), await ends.accepted()
        ends.proxy.cut("way")
        for reader, _ in (near, far):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        _, writer = await ends.dial()
        writer.write(b"again")
        reader, _ = await ends.accepted()
        assert await reader.readexactly(5) == b"again"


async def test_nobody_who_listens_is_told_by_an_end() -> None:
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        proxy = Proxy(group)
        with socket.socket() as bound:  # and does not listen
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
            await proxy.listen("way", ("127.0.0.2", port), to=("127.0.0.1", port))
            reader, writer = await asyncio.open_connection("127.0.0.2", port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            proxy.close()
