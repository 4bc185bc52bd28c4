"""The agent's end of connections to ports, where there is no other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio
from msgspec import json

from koala.common.files.channels import Channels
from koala.common.protocol.names import ClaimId
from koala.daemon.files.carried_connections import carry_handler
from koala_agent.starter.ports.encryption import Clear
from koala_agent.starter_link.listener import CarryOrder
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


@pytest.mark.parametrize(
    ("relay", "reason"),
    [
        ("", "the daemon's relay is unknown yet"),
        ("127.0.0.1:1", "0 are carried here (expected at most 0: site.ports_max)"),
    ],
)
async def test_a_starter_is_told_why_it_is_refused(relay: str, reason: str) -> None:
    ports = Ports(lambda: relay, Channels(), connections_max=0)
    order = CarryOrder(claim=ClaimId("j1/1/1/1"), port="j1/1/0/1/DB", token="t", dials=True)

    def accept() -> asyncio.Protocol:
        class Accepted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                ports.carry(transport, Clear(), order)

        return Accepted()

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group, server:
        carrying = group.create_task(ports.run())
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        told = await reader.read()
        writer.close()
        carrying.cancel()
    assert told == json.encode({"kind": "refused", "reason": reason}) + b"\n"
