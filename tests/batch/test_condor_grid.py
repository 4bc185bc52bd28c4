"""Jobs over an HTCondor pool and a Slurm cluster: one start, no survivors, a schedd that fails."""

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
from tests.batch.systems.system import System
from tests.batch.test_faults import ESCAPE, alive, running, shell
from tests.harness.moments import moment
from tests.live.grid import Grid, until

pytestmark = pytest.mark.lrm


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System], pool: dict[str, System]) -> dict[str, System]:
    """alpha and kappa."""
    return {"alpha": slurm["alpha"], **pool}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, systems: dict[str, System]) -> Iterator[Grid]:
    """Daemon and agents in front of them."""
    with grid_over(tmp_path_factory.mktemp("condor"), systems) as grid:
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
    grid: Grid, client: AsyncClient, systems: dict[str, System], tmp_path: Path, way: str
) -> None:
    """A process that has left session and parent dies with the claim, whoever ends it."""
    ear, end, starters = tmp_path / "ear", tmp_path / "end", tmp_path / "starters"
    program = ESCAPE.format(ear=ear) + f"; echo $PPID >> {starters}"
    program += f"; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, "kappa"))
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
                systems["kappa"].cancel(*systems["kappa"].numbers("koala-"))
            else:
                os.kill(alive(starters)[0], signal.SIGKILL)
            await grid.phase(client, name, "Stopping", "Placing", "Claiming", "Starting")
            await client.cancel([name])
            assert await client.wait(name) == "Cancelled"
    await until(lambda: not alive(ear))


async def test_a_schedd_that_is_killed_loses_no_job_and_starts_none_twice(
    grid: Grid, client: AsyncClient, systems: dict[str, System], tmp_path: Path
) -> None:
    """One job runs meanwhile, another waits in the queue of the pool."""
    end, ran = tmp_path / "end", tmp_path / "ran"
    pool = systems["kappa"]
    program = f"echo ran >> {ran}; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, shell(program, *systems))
    number = pool.numbers("koala-")
    await until(pool.has_saved)
    await asyncio.to_thread(pool.restart_controller)
    assert pool.numbers("koala-") == number
    end.touch()
    assert await client.wait(name) == "Finished", await client.show(name)
    assert (await client.show(name))["attempts"] == 1
    assert ran.read_text() == "ran\n" * 2


async def test_a_schedd_that_stands_still_is_named_in_words(
    client: AsyncClient, systems: dict[str, System]
) -> None:
    with systems["kappa"].controller_away():
        await trouble_of("kappa", client, lambda text: "gives no answer" in text)
    await trouble_of("kappa", client, lambda text: not text)


async def trouble_of(site: str, client: AsyncClient, is_right: Callable[[str], bool]) -> None:
    """Waits until `koala sites` says this."""
    async with asyncio.timeout(90):
        while True:
            (row,) = [row for row in await client.sites() if row["site"] == site]
            if is_right(row["trouble"] or ""):
                return
            await moment(0.2)
