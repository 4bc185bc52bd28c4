"""A site behind ssh whose login node is the access point of an HTCondor pool, and runs no agent."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.agent.accounts import need_root
from tests.agent.transport.servers import a_server, close, kill_holder
from tests.batch.conftest import need
from tests.batch.systems.grids import grid_over
from tests.batch.systems.htcondor import condor_pools
from tests.batch.systems.system import System
from tests.batch.test_grid import job
from tests.batch.test_ssh_sites import log_of, settings_of
from tests.harness.ssh_server import HOST, SSHServer
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

FAR = "nu"


@pytest.fixture(scope="module")
def server() -> Iterator[SSHServer]:
    with a_server(settings="MaxStartups 100") as server:
        yield server


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System]) -> Iterator[dict[str, System]]:
    """alpha, with an agent beside it, and nu, a pool that runs jobs as their owners."""
    need_root()
    need("htcondor")
    with tempfile.TemporaryDirectory(prefix="koala-far-pool-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with condor_pools(folder / "pool", f"{FAR}:1x4", accounts=True) as pools:
            yield {"alpha": slurm["alpha"], **pools}


@pytest.fixture
def grid(tmp_path: Path, systems: dict[str, System], server: SSHServer) -> Iterator[Grid]:
    """Daemon and agents; that of the pool reaches it by ssh alone."""
    words = ", ".join(f'"{word}"' for word in server.options)
    far = (
        '[starter]\nshared = false\npython = "/usr/bin/python3"\nscratch = "/tmp"\n'
        f'[transport]\nkind = "ssh"\nhost = "{HOST}"\noptions = [{words}]\n'
        "commands_per_minute = 1200\n"
    )
    with grid_over(tmp_path, systems, more={FAR: far}) as grid:
        try:
            yield grid
        finally:
            grid.terminate(FAR)
            close(settings_of(grid, FAR))


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    async with grid.client() as client:
        await grid.ready(client)
        yield client


async def test_a_job_over_a_pool_behind_ssh_outlives_its_connection(
    grid: Grid, client: AsyncClient, systems: dict[str, System], server: SSHServer
) -> None:
    """It starts with a component elsewhere, and belongs to the account at the other end."""
    end = server.home / "end"
    program = f"id -un; while ! test -e {end}; do sleep 0.1; done"
    name = (await client.submit(job(program, "alpha", FAR))).job
    await grid.phase(client, name, "Running")
    numbers = systems[FAR].numbers("koala-")
    assert len(numbers) == 1
    kill_holder(settings_of(grid, FAR))
    grid.kill(FAR)
    grid.start()
    await grid.ready(client)
    assert systems[FAR].numbers("koala-") == numbers
    end.touch()
    assert await client.wait(name) == "Finished", await client.show(name)
    shown = await client.show(name)
    assert shown["attempts"] == 1
    held_from = max(part["claimed_at"] for part in shown["parts"])
    assert all(part["passed_at"] >= held_from for part in shown["parts"]), shown["parts"]
    assert await log_of(client, name, 1) == f"{server.account}\n"
    await grid.at_rest(client)
