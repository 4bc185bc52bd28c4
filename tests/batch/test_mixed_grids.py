"""Jobs over a Slurm cluster and an HTCondor pool or an OAR cluster: one start, no survivors, and
parts of the other system that fail."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.oar import OARCluster
from tests.batch.systems.system import System
from tests.batch.test_faults import ESCAPE, alive, running, shell
from tests.harness.moments import moment
from tests.live.grid import Grid, until

pytestmark = pytest.mark.lrm

GRACE_S = {"pool": 30.0, "oar": 120.0}


@pytest.fixture(scope="module", params=GRACE_S)
def kind(request: pytest.FixtureRequest) -> str:
    """The fixture of the system beside Slurm."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def systems(
    request: pytest.FixtureRequest, slurm: dict[str, System], kind: str
) -> dict[str, System]:
    """alpha, and kappa or omega."""
    return {"alpha": slurm["alpha"], **request.getfixturevalue(kind)}


@pytest.fixture(scope="module")
def other(systems: dict[str, System]) -> str:
    """The site that has no Slurm."""
    return list(systems)[-1]


@pytest.fixture(scope="module")
def grid(
    tmp_path_factory: pytest.TempPathFactory, systems: dict[str, System], kind: str
) -> Iterator[Grid]:
    """Daemon and agents in front of them."""
    with grid_over(tmp_path_factory.mktemp(kind), systems, grace_s=GRACE_S[kind]) as grid:
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


@pytest.mark.parametrize("way", ["end", "cancel", "foreign", "starter"])
async def test_nothing_outlives_its_batch_job(
    grid: Grid,
    client: AsyncClient,
    systems: dict[str, System],
    other: str,
    tmp_path: Path,
    way: str,
) -> None:
    """A process that has left session and parent dies with the claim, whoever ends it. OAR sends
    KILL at once."""
    ear, end, starters = tmp_path / "ear", tmp_path / "end", tmp_path / "starters"
    program = ESCAPE.format(ear=ear) + f"; echo $PPID >> {starters}"
    program += f"; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, other))
    await until(lambda: len(alive(ear)) == 1)
    match way:
        case "end":
            end.touch()
            assert await client.wait(name) == "Finished", await client.show(name)
        case "cancel":
            await client.cancel([name])
            assert await client.wait(name) == "Cancelled"
        case _:
            if way == "foreign":
                systems[other].cancel(*systems[other].numbers("koala-"))
            else:
                os.kill(alive(starters)[0], signal.SIGKILL)
            await grid.phase(client, name, "Stopping", "Placing", "Claiming", "Starting")
            await client.cancel([name])
            assert await client.wait(name) == "Cancelled"
    await until(lambda: not alive(ear))


async def test_a_schedd_or_database_that_is_killed_loses_no_job_and_starts_none_twice(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str, tmp_path: Path
) -> None:
    restart = systems[other].restart_controller
    await outlive(grid, client, systems, other, tmp_path, restart)


@pytest.mark.parametrize("kind", ["oar"], indirect=True)
async def test_a_server_that_is_killed_loses_no_job_and_starts_none_twice(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str, tmp_path: Path
) -> None:
    """OAR's server and its database are two processes."""
    system = systems[other]
    assert isinstance(system, OARCluster)
    await outlive(grid, client, systems, other, tmp_path, system.restart_server)


async def outlive(
    grid: Grid,
    client: AsyncClient,
    systems: dict[str, System],
    other: str,
    folder: Path,
    restart: Callable[[], None],
) -> None:
    """Check that a job over both ends well, although a part of a system was killed meanwhile."""
    end, ran = folder / "end", folder / "ran"
    system = systems[other]
    program = f"echo ran >> {ran}; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, *systems))
    number, attempts = system.numbers("koala-"), (await client.show(name))["attempts"]
    await until(system.has_saved)
    await asyncio.to_thread(restart)
    assert system.numbers("koala-") == number
    end.touch()
    assert await client.wait(name) == "Finished", await client.show(name)
    assert (await client.show(name))["attempts"] == attempts
    assert ran.read_text() == "ran\n" * 2


async def test_a_part_that_is_away_is_named_in_words(
    client: AsyncClient, systems: dict[str, System], other: str
) -> None:
    """The schedd stands still; the database is not there."""
    with systems[other].controller_away():
        await trouble_of(other, client, lambda text: "gives no answer" in text)
    await trouble_of(other, client, lambda text: not text)


async def trouble_of(site: str, client: AsyncClient, is_right: Callable[[str], bool]) -> None:
    """Wait until `koala sites` says this."""
    async with asyncio.timeout(90):
        while True:
            (row,) = [row for row in await client.sites() if row["site"] == site]
            if is_right(row["trouble"] or ""):
                return
            await moment(0.2)
