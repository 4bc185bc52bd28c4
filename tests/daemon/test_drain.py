"""Maintenance: what runs goes on while nothing new begins, and either side may be exchanged."""

import asyncio
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.values import SiteName
from koala.daemon.agents import duplicate_agents as contention
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live


async def test_what_a_newer_agent_says_besides_is_passed_over(tmp_path: Path) -> None:
    """A kind of message that this daemon does not know, and a field in one that it does."""
    later = pb.FromAgent()
    later.MergeFromString(b"\xba\x3e\x03abc")  # field 999, bytes
    report = pb.FromAgent(
        site=pb.SiteReport(idle=3, processors=8, queued_jobs=1, trouble="no room")
    )
    report.site.MergeFromString(b"\xba\x3e\x03abc")
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("wanted_end")
            agent.outbox.put_nowait(later)
            agent.outbox.put_nowait(report)
            job = (await client.submit("&(executable=/bin/true)(count=2)")).job
            while not (trouble := (await client.sites())[0]["trouble"]):
                await client.hello()
            assert trouble == "no room"
            assert await client.wait(job) == "Finished"
            assert len(agent.heard_of("welcome")) == 1, "in one session"
        staying.cancel()


async def test_two_agents_that_contend_for_a_site_are_its_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a copy of a state directory: each takes the other's place whenever it dials, and
    each time is an event. So after a few the one that is there stays, for longer and longer; when
    it goes, the other one is let in at once."""
    monkeypatch.setattr(contention, "PAUSE_MIN_S", 3600.0)
    monkeypatch.setattr(contention, "PAUSE_MAX_S", 3600.0)

    def kept_out(agent: FakeAgent) -> bool:
        return any("keeps its place" in m.reject.reason for m in agent.heard_of("reject"))

    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        one, other = FakeAgent(daemon.address), FakeAgent(daemon.address)
        staying = {id(one): group.create_task(one.stay())}
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await one.until("wanted_end")
            assert (await client.sites())[0]["trouble"] == "", "one alone has none"
            staying[id(other)] = group.create_task(other.stay())
            while not kept_out(one) and not kept_out(other):
                await client.hello()
            assert "two agents run with one identity" in (await client.sites())[0]["trouble"]
            out, inside = (one, other) if kept_out(one) else (other, one)
            await out.until("reject", len(out.heard_of("reject")) + 5)
            events = (await client.metrics())["events_by_kind"]
            assert events["SiteRegistered"] == 1 + contention.CONTENDED_AT
            staying[id(inside)].cancel()
            await out.until("welcome", len(out.heard_of("welcome")) + 1)
        for task in staying.values():
            task.cancel()


def test_the_pause_of_contending_agents_grows_and_ends() -> None:
    """Test two that dial each second: one that dials again after cuts is never refused."""
    delft, cuts = SiteName("delft"), contention.DuplicateAgents()
    for at in range(0, 3600, 15):
        assert not cuts.objection(delft, at)
        cuts.note(delft, at)
    assert not cuts.is_contended(delft, 3600)
    both, replaced = contention.DuplicateAgents(), list[int]()
    for at in range(3600):
        if not both.objection(delft, at):
            both.note(delft, at)
            replaced.append(at)
    assert replaced[:9] == [0, 1, 2, 3, 4, 5, 7, 11, 19]
    assert len(replaced) < 30
    assert replaced[-1] - replaced[-2] == contention.PAUSE_MAX_S
    assert both.is_contended(delft, 3600)
    assert not both.is_contended(delft, 3600 + contention.CONTENDED_S), "nobody tries any more"
    assert not both.objection(SiteName("leiden"), 3600)
    assert not both.objection(delft, 3600 + 2 * contention.PAUSE_MAX_S)
    both.note(delft, 5000)
    assert not both.objection(delft, 5001), "from the beginning"
