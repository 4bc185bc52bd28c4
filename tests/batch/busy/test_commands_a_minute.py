"""Commands of an agent in a minute, as administrators of a cluster see them: counted in front of
them, with the settings that it has by default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import job, running
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.slow]

SITE = "beta"
IDLE, BUSY = 6, 12
"""The most commands that ask in a minute."""
ASKS = ("squeue", "sinfo", "scontrol")
MINUTE_S = 60.0
TEST_S = 600.0


@pytest.fixture
def cluster(slurm: dict[str, System], tmp_path: Path) -> System:
    return slurm[SITE].watched(tmp_path / "shim", *ASKS, "sbatch", "scancel")


@pytest.fixture
def grid(tmp_path: Path, cluster: System) -> Iterator[Grid]:
    with grid_over(tmp_path / "grid", {SITE: cluster}) as grid:
        yield grid


def asks(cluster: System) -> list[float]:
    """Return when it was asked."""
    return [at for at, words in cluster.calls() if words.split()[0] in ASKS]


def most_in_a_minute(times: list[float]) -> int:
    return max(sum(at <= other < at + MINUTE_S for other in times) for at in times)


async def test_no_minute_has_more_asks_than_the_budget(
    grid: Grid, client: AsyncClient, cluster: System
) -> None:
    """At rest; with jobs that run, wait in the queue and are refused."""
    await moment(MINUTE_S)
    start = len(asks(cluster))
    await moment(MINUTE_S)
    assert 2 <= len(asks(cluster)) - start <= IDLE
    names = [await running(grid, client, job("sleep 600", SITE, count=1)) for _ in range(20)]
    await moment(MINUTE_S / 3)
    other = cluster.submit("sleep 600", processors=12)
    waits = (await client.submit(job("sleep 600", SITE, count=4))).job
    await moment(MINUTE_S / 3)
    cluster.refuse(is_refusing=True)
    cluster.cancel(other)
    before = len(cluster.calls())
    refused = (await client.submit(job("true", SITE, count=1))).job
    await moment(MINUTE_S)
    tried = sum(words.startswith("sbatch") for _, words in cluster.calls()[before:])
    assert 1 <= tried <= BUSY
    cluster.refuse(is_refusing=False)
    for name in (*names, waits, refused):
        await client.cancel(name)
    while cluster.numbers("koala-"):
        await moment()
    assert most_in_a_minute(asks(cluster)) <= BUSY


async def test_claims_that_are_held_at_a_barrier_are_no_reason_to_ask_more(
    grid: Grid, client: AsyncClient, cluster: System
) -> None:
    """Six of them, until the deadline of their job."""
    await grid.ready(client)
    text = job("true", *[SITE] * 6, count=1, more='(deadline="+2")')
    name = (await client.submit(text)).job
    await grid.phase(client, name, "Starting", "Releasing")
    held = len(asks(cluster))
    assert len(cluster.numbers("koala-")) == 6
    assert await client.wait(name) == "Finished"
    assert len(asks(cluster)) > held
    assert most_in_a_minute(asks(cluster)) <= BUSY
