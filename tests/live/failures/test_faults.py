"""Parts of a grid are killed while jobs run: what goes on, what is set back, what never happens.

Each test has a grid of its own, so that a failure spoils no other. Leases are long where they must
not run out on a busy machine, and of seconds where they must.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala_agent.lrm.job_table import FILE_NAME
from tests.harness.moments import until
from tests.live.grid import CALM, HASTY, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

OUTPUT_BYTES = 4_000_000


async def running_job(grid: Grid, client: AsyncClient, *sites: str, seconds: float = 600) -> str:
    """A job with two processes at each of these sites that has begun."""
    evidence = grid.evidence
    parts = [evidence.component(site=site, count=2, gate="open", seconds=seconds) for site in sites]
    job = (await client.submit(evidence.job(*parts))).job
    await grid.phase(client, job, "Running")
    processes = 2 * len(sites)
    await until(lambda: len([x for x in evidence.lines(job) if x.word == "start"]) == processes)
    return job


@asynccontextmanager
async def running_grid(
    folder: Path, *, silence_s: float = 5.0
) -> AsyncIterator[tuple[Grid, AsyncClient, str]]:
    """A grid of delft and leiden, and a job that runs at both until the gate is open."""
    with live_grid(folder, sites={"delft": 4, "leiden": 4}, silence_s=silence_s) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            yield grid, client, await running_job(grid, client, "delft", "leiden")


async def ends_well(grid: Grid, client: AsyncClient, job: str, *, attempt: int = 1) -> None:
    """With the gate open it Finishes in this attempt, and nothing of it is left."""
    grid.evidence.open_gate("open")
    assert await client.wait(job) == "Finished"
    await grid.at_rest(client)
    assert grid.evidence.finished(job, processes=4) == attempt


# --- within the lease -----------------------------------------------------------------------------


async def test_an_output_that_takes_longer_than_the_lease_is_waited_for(tmp_path: Path) -> None:
    """Its program is over, and its starter too: the agent says that the claim is not."""
    slow = {"daemon": "[relay]\nbytes_per_s = 500_000\n"}
    script = f"head -c {OUTPUT_BYTES} /dev/urandom > result"
    rsl = f"&(executable=/bin/sh)(arguments=-c '{script}')(outputFile=result)"
    with live_grid(tmp_path, sites={"delft": 4}, parameters=HASTY, more=slow) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = (await client.submit(rsl)).job
            assert await client.wait(job) == "Finished"
            shown = await client.show(job)
            assert shown["attempts"] == 1
            folder = grid.spool / job / "output"
            await until(lambda: len(list(folder.rglob("result"))) == 1)
            (result,) = folder.rglob("result")
            assert result.stat().st_size == OUTPUT_BYTES


async def test_killed_agents_and_daemons_that_come_back_find_everything_as_it_was(
    tmp_path: Path,
) -> None:
    """Agent, daemon, both at once: the same processes run on, and the job ends in attempt one."""
    async with running_grid(tmp_path) as (grid, client, job):
        alive = grid.processes(f"{job}/")
        for names in (("delft",), ("daemon",), ("leiden", "daemon"), (*grid.sites, "daemon")):
            grid.kill(*names)
            assert grid.processes(f"{job}/") == alive
            grid.start()
            await grid.ready(client)
            assert (await client.show(job))["phase"] == "Running"
        assert grid.processes(f"{job}/") == alive
        await ends_well(grid, client, job)
        shown = await client.show(job)
        assert shown["attempts"] == 1
        assert (await client.metrics())["epoch"] == 4


# --- past the lease -------------------------------------------------------------------------------


async def test_a_job_whose_agent_does_not_come_back_ends_everywhere_and_only_then_runs_elsewhere(
    tmp_path: Path,
) -> None:
    sites = {"delft": 4, "leiden": 4, "vu": 4}
    with live_grid(tmp_path, sites=sites, parameters=HASTY) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            evidence = grid.evidence
            part = evidence.component(count=3, gate="open", seconds=600)
            job = (await client.submit(evidence.job(part, part))).job
            await grid.phase(client, job, "Running")
            shown = await client.show(job)
            lost, kept = (part["site"] for part in shown["parts"])
            grid.kill(lost)
            # The evidence's locks show that nothing of attempt 1 was alive when attempt 2 began.
            await until(lambda: any(line.attempt == 2 for line in evidence.lines(job)))
            assert not grid.processes(f"{job}/1/")
            shown = await client.show(job)
            assert shown["attempts"] == 2
            assert lost not in {part["site"] for part in shown["parts"]}
            assert kept in {part["site"] for part in shown["parts"]}
            evidence.open_gate("open")
            assert await client.wait(job) == "Finished"
            assert evidence.finished(job, processes=6) == 2
            grid.start(lost)
            await grid.ready(client)
            await grid.at_rest(client)


async def test_a_starter_that_is_stopped_is_ended_by_its_agent_before_the_job_runs_again(
    tmp_path: Path,
) -> None:
    """No lease can end it, and it stays stopped; its agent is there, and is asked."""
    sites = {"delft": 4, "leiden": 4}
    with live_grid(tmp_path, sites=sites, parameters=HASTY) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            starter, *_ = grid.starters(f"{job}/1/0/")
            os.kill(starter, signal.SIGSTOP)
            # The evidence's locks show that nothing of attempt 1 was alive when attempt 2 began.
            await until(lambda: any(line.attempt == 2 for line in grid.evidence.lines(job)))
            assert not grid.processes(f"{job}/1/")
            await ends_well(grid, client, job, attempt=2)


async def test_a_site_that_forgot_what_runs_says_so_and_without_its_tables_knows_nothing(
    tmp_path: Path,
) -> None:
    """A write-ahead log that was removed takes rows back, and SQLite says nothing."""
    sites = {"delft": 4, "leiden": 4}
    with live_grid(tmp_path, sites=sites, parameters=HASTY) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = await running_job(grid, client, "delft", "leiden")
            state = grid.state / "delft"
            grid.kill("delft")
            (state / "lrm" / f"{FILE_NAME}-wal").unlink()
            grid.start("delft")
            assert grid.ended("delft") == 1
            log = grid.log("delft")
            assert "koala-agent: " in log
            assert "jobs.sqlite3: damaged: " in log
            assert "Traceback" not in log
            aside = state.with_name("aside")
            aside.mkdir()
            for path in (*state.glob("agent.db*"), state / "agent.mark", state / "lrm"):
                path.rename(aside / path.name)
            grid.start("delft")
            await grid.phase(client, job, "Stopping")
            assert "unknown" in (await client.show(job))["story"][-1][1]
            await until(lambda: not grid.processes(f"{job}/1/"))
            # It is placed again behind the fence.
            assert (await client.show(job))["attempts"] == 1


# --- members that are missing ---------------------------------------------------------------------


# --- two grids ------------------------------------------------------------------------------------


async def test_a_grid_that_is_killed_leaves_nothing_and_does_not_disturb_another_one(
    tmp_path: Path,
) -> None:
    """Nobody is there to say stop: the leases end what runs. On the same machine a grid whose
    claims have the same names runs on."""
    sites = {"delft": 4, "leiden": 4}
    with (
        live_grid(tmp_path / "a", sites=sites, parameters=HASTY) as dying,
        live_grid(tmp_path / "b", sites={"delft": 4}, parameters=CALM) as living,
    ):
        async with dying.client() as one, living.client() as other:
            await dying.ready(one)
            await living.ready(other)
            jobs = await running_job(dying, one, *sites), await running_job(living, other, "delft")
            assert jobs == ("j1", "j1")
            alive = living.processes()
            dying.kill("daemon", *sites)
            assert len(dying.programs()) == 4
            await dying.nothing_left()
            assert living.processes() == alive
            living.evidence.open_gate("open")
            assert await other.wait("j1") == "Finished"
            await living.at_rest(other)
        assert living.evidence.finished("j1", processes=2) == 1
