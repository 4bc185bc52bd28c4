"""A client reaches a daemon that takes longer for a handshake than the longest back-off."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koala.client.channel import DaemonEndpoint
from koala.client.connection import CHANNEL_OPTIONS
from koala.common.identity.credentials import PLAIN
from koala.errors import UnreachableError

ANSWER_S = 1.3
"""Longer than gRPC's longest back-off here with its jitter, 1.2 s."""
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""An empty frame of HTTP/2's settings, which completes the handshake."""
LIMIT_S = 60.0


async def test_an_attempt_lasts_until_a_slow_daemon_has_answered() -> None:
    """Attempts that end with the back-off would go on for ever, and load the daemon still more."""
    async with asyncio.TaskGroup() as connections:

        async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answer = asyncio.get_running_loop().call_later(ANSWER_S, writer.write, SETTINGS)
            with suppress(ConnectionError):
                await reader.read()  # until the client gives up or leaves
            answer.cancel()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.create_task(answer_late(reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = DaemonEndpoint(f"127.0.0.1:{port}", PLAIN, options=CHANNEL_OPTIONS)
        endpoint.unlock()
        is_connected = False
        async with server, asyncio.timeout(LIMIT_S):
            while not is_connected:
                with suppress(UnreachableError):  # this machine may stall
                    await endpoint.open()
                    is_connected = True
            await endpoint.close()
