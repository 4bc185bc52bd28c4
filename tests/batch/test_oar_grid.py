"""Jobs over an OAR cluster and a Slurm cluster: one start, no survivors, a server and a database
that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.oar import OARCluster
from tests.batch.systems.system import System
from tests.batch.test_condor_grid import trouble_of
from tests.batch.test_faults import ESCAPE, alive, running, shell
from tests.live.grid import Grid, until

pytestmark = pytest.mark.lrm


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System], oar: dict[str, System]) -> dict[str, System]:
    """alpha and omega."""
    return {"alpha": slurm["alpha"], **oar}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, systems: dict[str, System]) -> Iterator[Grid]:
    """Daemon and agents in front of them."""
    with grid_over(tmp_path_factory.mktemp("oar"), systems, grace_s=120.0) as grid:
        yield grid


@pytest_asyncio.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    async with grid.client() as client:
        await grid.ready(client)
        yield client
        await grid.at_rest(client)


async def test_a_job_over_both_starts_at_one_moment(
    client: AsyncClient, systems: dict[str, System]
) -> None:
    name = (await client.submit(shell("exit 0", *systems))).job
    assert await client.wait(name) == "Finished", await client.show(name)
    shown = await client.show(name)
    held_from = max(part["claimed_at"] for part in shown["parts"])
    assert all(part["passed_at"] >= held_from for part in shown["parts"]), shown["parts"]


@pytest.mark.parametrize("way", ["end", "foreign"])
async def test_nothing_outlives_its_batch_job(
    grid: Grid, client: AsyncClient, systems: dict[str, System], tmp_path: Path, way: str
) -> None:
    """A process that has left session and parent dies with the claim, whoever ends it. OAR sends
    KILL at once."""
    ear, end = tmp_path / "ear", tmp_path / "end"
    program = ESCAPE.format(ear=ear) + f"; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, "omega"))
    await until(lambda: len(alive(ear)) == 1)
    if way == "end":
        end.touch()
        assert await client.wait(name) == "Finished", await client.show(name)
    else:
        systems["omega"].cancel(*systems["omega"].numbers("koala-"))
        await grid.phase(client, name, "Stopping", "Placing", "Claiming", "Starting")
        await client.cancel([name])
        assert await client.wait(name) == "Cancelled"
    await until(lambda: not alive(ear))


@pytest.mark.parametrize("part", ["database", "server"])
async def test_a_part_that_is_killed_loses_no_job_and_starts_none_twice(
    grid: Grid, client: AsyncClient, systems: dict[str, System], tmp_path: Path, part: str
) -> None:
    end, ran = tmp_path / "end", tmp_path / "ran"
    omega = systems["omega"]
    assert isinstance(omega, OARCluster)
    program = f"echo ran >> {ran}; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, *systems))
    number, attempts = omega.numbers("koala-"), (await client.show(name))["attempts"]
    restart = omega.restart_controller if part == "database" else omega.restart_server
    await asyncio.to_thread(restart)
    assert omega.numbers("koala-") == number
    end.touch()
    assert await client.wait(name) == "Finished", await client.show(name)
    assert (await client.show(name))["attempts"] == attempts
    assert ran.read_text() == "ran\n" * 2


async def test_a_database_that_is_away_is_named_in_words(
    client: AsyncClient, systems: dict[str, System]
) -> None:
    with systems["omega"].controller_away():
        await trouble_of("omega", client, lambda text: "gives no answer" in text)
    await trouble_of("omega", client, lambda text: not text)
