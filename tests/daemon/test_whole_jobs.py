"""Jobs from submission to end through a daemon over real gRPC, with an agent of the tests."""

import asyncio
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.common.wire.v1 import link_pb2
from koala.errors import SpecError, UnknownSiteError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import ONE, config_of, running
from tests.harness.moments import moment

pytestmark = pytest.mark.live


TWO = """+(&(executable=/bin/true)(count=4)(resourceManagerContact=delft))
(&(executable=/bin/true)(count=2)(resourceManagerContact=leiden))"""


async def test_a_job_of_two_sites_runs_to_its_end(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agents = [FakeAgent(daemon.address, site=site) for site in ("delft", "leiden")]
        staying = [group.create_task(agent.stay()) for agent in agents]
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            for agent in agents:
                await agent.until("wanted_end")
            submitted = await client.submit(TWO)
            assert await client.wait(submitted.job) == "Finished"
            shown = await client.show(submitted.job)
            assert [part["site"] for part in shown["parts"]] == ["delft", "leiden"]
            assert shown["timeline"]["start_skew_s"] == 0.0
            assert [charge["batch_job"] for charge in shown["charges"]] == ["1001", "1001"]
            report = await client.report("site", since=shown["submitted_at"])
            assert [row["site"] for row in report["rows"]] == ["delft", "leiden"]
            assert report["total"]["jobs_finished"] == 1
            assert (await client.report(until=shown["submitted_at"]))["rows"] == []
            with pytest.raises(SpecError, match="by = 'week': allowed are user, site"):
                await client.report("week")
            with pytest.raises(UnknownSiteError, match="no site 'nowhere': known are "):
                await client.report(site="nowhere")
            assert (await client.report(user="nobody"))["rows"] == []
            with pytest.raises(SpecError, match="the first must be before the second"):
                await client.report(since=2.0, until=1.0)
            for agent in agents:
                await agent.until("acknowledge")
            (hold,) = agents[0].heard_of("hold")
            assert hold.hold.processors == 4
            assert hold.hold.program.executable == "/bin/true"
            (arm,) = agents[1].heard_of("arm")[-1:]
            assert [peer.site for peer in arm.arm.peers] == ["delft", "leiden"]
        for task in staying:
            task.cancel()


class Slow(FakeAgent):
    """Answers beats late as long as it is slow, but before the next beat."""

    is_slow = True

    def _take(self, message: link_pb2.ToAgent) -> None:
        if message.WhichOneof("kind") == "beat" and self.is_slow:
            asyncio.get_running_loop().call_later(0.15, super()._take, message)
        else:
            super()._take(message)


async def test_a_site_that_became_quick_is_known_as_quick_before_it_reports(tmp_path: Path) -> None:
    """An idle site reports nothing for as long as it is idle, and its first job needs a lead."""
    agent = Slow("")
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            await agent.until("beat", 2)
            agent.tell(site=link_pb2.SiteReport(idle=8, processors=8))
            for low_s, high_s in ((0.14, 90.0), (0.0, 0.07)):
                while not any(low_s < (s["rtt_s"] or 0) < high_s for s in await client.sites()):
                    await moment()
                agent.is_slow = False
        staying.cancel()


async def test_a_job_goes_on_over_a_restart_in_its_middle(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    agent = FakeAgent("", ends_at_once=False)
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            job = (await client.submit(ONE, key="once")).job
            await agent.until("release")
        staying.cancel()
    agent.heard.clear()
    async with running(config) as daemon, asyncio.TaskGroup() as group:
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end")
        kinds = [message.WhichOneof("kind") for message in agent.heard]
        order = [kind for kind in kinds if kind != "beat"]
        assert order[:4] == ["welcome", "hold", "release", "wanted_end"]
        assert agent.heard_of("hold")[0].hold.is_granted
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            again = await client.submit(ONE, key="once")
            assert (again.job, again.is_known) == (job, True)
            (claim,) = agent.claims
            agent.end(claim)
            assert await client.wait(job) == "Finished"
            assert (await client.hello())["epoch"] == 2
            await agent.until("acknowledge")
        staying.cancel()
