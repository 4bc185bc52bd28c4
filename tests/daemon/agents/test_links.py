"""An agent's messages in a live session become events and answers of the daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.wire.listen_ports import check_free
from koala.common.wire.v1 import link_pb2 as pb
from koala.daemon.files.relay_settings import RelaySettings
from koala.errors import ConfigError
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


async def test_sites_come_and_jobs_run_while_the_relay_does_not_start_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may take long on a busy machine, and starters' leases do not wait."""

    async def never(_settings: RelaySettings, _on_started: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tests.daemon.running.serve", never)
    async with running_job(tmp_path) as (agent, _, _, _):
        (welcome,) = agent.heard_of("welcome")
        with pytest.raises(ConfigError, match="is taken"):
            check_free("relay.listen", welcome.welcome.relay)


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
