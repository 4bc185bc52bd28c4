"""Commands of an agent in a minute, as administrators of a cluster see them: counted in front of
them, with the settings that it has by default."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import job, running
from tests.batch.systems.slurm import SlurmCluster
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.slow]

SITE = "beta"
IDLE, BUSY = 6, 12
"""The most commands that ask in a minute."""
ASKS = ("squeue", "sinfo", "scontrol")
PROGRAMS = (*ASKS, "sbatch", "scancel")
WRAPPER = """#!/bin/sh
echo "$(date +%s.%N) {name}" >> {log}
[ {name} = sbatch ] && [ -e {refuses} ] && {{ echo "sbatch: error: no account" >&2; exit 1; }}
exec {real} "$@"
"""
MINUTE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Watched(SlurmCluster):
    """A cluster in front of which commands are counted; the agent's settings are the default."""

    shim: Path

    def lrm_table(self, mark: str) -> str:
        """See System."""
        name, _, value = mark.partition("=")
        more, variables = self.words_with(name, value)
        path = {"PATH": f"{self.shim}:/usr/bin:/bin"}
        pairs = ", ".join(
            f'{key} = "{text}"' for key, text in {**self.environment, **variables, **path}.items()
        )
        return "\n".join(["[lrm]", 'kind = "slurm"', *more, f"environment = {{ {pairs} }}", ""])

    def calls(self) -> list[tuple[float, str]]:
        """The commands so far, and when they began."""
        rows = (line.split() for line in (self.shim / "log").read_text().splitlines())
        return [(float(at), name) for at, name in rows]

    def asks(self) -> list[float]:
        """When it was asked."""
        return [at for at, name in self.calls() if name in ASKS]


@pytest.fixture
def cluster(slurm: dict[str, System], tmp_path: Path) -> Watched:
    shim = tmp_path / "shim"
    shim.mkdir()
    for name in PROGRAMS:
        text = WRAPPER.format(
            name=name, log=shim / "log", refuses=shim / "refuses", real=shutil.which(name)
        )
        (shim / name).write_text(text)
        (shim / name).chmod(0o755)
    system = slurm[SITE]
    assert isinstance(system, SlurmCluster)
    return Watched(**{**vars(system), "shim": shim})


@pytest.fixture
def grid(tmp_path: Path, cluster: Watched) -> Iterator[Grid]:
    with grid_over(tmp_path / "grid", {SITE: cluster}) as grid:
        yield grid


def most_in_a_minute(times: list[float]) -> int:
    return max(sum(at <= other < at + MINUTE_S for other in times) for at in times)


async def test_no_minute_has_more_asks_than_the_budget(
    grid: Grid, client: AsyncClient, cluster: Watched
) -> None:
    """At rest; with jobs that run, wait in the queue and are refused."""
    await moment(MINUTE_S)
    start = len(cluster.asks())
    await moment(MINUTE_S)
    assert 2 <= len(cluster.asks()) - start <= IDLE
    names = [await running(grid, client, job("sleep 600", SITE, count=1)) for _ in range(20)]
    await moment(MINUTE_S / 3)
    other = cluster.submit("sleep 600", processors=12)
    waits = (await client.submit(job("sleep 600", SITE, count=4))).job
    await moment(MINUTE_S / 3)
    (cluster.shim / "refuses").touch()
    cluster.cancel(other)
    before = len(cluster.calls())
    refused = (await client.submit(job("true", SITE, count=1))).job
    await moment(MINUTE_S)
    tried = [name for _, name in cluster.calls()[before:]].count("sbatch")
    assert 1 <= tried <= BUSY
    (cluster.shim / "refuses").unlink()
    for name in (*names, waits, refused):
        await client.cancel(name)
    while cluster.numbers("koala-"):
        await moment()
    assert most_in_a_minute(cluster.asks()) <= BUSY


async def test_claims_that_are_held_at_a_barrier_are_no_reason_to_ask_more(
    grid: Grid, client: AsyncClient, cluster: Watched
) -> None:
    """Six of them, until the deadline of their job."""
    await grid.ready(client)
    text = job("true", *[SITE] * 6, count=1, more='(deadline="+2")')
    name = (await client.submit(text)).job
    await grid.phase(client, name, "Starting", "Releasing")
    held = len(cluster.asks())
    assert len(cluster.numbers("koala-")) == 6
    assert await client.wait(name) == "Finished"
    assert len(cluster.asks()) > held
    assert most_in_a_minute(cluster.asks()) <= BUSY
