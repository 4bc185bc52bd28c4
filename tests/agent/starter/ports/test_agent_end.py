"""The agent's end of connections to ports, where the relay's is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio

from koala.common.files.channels import Channels
from koala.daemon.files.carried_connections import carry_handler
from koala_agent.starter_link.ports import CARRY, LOST, Line, Ports


class Starter(Line):
    """A starter that has said something."""

    def __init__(self) -> None:
        """Have no connection."""

    async def read(self) -> bytes:
        return b"said"


async def test_what_is_sent_to_a_call_that_has_just_ended_is_lost_and_no_more() -> None:
    async def carry(messages: AsyncIterator[bytes], _context: object) -> None:
        await anext(messages)

    server = aio.server()
    server.add_generic_rpc_handlers((carry_handler(carry),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    channels = Channels()
    ports = Ports(lambda: address, channels, connections_max=1)
    async with channels.use(address) as channel, asyncio.timeout(30):
        call: Any = channel.stream_stream(CARRY)()
        await call.write(b"start")
        await call.code()
        with pytest.raises(LOST):
            await ports._up(Starter(), call)
    await server.stop(None)
