"""Jobs over a Slurm cluster and an HTCondor pool or an OAR cluster: one start, no survivors, and
parts of the other system that fail."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over, until_trouble
from tests.batch.systems.jobs import (
    ESCAPE,
    alive,
    check_one_start,
    ended_well,
    finished,
    job,
    running,
)
from tests.batch.systems.oar import OARCluster
from tests.batch.systems.system import System
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


async def test_a_job_over_both_starts_at_one_moment(
    client: AsyncClient, systems: dict[str, System]
) -> None:
    check_one_start(await finished(client, job("exit 0", *systems)))


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
    name = await running(grid, client, job(program, other))
    await until(lambda: len(alive(ear)) == 1)
    match way:
        case "end":
            end.touch()
            await ended_well(client, name)
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
    name = await running(grid, client, job(program, *systems))
    number, attempts = system.numbers("koala-"), (await client.show(name))["attempts"]
    await until(system.has_saved)
    await asyncio.to_thread(restart)
    assert system.numbers("koala-") == number
    end.touch()
    assert (await ended_well(client, name))["attempts"] == attempts
    assert ran.read_text() == "ran\n" * 2


async def test_a_part_that_is_away_is_named_in_words(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str
) -> None:
    """The schedd stands still; the database is not there."""
    with systems[other].controller_away():
        await until_trouble(grid, client, "gives no answer", other)
    await until_trouble(grid, client, "", other)
