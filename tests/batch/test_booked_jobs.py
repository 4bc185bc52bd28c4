"""Jobs that wait in the queue of a busy Slurm cluster, and are booked at a Grid Engine cell or an
OAR cluster for the instant at which they come up there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over, ours
from tests.batch.systems.jobs import check_one_start, ended_well
from tests.batch.systems.system import System
from tests.harness.moments import moment, until
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

BUSY = "alpha"
BOOKS = {"cell": "qrsub", "oar": "oar"}
PACE = {"ticket_plan_s": 2.0}
TEST_S = 600.0


@pytest.fixture(scope="module", params=BOOKS)
def kind(request: pytest.FixtureRequest) -> str:
    """The fixture of the system that books."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def systems(
    request: pytest.FixtureRequest, slurm: dict[str, System], kind: str
) -> Iterator[dict[str, System]]:
    """alpha, and gamma, whose list of those who may book has our account, or omega."""
    systems = {BUSY: slurm[BUSY], **request.getfixturevalue(kind)}
    if kind == "cell":
        systems["gamma"].run("qconf", "-au", "root", "arusers")
    yield systems
    if kind == "cell":
        systems["gamma"].run("qconf", "-du", "root", "arusers")


@pytest.fixture(scope="module")
def other(systems: dict[str, System]) -> str:
    """The site that books."""
    return list(systems)[-1]


@pytest.fixture(scope="module")
def grid(
    tmp_path_factory: pytest.TempPathFactory, systems: dict[str, System], kind: str
) -> Iterator[Grid]:
    """Daemon and agents in front of them."""
    folder = tmp_path_factory.mktemp(kind)
    with grid_over(folder, systems, limits=PACE, unbooked=(BUSY,)) as grid:
        yield grid


async def nothing_left(systems: dict[str, System]) -> None:
    """Wait until no job and no booking of ours is left."""
    await until(lambda: not any(map(ours, systems.values())))


async def booked(
    grid: Grid,
    client: AsyncClient,
    systems: dict[str, System],
    other: str,
    kind: str,
    *,
    others_s: int = 25,
) -> str:
    """Submit a job with a part at each; return its name once the second part is booked. Jobs of
    others are at the first: two that run, and one that waits; each ends before its limit."""
    busy = systems[BUSY]
    busy.clear()  # of the others of an earlier test
    script = f"#!/bin/sh\n#SBATCH --time=1\nexec sleep {others_s}\n"
    for _ in range(3):
        busy.submit(script, processors=busy.processors // 2, name="others")
    await grid.crowded(client, BUSY)
    async with asyncio.timeout(grid.patience_s):
        while BOOKS[kind] not in [site.books for site in await client.sites()]:
            await moment()
    parts = [
        f"(&(executable=/bin/true)(count=12)(jobType=single)(maxWallTime=2)(site={site}))"
        for site in systems
    ]
    name = (await client.submit("+" + "".join(parts))).job
    async with asyncio.timeout(grid.patience_s):
        while not systems[other].bookings("koala-"):
            await moment()
            if f"booked at {other} as" in "\n".join((await client.why(name)).why):
                break
    return name


async def test_a_booked_part_and_one_from_a_queue_start_together(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str, kind: str
) -> None:
    """The start may take two minutes, as long as what runs and waits at alpha."""
    name = await booked(grid, client, systems, other, kind)
    await client.wait(name, timeout=300.0)
    shown = await ended_well(client, name)
    check_one_start(shown)
    story = "\n".join([text for _, text in shown["story"]])
    in_s = re.findall(rf"books {other}, to begin in ([0-9]+) s", story)
    assert int(in_s[0]) > 60
    await nothing_left(systems)


async def test_a_booking_outlives_its_agent_and_moves_once_the_other_part_comes_up_sooner(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str, kind: str
) -> None:
    name = await booked(grid, client, systems, other, kind, others_s=55)  # else it moves by itself
    grid.kill(other)
    before = systems[other].bookings("koala-")
    grid.start(other)
    await grid.ready(client)
    async with asyncio.timeout(grid.patience_s):
        while f"booked at {other} as" not in "\n".join((await client.why(name)).why):
            await moment()
    assert systems[other].bookings("koala-") == before
    systems[BUSY].cancel(*systems[BUSY].numbers("others"))
    await client.wait(name, timeout=240.0)
    check_one_start(await ended_well(client, name))
    await nothing_left(systems)


async def test_nothing_is_left_of_a_job_that_is_cancelled_before_its_booking_begins(
    grid: Grid, client: AsyncClient, systems: dict[str, System], other: str, kind: str
) -> None:
    """The last test of a grid: the queue is asked for its outlook twice a minute, and the next job
    would come too soon."""
    name = await booked(grid, client, systems, other, kind)
    await client.cancel([name])
    assert await client.wait(name) == "Cancelled"
    await nothing_left(systems)
