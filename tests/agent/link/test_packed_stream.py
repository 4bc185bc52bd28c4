"""An agent's stream packs what waits, for a daemon that unpacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from koala.common.wire.packing import PACKS, can_unpack
from koala.common.wire.v1 import link_pb2 as pb
from koala.common.wire.v1.link_pb2_grpc import AgentLinkServicer, add_AgentLinkServicer_to_server
from koala_agent.link.session_events import Dialled, Received
from koala_agent.link.stream import StreamFactory

PATIENCE_S = 60.0
PINGS = 7


def pong(number: int) -> pb.ToAgent:
    return pb.ToAgent(pong=pb.Pong(claim=f"j{number}/1/0/1"))


class Daemon(AgentLinkServicer):
    """The other end of one stream: says what it is told to, and keeps what comes."""

    def __init__(self, *, unpacks: bool) -> None:
        self.came: asyncio.Queue[pb.FromAgent] = asyncio.Queue()
        self.agent_unpacks = False
        self._unpacks = unpacks

    async def Connect(  # type: ignore[override] # noqa: N802 - see koala.daemon.agents.streams
        self, requests: Any, context: Any
    ) -> None:
        self.agent_unpacks = can_unpack(context.invocation_metadata())
        if self._unpacks:
            await context.send_initial_metadata(PACKS)
        first = pong(0)
        first.more.extend(pong(number) for number in range(1, 3))
        await context.write(first)
        async for message in requests:
            self.came.put_nowait(message)


@asynccontextmanager
async def listening(daemon: Daemon) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_AgentLinkServicer_to_server(daemon, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("unpacks", [True, False])
async def test_what_waits_is_one_message_for_a_daemon_that_unpacks(*, unpacks: bool) -> None:
    daemon = Daemon(unpacks=unpacks)
    events: asyncio.Queue[Any] = asyncio.Queue()
    async with (
        asyncio.timeout(PATIENCE_S),
        listening(daemon) as target,
        asyncio.TaskGroup() as group,
    ):
        streams = StreamFactory(
            target=target,
            encode=lambda number: pb.FromAgent(ping=pb.Ping(claim=f"j{number}/1/0/1")),
            decode=lambda message: message,  # type: ignore[arg-type,return-value]
        )
        stream = streams.open(1, events.put_nowait)
        running = group.create_task(stream.run(lambda: 4))
        assert isinstance(await events.get(), Dialled)
        said = [await events.get() for _ in range(3)]
        assert all(isinstance(event, Received) for event in said)
        assert [event.message.pong.claim[:2] for event in said] == ["j0", "j1", "j2"]
        assert daemon.agent_unpacks
        for number in range(PINGS):
            assert stream.send((number,))
        came = [await daemon.came.get()]
        while len(came) + sum(len(one.more) for one in came) < PINGS:
            came.append(await daemon.came.get())
        assert len(came) == (1 if unpacks else PINGS)
        parts = [part for one in came for part in (one, *one.more)]
        assert [part.ping.claim for part in parts] == [f"j{n}/1/0/1" for n in range(PINGS)]
        stream.hang_up(is_orderly=False)
        await running
