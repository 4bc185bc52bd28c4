"""Maintenance: what runs goes on while nothing new begins, and either side may be exchanged."""

import asyncio
from pathlib import Path

import click
import pytest

from koala.cli.admin.sites import _until_empty
from koala.client import AsyncClient
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.values import SiteName
from koala.daemon.agents import duplicate_agents as contention
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"


async def test_a_drained_site_ends_what_runs_and_begins_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address, ends_at_once=False)
        staying = group.create_task(agent.stay())
        command = click.Context(click.Command("drain"))
        async with AsyncClient(daemon.address) as client, asyncio.timeout(60):
            running_job = (await client.submit(ONE)).job
            await agent.until("release")
            assert (await client.drain("delft"))["state"] == "drained"
            waiting = (await client.submit(ONE)).job
            with command:
                emptying = group.create_task(_until_empty(client, ["delft"]))
                while "delft 4" not in capsys.readouterr().err:
                    assert (await client.show(running_job))["phase"] in ("Releasing", "Running")
                assert "drained" in " ".join((await client.why(waiting))["why"])
                agent.end(f"{running_job}/1/0/1")
                assert await client.wait(running_job) == "Finished"
                await emptying
            await agent.until("acknowledge")
            assert len(agent.claims) == 0
            await client.resume("delft")
            await agent.until("release", 2)
            agent.end(f"{waiting}/1/0/1")
            assert await client.wait(waiting) == "Finished"
        staying.cancel()


async def test_a_drain_lasts_over_a_restart(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("wanted_end")
            await client.drain("delft")
        staying.cancel()
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("wanted_end", 2)
            (site,) = await client.sites()
            assert site["state"] == "drained"
        staying.cancel()


async def test_jobs_run_on_while_the_daemon_is_exchanged(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    agent = FakeAgent("", ends_at_once=False)
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            job = (await client.submit(ONE)).job
            await agent.until("release")
        staying.cancel()
    assert agent.mark is not None
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("wanted_end", 2)
            assert (await client.show(job))["attempts"] == 1
            agent.end(f"{job}/1/0/1")
            assert await client.wait(job) == "Finished"
        staying.cancel()


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


async def test_why_names_the_trouble_of_a_site_that_takes_no_claims(tmp_path: Path) -> None:
    """A batch system that gives no answer looks like a site without idle processors."""
    full = pb.SiteReport(idle=0, processors=8, queued_jobs=0)
    silent = pb.SiteReport(idle=0, processors=8, queued_jobs=0, trouble="slurm gives no answer")
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agents = {site: FakeAgent(daemon.address, site=site) for site in ("delft", "leiden")}
        staying = [group.create_task(agent.stay()) for agent in agents.values()]
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            for site, report in (("delft", silent), ("leiden", full)):
                await agents[site].until("wanted_end")
                agents[site].outbox.put_nowait(pb.FromAgent(site=report))
            sites = await client.sites()
            while any(site["idle"] for site in sites) or not any(s["trouble"] for s in sites):
                sites = await client.sites()
            trouble = "delft needs its administrator: slurm gives no answer"
            for where, is_told in (
                ("", True),
                ("(resourceManagerContact=delft)", True),
                ("(resourceManagerContact=leiden)", False),
            ):
                job = (await client.submit(f"&(executable=/bin/true)(count=2){where}")).job
                assert (trouble in (await client.why(job)).why) is is_told, where
        for task in staying:
            task.cancel()


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
