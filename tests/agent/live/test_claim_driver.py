"""The claim driver and its link over real sockets, with a small agent behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from koala.common.protocol import messages
from koala.common.protocol.messages import LogChunk, Watermark, Welcome
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.runtime import clock
from koala.common.wire.v1 import link_pb2
from koala_agent.link import codec
from koala_agent.link.session import Session, Timing
from koala_agent.link.session_driver import SessionDriver
from koala_agent.link.session_events import Order
from koala_agent.link.stream import StreamFactory
from tests.agent.live.fake_daemon import FakeDaemon, fake_daemon, patiently

pytestmark = pytest.mark.live

FACTS = codec.SiteDescription(
    version="0",
    site=SiteName("delft"),
    facts=messages.Facts(processors=8, grace_s=5.0, starts_after_stop=True, address="here"),
)
CLAIM = ClaimId("j1/1/0/1")


class NotedAgent:
    """Notes what the link wants of it."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.orders: list[object] = []
        self.named: list[frozenset[str]] = []
        self.reports: tuple[object, ...] = ()
        self._changed = asyncio.Condition()
        self._happened = asyncio.Event()

    def startable(self) -> int:
        return 6

    async def prepare(self) -> None:
        pass

    def inventory(self) -> tuple[object, ...]:
        return self.reports

    def store_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def keep_watermark(self, mark: Watermark) -> None:
        raise AssertionError(f"nobody told {mark}")

    def begin_session(self, welcome: Welcome, age_s: tuple[float, float]) -> None:
        assert welcome.epoch == self.epochs[-1]

    def apply(self, order: Order) -> None:
        self.orders.append(order.body)
        self._happened.set()

    def stop_others(self, *, claims: frozenset[str], transfers: frozenset[str]) -> None:
        self.named.append(claims)
        self._happened.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when something happened and the condition holds."""
        while not condition():
            self._happened.clear()
            await patiently(self._happened.wait())


@asynccontextmanager
async def linked(
    daemon: FakeDaemon,
    agent: NotedAgent,
    *,
    epoch: int = 0,
    silence_s: float = 15.0,
    queue_max: int = 10_000,
) -> AsyncIterator[SessionDriver]:
    timing = Timing(silence_s=silence_s)
    session = Session(epoch=epoch, timing=timing, random=Random(0), now=clock.now())
    streams = StreamFactory(
        target=daemon.target,
        encode=lambda message: codec.encode(message, lambda: FACTS),
        decode=codec.decode,
        queue_max=queue_max,
    )
    link = SessionDriver(session, asyncio.Queue(), streams.open, agent, clock=clock.now)
    async with asyncio.TaskGroup() as group:
        group.create_task(link.run())
        yield link
        link.close("the test is over")


async def test_what_cannot_be_meant_ends_the_session_and_not_the_agent() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent):
        session = await daemon.live()
        session.say(stop=link_pb2.Stop(claim="../../etc"))
        await patiently(session.is_over.wait())
        await daemon.live()
        await agent.until(lambda: len(agent.named) >= 1)
    assert agent.orders == []


async def test_a_daemon_that_does_not_read_is_left_before_memory_is() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent, queue_max=100) as link:
        session = await daemon.live()
        await agent.until(lambda: link.is_live)
        session.is_reading = False
        told = 0
        while link.is_live:  # gRPC itself takes some megabytes
            link.send_report(LogChunk(request=told, offset=0, data=bytes(100_000)))
            told += 1
            assert told < 1_000
            await asyncio.sleep(0)
        assert told > 100
        await daemon.live()
        await agent.until(lambda: link.is_live)


async def test_an_inventory_longer_than_the_queue_is_told() -> None:
    agent = NotedAgent()
    held = messages.ReportState.GRANTED
    agent.reports = tuple(
        messages.Report(claim=ClaimId(f"j{number}/1/0/1"), state=held, nonce="n")
        for number in range(300)
    )
    async with fake_daemon() as daemon, linked(daemon, agent, queue_max=100):
        session = await daemon.session()
        assert len(await session.inventory()) == 300
