"""The claim driver and its link over real sockets, with a small agent behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from koala.common.protocol import messages
from koala.common.protocol.messages import LogChunk, SiteFigures, Watermark, Welcome
from koala.common.protocol.names import ClaimId, SiteName
from koala.common.runtime import clock
from koala.common.wire.v1 import link_pb2
from koala_agent.link import codec
from koala_agent.link.session import Session, Timing
from koala_agent.link.session_driver import SessionDriver
from koala_agent.link.session_events import Order
from koala_agent.link.stream import StreamFactory
from tests.agent.live.fake_daemon import GRANTED, FakeDaemon, fake_daemon, hold, patiently

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

    def begin_session(self, welcome: Welcome) -> None:
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


async def test_a_session_over_sockets_tells_the_inventory_and_takes_what_is_wanted() -> None:
    agent = NotedAgent()
    agent.reports = (messages.Report(claim=CLAIM, state=messages.ReportState.GRANTED, nonce="n"),)
    async with fake_daemon() as daemon, linked(daemon, agent) as link:
        session = await daemon.session()
        assert daemon.metadata["koala-protocol"] == "1"
        assert session.register.site == "delft"
        assert session.register.idle == 6
        assert session.register.facts.starts_after_stop
        found = await session.inventory()
        assert found[CLAIM].state == GRANTED
        assert found[CLAIM].nonce == "n"
        session.welcome()
        session.want(hold(CLAIM, "-c", "true"))
        await agent.until(lambda: len(agent.named) == 1)
        assert agent.named == [frozenset({CLAIM})]
        assert [order.claim for order in agent.orders if isinstance(order, messages.Hold)] == [
            CLAIM
        ]
        assert link.is_live
        figures = SiteFigures(idle=3, through=1, processors=8, local_processors=2, queued_jobs=4)
        link.send_figures(figures)
        report = await session.next("site")
        assert (report.idle, report.through, report.local_processors) == (3, 1, 2)
        link.close("the test is over")
        assert (await session.next("goodbye")).reason == "the test is over"


async def test_beats_come_back_at_once() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent):
        session = await daemon.live()
        session.say(beat=link_pb2.Beat(number=7, sent_at=1.5))
        beat = await session.next("beat")
        assert (beat.number, beat.sent_at) == (7, 1.5)


async def test_a_daemon_that_comes_back_is_found_and_told_everything() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent):
        await daemon.live()
        await agent.until(lambda: len(agent.named) == 1)
        await daemon.stop()
        daemon.epoch = 2
        await daemon.start()
        session = await daemon.session()
        assert session.register.epoch_seen == 1
        await session.inventory()
        session.welcome()
        session.want()
        await agent.until(lambda: len(agent.named) == 2)
    assert agent.epochs == [1, 2]


async def test_an_agent_waits_for_a_daemon_that_is_not_there_yet() -> None:
    agent = NotedAgent()
    daemon = FakeDaemon()
    await daemon.start()
    await daemon.stop()
    async with linked(daemon, agent):
        await daemon.start()
        await daemon.live()
        await agent.until(lambda: len(agent.named) == 1)
    await daemon.stop()


async def test_a_daemon_that_says_nothing_is_left_for_another_try() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent, silence_s=0.3):
        first = await daemon.session()
        second = await daemon.session()
        assert first is not second
        await patiently(first.is_over.wait())


async def test_a_link_that_dials_again_says_goodbye_and_tells_everything_again() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent) as link:
        first = await daemon.live()
        await agent.until(lambda: len(agent.named) == 1)
        link.redial("the certificate was renewed")
        second = await daemon.live()
        assert second is not first
        await patiently(first.is_over.wait())
        await agent.until(lambda: len(agent.named) == 2)


async def test_a_daemon_of_an_older_epoch_is_told_why_it_is_left() -> None:
    agent = NotedAgent()
    async with fake_daemon(epoch=3) as daemon, linked(daemon, agent, epoch=5):
        session = await daemon.session()
        session.welcome()
        session.want(hold(CLAIM, "-c", "true"))
        goodbye = await session.next("goodbye")
        assert goodbye.reason == "the daemon has epoch 3, a later one of 5 was here"
        assert agent.orders == []
        daemon.epoch = 6
        await daemon.live(hold(CLAIM, "-c", "true"))
        await agent.until(lambda: len(agent.named) == 1)
    assert agent.epochs == [6]


async def test_what_cannot_be_meant_ends_the_session_and_not_the_agent() -> None:
    agent = NotedAgent()
    async with fake_daemon() as daemon, linked(daemon, agent):
        session = await daemon.live()
        session.say(stop=link_pb2.Stop(claim="../../etc"))
        await patiently(session.is_over.wait())
        await daemon.live()
        await agent.until(lambda: len(agent.named) >= 1)
    assert agent.orders == []


async def test_a_final_refusal_ends_the_link_with_its_reason() -> None:
    agent = NotedAgent()

    async def refuse(daemon: FakeDaemon) -> None:
        session = await daemon.session()
        session.say(reject=link_pb2.Reject(reason="unknown site 'delft'", is_final=True))

    async with fake_daemon() as daemon:
        session = Session(epoch=0, timing=Timing(), random=Random(0), now=clock.now())
        streams = StreamFactory(
            target=daemon.target,
            encode=lambda message: codec.encode(message, lambda: FACTS),
            decode=codec.decode,
        )
        link = SessionDriver(session, asyncio.Queue(), streams.open, agent, clock=clock.now)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(link.run())
            await refuse(daemon)
            finish = await patiently(running)
    assert finish.is_refused
    assert finish.reason == "unknown site 'delft'"


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


async def test_an_agent_that_says_goodbye_to_a_daemon_that_ends_too_ends() -> None:
    """Its last words are read by nobody; it must not wait until they are."""
    async with fake_daemon() as daemon:
        for _ in range(10):
            async with asyncio.timeout(90), linked(daemon, NotedAgent()) as link:
                session = await daemon.live()
                session.is_reading = False
                for number in range(200):  # some are still unwritten when the stream is gone
                    link.send_report(LogChunk(request=number, offset=0, data=bytes(100_000)))
                session.end()
