"""Idle processors at sites as people have them, and whether a job can have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.errors import RejectedError
from tests.batch.conftest import need
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import ended_well
from tests.batch.systems.slurm import SlurmCluster, slurm_clusters
from tests.batch.systems.system import open_folder
from tests.harness.moments import moment
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

SITE = "alpha"


@contextmanager
def site(folder: Path, profile: str) -> Iterator[tuple[Grid, SlurmCluster]]:
    """Four nodes of 8 processors, and a daemon and an agent in front of them."""
    need("slurm")
    with (
        open_folder() as site,  # others have jobs there
        slurm_clusters(site, f"{SITE}:4x8", profile=profile) as systems,
        grid_over(folder, systems, grace_s=60.0) as grid,
    ):
        system = systems[SITE]
        assert isinstance(system, SlurmCluster)
        yield grid, system


async def told(client: AsyncClient, grid: Grid, is_so: Callable[[Any], bool]) -> Any:
    """Wait until the site's record is so."""
    found: Any = None
    try:
        async with asyncio.timeout(grid.patience_s):
            while found is None or not is_so(found):
                (found,) = [one for one in await client.sites() if one["site"] == SITE]
                await moment()
    except TimeoutError:
        raise AssertionError(found) from None
    return found


async def run(client: AsyncClient, grid: Grid, *wishes: dict[str, Any]) -> str:
    components = [grid.evidence.component(site=SITE, **wish) for wish in wishes]
    return (await client.submit(grid.evidence.job(*components))).job


async def test_whole_nodes_are_counted_held_and_given_back(tmp_path: Path) -> None:
    with site(tmp_path, "whole-nodes") as (grid, _):
        async with grid.client() as client:
            await grid.ready(client)
            await told(client, grid, lambda site: site["resources"]["unit"] == 8)
            with pytest.raises(RejectedError, match="wants 40 there"):
                await run(client, grid, *[{"count": 3}] * 5)
            job = await run(client, grid, *[{"count": 3, "gate": "g", "seconds": 600}] * 4)
            await grid.phase(client, job, "Running")
            full = await told(client, grid, lambda site: site["idle"] == 0 and site["why_idle"])
            assert (full["claimed"], full["local"]) == (32, 0)
            assert full["why_idle"] == "all 32 are in use"
            grid.evidence.open_gate("g")
            await ended_well(client, job)
            await told(client, grid, lambda site: site["idle"] == 32)


async def test_a_short_job_runs_while_others_wait(tmp_path: Path) -> None:
    """Two nodes are used for an hour, and all four are waited for."""
    with site(tmp_path, "busy") as (grid, system):
        async with grid.client() as client:
            await grid.ready(client)
            busy = await told(client, grid, lambda site: "end within" in site["why_idle"])
            assert busy["why_idle"].startswith("20 idle, but 9 jobs of others wait for 216 proc")
            before = system.numbers("others")
            job = await run(client, grid, {"count": 16, "more": "(maxWallTime=5)"})
            await ended_well(client, job)
            assert system.numbers("others") == before
            long = await run(client, grid, {"count": 2, "more": "(maxWallTime=300)"})
            await grid.phase(client, long, "Queued", "Placing")
            assert any("jobs of others wait" in line for line in (await client.why(long))["why"])
            await client.cancel([long])
            await grid.at_rest(client)


async def test_jobs_of_another_partition_and_the_other_half_of_a_core(tmp_path: Path) -> None:
    with site(tmp_path, "threads") as (grid, system):
        node, more = f"{SITE}4", "MaxTime=INFINITE DefaultTime=60 DefMemPerCPU=1000"
        system.run("scontrol", "create", "PartitionName=gpu", f"Nodes={node}", *more.split())
        for _ in range(2):
            system.run("sbatch", "-p", "gpu", "-n8", "-o", "/dev/null", "--wrap", "sleep 600")
        async with grid.client() as client:
            await grid.ready(client)
            await told(client, grid, lambda site: site["idle"] == 24)
            job = await run(client, grid, {"count": 3, "gate": "g", "seconds": 600})
            await grid.phase(client, job, "Running")
            counts = ("idle", "claimed", "local")
            await told(client, grid, lambda site: [site[one] for one in counts] == [20, 4, 8])
            grid.evidence.open_gate("g")
            await ended_well(client, job)


@pytest.mark.slow
async def test_nodes_that_are_powered_down_wake_for_a_job(tmp_path: Path) -> None:
    with site(tmp_path, "power") as (grid, _):
        async with grid.client() as client:
            await grid.ready(client)
            down = await told(client, grid, lambda site: "powered down" in site["why_idle"])
            assert down["idle"] == 32
            await ended_well(client, await run(client, grid, {"count": 9}))


async def test_a_prolog_that_fails_costs_one_machine_and_is_told(tmp_path: Path) -> None:
    """Each further try would drain another one."""
    with site(tmp_path, "prolog") as (grid, system):
        async with grid.client() as client:
            await grid.ready(client)
            job = await run(client, grid, {"count": 1})
            await told(client, grid, lambda site: site["state"] == "unusable")
            assert any("does its prolog fail?" in line for line in (await client.why(job))["why"])
            assert system.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split() == ["alpha1"]
            await client.cancel([job])
