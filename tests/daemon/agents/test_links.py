"""An agent's messages in a live session become events and answers of the daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.wire.v1 import link_pb2 as pb
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"


@asynccontextmanager
async def running_job(
    folder: Path, *, parameters: str = ""
) -> AsyncIterator[tuple[FakeAgent, AsyncClient, str, str]]:
    """An agent whose one claim has passed: agent, client, job, claim."""
    config = config_of(folder, parameters=parameters or "claiming_step_min_s = 0.05")
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, ends_at_once=False)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit(ONE)).job
            await agent.until("release")
            (claim,) = agent.claims
            yield agent, client, job, claim
        staying.cancel()


async def round_trip(agent: FakeAgent) -> None:
    """Everything said before has been answered: a get that fails at once is, too."""
    count = len(agent.heard_of("kv_answer"))
    agent.tell(kv_get=pb.KvGet(claim="j999/1/0/1", request=999, name="x", wait_s=0.0))
    await agent.until("kv_answer", count + 1)


async def test_a_ping_of_a_wanted_claim_is_answered_with_its_own_instant(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, _, _, claim):
        agent.tell(ping=pb.Ping(claim=claim, nonce=f"n-{claim}", sent_at=123.25))
        (pong,) = await agent.until("pong")
        assert (pong.pong.claim, pong.pong.sent_at) == (claim, 123.25)
        assert pong.pong.now > 1e9


async def test_a_ping_of_another_starter_is_not_answered(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, _, _, claim):
        agent.tell(ping=pb.Ping(claim=claim, nonce="somebody else", sent_at=1.0))
        await round_trip(agent)
        assert agent.heard_of("pong") == []


async def test_a_ping_of_a_claim_that_is_to_stop_is_not_answered(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, client, job, claim):
        agent._take = lambda message: None  # type: ignore[method-assign]  # it hangs
        await client.cancel(job)
        await agent.until("stop")
        agent.tell(ping=pb.Ping(claim=claim, nonce=f"n-{claim}", sent_at=1.0))
        await round_trip(agent)
        assert agent.heard_of("pong") == []


async def test_a_ping_of_an_unknown_claim_brings_its_stop(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, _, _, _):
        agent.tell(ping=pb.Ping(claim="j7/1/0/1", nonce="n", sent_at=1.0))
        (stop,) = await agent.until("stop")
        assert stop.stop.claim == "j7/1/0/1"
        await agent.until("acknowledge")  # the agent says it is gone: that is well
        assert agent.acknowledged == ["j7/1/0/1"]


async def test_an_end_said_again_is_acknowledged_again(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, client, job, claim):
        agent.end(claim)
        agent.end(claim)
        await agent.until("acknowledge", 2)
        assert await client.wait(job) == "Finished"


async def test_values_travel_between_components_of_a_live_attempt(tmp_path: Path) -> None:
    async with running_job(tmp_path) as (agent, client, job, claim):
        agent.tell(kv_get=pb.KvGet(claim=claim, request=1, name="port", wait_s=30.0))
        agent.tell(kv_put=pb.KvPut(claim=claim, request=2, name="port", value="4242"))
        answers = {a.kv_answer.request: a.kv_answer for a in await agent.until("kv_answer", 2)}
        assert answers[2].ok
        assert (answers[1].ok, answers[1].value) == (True, "4242")
        agent.tell(kv_get=pb.KvGet(claim=claim, request=3, name="never", wait_s=0.2))
        agent.tell(kv_put=pb.KvPut(claim=claim, request=4, name="port", value="1"))
        answers = {a.kv_answer.request: a.kv_answer for a in await agent.until("kv_answer", 4)}
        assert answers[3].error == "no value for 'never' after 0.2 s"
        assert "another value" in answers[4].error
        agent._take = lambda message: None  # type: ignore[method-assign]
        await client.cancel(job)
        agent.tell(kv_get=pb.KvGet(claim=claim, request=5, name="port", wait_s=9.0))
        answers = {a.kv_answer.request: a.kv_answer for a in await agent.until("kv_answer", 5)}
        assert "not of a live attempt" in answers[5].error


async def test_a_catalogue_follows_the_sites_files(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, files={"a": 10, "b": 20})
        first = group.create_task(agent.connect())
        await agent.until("wanted_end")
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            assert [entry["file"] for entry in await client.files()] == ["a", "b"]
            agent.tell(file=pb.FileReport(file="b", is_removed=True))
            agent.tell(file=pb.FileReport(file="c", size_bytes=30))
            await round_trip(agent)
            assert [entry["file"] for entry in await client.files()] == ["a", "c"]
            agent.files = {"c": 30}  # what an inventory does not name is not there any more
            second = group.create_task(agent.connect())
            await agent.until("wanted_end", 2)
            assert [entry.document for entry in await client.files()] == [
                {"file": "c", "size_bytes": 30, "checksum": "", "sites": ["delft"]}
            ]
            events = (await client.metrics())["events_by_kind"]
            assert (events["ReplicaAdded"], events["ReplicaRemoved"]) == (3, 2)
        first.cancel()
        second.cancel()
