"""The daemon packs what waits for an agent that unpacks, and unpacks what agents send."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.wire.packing import PACK_MAX
from koala.common.wire.v1 import link_pb2 as pb
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live

JOBS = 4


@pytest.mark.parametrize("unpacks", [True, False])
async def test_orders_of_one_moment_are_one_message(tmp_path: Path, *, unpacks: bool) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, unpacks=unpacks)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("wanted_end")
            before = agent.messages, len(agent.heard)
            results = await client.submit_many(["&(executable=/bin/true)"] * JOBS)
            jobs = [result.job for result in results if isinstance(result, AsyncJobHandle)]
            assert len(jobs) == JOBS
            assert set((await client.wait_all(jobs)).values()) == {"Finished"}
            await agent.until("acknowledge", JOBS)
            messages, heard = agent.messages - before[0], len(agent.heard) - before[1]
            assert heard >= 4 * JOBS  # hold, arm, release, acknowledge
            assert messages < heard if unpacks else messages == heard
        staying.cancel()


async def test_each_report_of_a_pack_is_heard(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        async with asyncio.timeout(90):
            await agent.until("wanted_end")
            pings = [pb.Ping(claim=f"j{n}/1/0/1", nonce="x", sent_at=n) for n in range(3)]
            pack = pb.FromAgent(ping=pings[0], more=[pb.FromAgent(ping=one) for one in pings[1:]])
            agent.outbox.put_nowait(pack)
            unknown = await agent.until("stop", 3)
            assert [each.stop.claim for each in unknown] == [one.claim for one in pings]
        staying.cancel()


async def test_an_agent_that_packs_too_many_is_refused(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        async with asyncio.timeout(90):
            await agent.until("wanted_end")
            ping = pb.FromAgent(ping=pb.Ping(claim="j1/1/0/1", nonce="x", sent_at=1.0))
            agent.outbox.put_nowait(pb.FromAgent(ping=ping.ping, more=[ping] * PACK_MAX))
            (refused,) = await agent.until("reject")
            assert f"a pack of {PACK_MAX + 1} messages" in refused.reject.reason
            assert not agent.heard_of("stop")
        staying.cancel()
