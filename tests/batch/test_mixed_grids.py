"""Jobs over a Slurm cluster and an HTCondor pool or an OAR cluster: one start, no survivors, and
parts of the other system that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import (
    check_one_start,
    ended_well,
    finished,
    job,
    running,
)
from tests.batch.systems.oar import OARCluster
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.live.grid import Grid

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
