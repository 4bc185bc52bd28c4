"""Batch jobs that are suspended after their starters armed: no other component runs on alone, and
the batch system ends what is suspended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.batch.test_nodes import is_helper
from tests.harness.moments import until
from tests.live.failures.test_frozen_starters import began
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.slow]

LIMITS = {"lead_min_s": 10.0, "lead_max_s": 10.0, "late_max_s": 2.0, "run_lease_s": 600.0}
"""T is ten seconds after the Arms: a suspension takes some."""
PATIENCE_S = 180.0
TEST_S = 600.0


def is_launcher(process: int) -> bool:
    """Return True for what starts a helper on another machine."""
    return Path(f"/proc/{process}/comm").read_text().strip() == "srun"


@pytest.fixture
def systems(
    slurm: dict[str, System], victim: str, request: pytest.FixtureRequest
) -> dict[str, System]:
    """alpha and the site whose part freezes."""
    cell: dict[str, System] = {} if victim in slurm else request.getfixturevalue("cell")
    return {"alpha": slurm["alpha"], victim: {**slurm, **cell}[victim]}


@pytest.mark.parametrize("way", ["suspend", "stop"])
@pytest.mark.parametrize("victim", ["beta", "gamma"])
async def test_what_is_frozen_at_the_barrier_ends_its_attempt(
    tmp_path: Path, systems: dict[str, System], victim: str, way: str
) -> None:
    with grid_over(tmp_path, systems, limits=LIMITS) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            await _freeze(grid, client, systems[victim], way)


async def _freeze(grid: Grid, client: AsyncClient, victim: System, way: str) -> None:
    part = grid.evidence.component
    sites = ("alpha", victim.name)
    parts = [part(site=site, count=1, gate="open", seconds=600) for site in sites]
    job = (await client.submit(grid.evidence.job(*parts))).job
    await grid.phase(client, job, "Releasing")
    if way == "suspend":
        (number,) = victim.numbers("koala-")
        victim.suspend(number)
    else:
        for process in grid.processes(f"{job}/1/1/"):  # the starter and its keeper
            os.kill(process, signal.SIGSTOP)
    await until(lambda: began(grid, job, attempt=2, component=1), PATIENCE_S)
    assert began(grid, job, attempt=1, component=0)
    assert not began(grid, job, attempt=1, component=1)
    assert not grid.processes(f"{job}/1/")
    grid.evidence.open_gate("open")
    assert await client.wait(job) == "Finished"
    assert grid.evidence.finished(job, processes=2) == 2
    assert "partial start" in str((await client.show(job)).document)


async def test_a_machine_of_a_component_that_is_frozen_at_the_barrier_ends_its_attempt(
    tmp_path: Path, slurm: dict[str, System]
) -> None:
    """Its starter is well, and holds its pass back until the helper there has passed, too."""
    with grid_over(tmp_path, {"alpha": slurm["alpha"]}, limits=LIMITS) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            part = grid.evidence.component(count=2, gate="open", seconds=600, more="(hostCount=2)")
            job = (await client.submit(grid.evidence.job(part))).job
            await grid.phase(client, job, "Releasing")
            for process in grid.processes(f"{job}/1/"):
                if is_helper(process) and not is_launcher(process):
                    os.kill(process, signal.SIGSTOP)
            await until(lambda: began(grid, job, attempt=2, component=0), PATIENCE_S)
            assert not grid.processes(f"{job}/1/")
            grid.evidence.open_gate("open")
            assert await client.wait(job) == "Finished"
            assert grid.evidence.finished(job, processes=2) == 2
