"""Submissions to a daemon over real gRPC: accepted, delayed and refused, and in which words."""

import asyncio
from pathlib import Path

import pytest

from koala.client import AsyncClient, Submission
from koala.errors import KoalaError, RejectedError, SpecError, UnknownJobError, UnknownSiteError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import ONE, config_of, running

pytestmark = pytest.mark.live


async def test_errors_come_back_as_they_were_raised(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        with pytest.raises(SpecError, match="unknown attribute 'cuont'") as wrong:
            await client.submit("&(executable=/bin/true)\n(cuont=4)")
        assert wrong.value.position is not None
        assert (wrong.value.position.line, wrong.value.position.column) == (2, 2)
        with pytest.raises(UnknownJobError, match="j7"):
            await client.show("j7")
        with pytest.raises(UnknownSiteError, match=r"nowhere.*expected one of none"):
            await client.drain("nowhere")
        with pytest.raises(SpecError, match="drain, resume, lost"):
            await client.change_site("delft", "burn")
        with pytest.raises(UnknownJobError, match="j7"):
            await anext(aiter(client.logs("j7")))
        await client.submit(ONE, key="k")
        with pytest.raises(RejectedError, match="another text"):
            await client.submit("&(executable=/bin/false)", key="k")
        (cancelled, unknown) = await client.cancel(["j1", "j2"])
        assert cancelled.document == {"job": "j1", "phase": "Cancelled", "error": ""}
        assert unknown["error"] == "no job 'j2'"


async def test_each_submission_of_many_has_its_own_result(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        results = await client.submit_many([ONE, "&(", Submission(rsl=ONE, key="a"),
                                            Submission(rsl=ONE, key="a")])  # fmt: skip
        jobs = [result if isinstance(result, SpecError) else result.job for result in results]  # type: ignore[union-attr]
        assert jobs[0] == "j1"
        assert isinstance(jobs[1], SpecError)
        assert jobs[2:] == ["j2", "j2"]
        assert [job["job"] for job in await client.list_jobs()] == ["j1", "j2"]
        assert [job["job"] for job in await client.list_jobs(last=1)] == ["j2"]
        assert await client.list_jobs(phases=["Running"]) == []


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        assert (await client.submit(ONE, dry_run=True)).job == ""
        with pytest.raises(SpecError):
            await client.submit("&(count=1)", dry_run=True)
        assert await client.list_jobs() == []


async def test_components_that_never_fit_together_are_refused_however_they_are_submitted(
    tmp_path: Path,
) -> None:
    wide = "+" + "(&(executable=/bin/true)(count=4))" * 3
    async with running(config_of(tmp_path)) as daemon, asyncio.TaskGroup() as group:
        agent = FakeAgent(daemon.address)
        staying = group.create_task(agent.stay())
        await agent.until("wanted_end")
        async with AsyncClient(daemon.address) as client:
            for is_dry in (True, False):
                with pytest.raises(RejectedError, match="do not fit into delft, which has 8"):
                    await client.submit(wide, dry_run=is_dry)
            refused, taken = await client.submit_many([wide, ONE])
            assert isinstance(refused, RejectedError)
            assert not isinstance(taken, KoalaError)
            assert taken.warnings == ()
            await client.change_site("delft", "drain")
            warned = await client.submit(ONE, dry_run=True)
            assert "sites that cannot be used now: delft (drained, 8" in str(warned.warnings)
            assert [job["job"] for job in await client.list_jobs()] == [taken.job]
        staying.cancel()
