"""Callers of a daemon's port: other protocols, garbage, a second daemon, agents that it refuses."""

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from koala.client import AsyncClient
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.v1 import koala_pb2, koala_pb2_grpc, link_pb2
from koala.errors import JournalError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live


async def test_a_client_of_another_protocol_is_told_which_one_is_spoken(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path)) as daemon,
        grpc.aio.insecure_channel(daemon.address) as channel,
    ):
        stub = koala_pb2_grpc.KoalaStub(channel)
        for metadata, said in (
            ((("koala-protocol", "1"),), "protocol 1"),
            ((), "no protocol version"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Hello(koala_pb2.HelloRequest(), metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert said in (refused.value.details() or "")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Watch(koala_pb2.WatchRequest(), metadata=metadata).read()
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_garbage_on_the_port_disturbs_nobody(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        host, _, port = daemon.address.rpartition(":")
        for garbage in (b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 64):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(garbage)
            async with asyncio.timeout(90):
                with suppress(ConnectionError):
                    await reader.read()
            writer.close()
        async with grpc.aio.insecure_channel(daemon.address) as raw:
            call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = raw.stream_stream(
                "/koala.wire.v1.AgentLink/Connect"
            )
            (said,) = [answer async for answer in call(iter([b"\xff\xff\xff\xff"]))]
            assert "not a message" in link_pb2.ToAgent.FromString(said).reject.reason
        assert (await client.hello())["protocol"] == PROTOCOL


async def test_a_second_daemon_on_the_same_state_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        with pytest.raises(ExceptionGroup) as refused:
            async with running(config):
                pass
        (error,) = refused.value.exceptions
        assert isinstance(error, JournalError)
        assert "another daemon runs" in str(error)
        assert (await client.hello())["epoch"] == 1
        assert (config.state_dir / "endpoint").read_text().strip() == daemon.address


async def test_the_newest_session_of_a_site_wins(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        old, new = FakeAgent(daemon.address), FakeAgent(daemon.address, session="s2")
        group.create_task(old.connect())
        await old.until("wanted_end")
        staying = group.create_task(new.connect())
        await new.until("wanted_end")
        (rejected,) = await old.until("reject")
        assert "newer session" in rejected.reject.reason
        async with AsyncClient(daemon.address) as client:
            (site,) = await client.sites()
            assert site["state"] == "usable"
        staying.cancel()


@pytest.mark.parametrize(
    ("agent", "more", "said", "is_final"),
    [
        (FakeAgent("", protocol=7), "", f"protocol 7 (version test), this daemon {PROTOCOL}", True),
        (FakeAgent("", site="leiden"), "[sites.delft]\n", "unknown site 'leiden'", True),
    ],
)
async def test_an_agent_that_cannot_be_served_is_told_why(
    tmp_path: Path, agent: FakeAgent, more: str, said: str, is_final: bool
) -> None:
    async with running(config_of(tmp_path, more)) as daemon, asyncio.timeout(90):
        agent.address = daemon.address
        agent.changed, agent.outbox = asyncio.Event(), asyncio.Queue()
        await agent.connect()
        (rejected,) = agent.heard_of("reject")
        assert said in rejected.reject.reason
        assert rejected.reject.is_final is is_final
