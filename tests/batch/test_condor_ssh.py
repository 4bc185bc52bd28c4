"""A site behind ssh whose login node is the access point of an HTCondor pool, and runs no agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.agent.accounts import need_root
from tests.agent.transport.servers import kill_holder
from tests.batch.conftest import need
from tests.batch.systems.htcondor import condor_pools
from tests.batch.systems.jobs import check_one_start, ended_well, job, log_of, running
from tests.batch.systems.ssh_sites import grid_behind_ssh, open_folder, settings_of
from tests.batch.systems.system import System
from tests.harness.ssh_server import SSHServer
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

FAR = "nu"


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System]) -> Iterator[dict[str, System]]:
    """alpha, with an agent beside it, and nu, a pool that runs jobs as their owners."""
    need_root()
    need("htcondor")
    with (
        open_folder() as folder,
        condor_pools(folder / "pool", f"{FAR}:1x4", accounts=True) as pools,
    ):
        yield {"alpha": slurm["alpha"], **pools}


@pytest.fixture
def grid(tmp_path: Path, systems: dict[str, System], server: SSHServer) -> Iterator[Grid]:
    """Daemon and agents; that of the pool reaches it by ssh alone."""
    with grid_behind_ssh(tmp_path, systems, server, {FAR: "shared = false\n"}) as grid:
        yield grid


async def test_a_job_over_a_pool_behind_ssh_outlives_its_connection(
    grid: Grid, client: AsyncClient, systems: dict[str, System], server: SSHServer
) -> None:
    """It starts with a component elsewhere, and belongs to the account at the other end."""
    end = server.home / "end"
    program = f"id -un; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, job(program, "alpha", FAR))
    numbers = systems[FAR].numbers("koala-")
    assert len(numbers) == 1
    kill_holder(settings_of(grid, FAR))
    grid.kill(FAR)
    grid.start()
    await grid.ready(client)
    assert systems[FAR].numbers("koala-") == numbers
    end.touch()
    shown = await ended_well(client, name)
    assert shown["attempts"] == 1
    check_one_start(shown)
    assert await log_of(client, name, 1) == f"{server.account}\n"
