"""A pair over two Slurm clusters that are never idle: it waits in both queues, and starts at one
moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import check_one_start, ended_well
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

SITES = ("alpha", "beta")
RUN_S = 3
BACKLOG = 6
"""Jobs of others at each cluster, each of half of it: three rounds of two."""
PACE = {
    "ticket_plan_s": 2.0,
    "ticket_slack_s": 3.0,
    "ticket_hold_min_s": 10.0,
    "ticket_hold_max_s": 20.0,
}
"""Seconds stand for minutes."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, slurm: dict[str, System]) -> Iterator[Grid]:
    """Daemon and agents in front of the two clusters."""
    folder = tmp_path_factory.mktemp("busy")
    with grid_over(folder, slurm, limits=PACE, unbooked=SITES) as grid:
        yield grid


def backlog(system: System, gate: Path) -> None:
    """Fill a cluster with jobs of somebody else, and its queue, until the gate is there."""
    waits = f"while ! test -e {gate}; do sleep 0.2; done"
    script = f"#!/bin/sh\n#SBATCH --time=1\n{waits}\nexec sleep {RUN_S}\n"
    for _ in range(BACKLOG):
        system.submit(script, processors=system.processors // 2, name="others")


def pair(slurm: dict[str, System]) -> str:
    """Return a job of half of each cluster."""
    parts = (
        f"(&(executable=/bin/true)(count={slurm[site].processors // 2})(jobType=single)"
        f"(maxWallTime=1)(resourceManagerContact={site}))"
        for site in SITES
    )
    return "+" + "".join(parts)


async def test_a_pair_comes_out_of_two_queues_at_one_moment(
    grid: Grid, client: AsyncClient, slurm: dict[str, System], tmp_path: Path
) -> None:
    for system in slurm.values():
        backlog(system, tmp_path / "gate")
    for site in SITES:
        await grid.crowded(client, site)
    name = (await client.submit(pair(slurm))).job
    await grid.phase(client, name, "Queued")
    why = ""
    async with asyncio.timeout(grid.patience_s):
        wanted = [
            *(f"{site}: queued at {site} as Slurm job" for site in SITES),
            "queue run forward",
        ]
        while not all(words in why for words in wanted):
            await moment()
            why = "\n".join((await client.why(name)).why)
    assert all(system.numbers("koala-") for system in slurm.values())
    (tmp_path / "gate").touch()
    shown = await ended_well(client, name)
    check_one_start(shown)
    await grid.at_rest(client)
    assert all(system.numbers("koala-") == [] for system in slurm.values())
