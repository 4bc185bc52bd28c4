"""Flexible jobs over two Slurm clusters and a Grid Engine cell: programs learn their share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.batch.test_runners import EXAMPLES, mpi_program
from tests.live.grid import Grid
from tests.tidy.sources import ROOT

__all__ = ["mpi_program"]

pytestmark = pytest.mark.lrm

TORCH = ROOT / "build" / "frameworks" / "torch" / "bin" / "python"
SAYS = {
    "mpi/mpi.rsl": r"rank 25 of {total} on \S+: the sum is {sum}",
    "allreduce/allreduce.rsl": r"rank 25 of {total}, process \d of \d on node \d of \d",
    "frameworks/torchrun.rsl": r"(?s){total} processes at .*the same weights everywhere: yes",
}
"""Patterns of what the programs write at their ends."""


@pytest.fixture(scope="module")
def live(
    tmp_path_factory: pytest.TempPathFactory, slurm: dict[str, System], wide_cell: dict[str, System]
) -> Iterator[Grid]:
    """Daemon and agents in front of alpha with 16 processors, beta with 32, and delta with 8."""
    with grid_over(tmp_path_factory.mktemp("flexible"), {**slurm, **wide_cell}) as grid:
        yield grid


def flexible(total: int, program: str, more: str = "") -> str:
    return (
        f'&(executable=/bin/sh)(arguments=-c "{program}")(totalCount={total})(maxWallTime=5){more}'
    )


async def said_by(grid: Grid, text: str, definitions: Mapping[str, str] | None = None) -> str:
    """Run a job to its good end; return what its programs said."""
    async with grid.client() as client:
        await grid.ready(client)
        job = await client.submit(text, definitions=definitions)
        phase = await job.wait()
        said = "".join([part.text async for part in job.logs()])
        assert phase == "Finished", said
        await grid.at_rest(client)
        return said


async def test_processes_learn_their_share_and_where_it_begins(live: Grid, tmp_path: Path) -> None:
    """The emptier sites are filled, and a rest of 3 would be too small."""
    said = "$KOALA_SITE $KOALA_COUNT $KOALA_OFFSET $KOALA_TOTAL $WORLD_SIZE"
    program = f"echo {said} > {tmp_path}/rank.$RANK"
    await said_by(live, flexible(51, program, "(minCount=4)"))
    told = [(tmp_path / f"rank.{rank}").read_text().split() for rank in range(51)]
    shares = [("beta", 32, 0), ("alpha", 15, 32), ("delta", 4, 47)]
    assert told == [[s, str(n), str(at), "51", "51"] for s, n, at in shares for _ in range(n)]


@pytest.mark.parametrize(
    ("name", "total", "most"),
    [
        ("mpi/mpi.rsl", 26, 10),
        ("allreduce/allreduce.rsl", 26, 10),
        pytest.param("frameworks/torchrun.rsl", 15, 5, marks=pytest.mark.frameworks),
    ],
)
async def test_an_example_over_two_clusters_and_a_cell(
    name: str, total: int, most: int, live: Grid, request: pytest.FixtureRequest
) -> None:
    """Each site has one component of it; that of the cell has several machines."""
    python = TORCH if name.endswith("torchrun.rsl") else Path(sys.executable)
    program = request.getfixturevalue("mpi_program") if name.startswith("mpi/") else ""
    given = {"TOTAL": total, "MOST": most, "PYTHON": python, "PROGRAM": program}
    definitions = {key: str(value) for key, value in given.items()}
    definitions["HERE"] = str((EXAMPLES / name).parent)
    said = await said_by(live, (EXAMPLES / name).read_text(encoding="utf-8"), definitions)
    assert re.search(SAYS[name].format(total=total, sum=total * (total - 1) // 2), said), said


async def test_processes_of_a_total_meet_by_the_key_value_exchange(live: Grid) -> None:
    """The example's strips have 9, 8 and 4 processes: `rendezvous.py` finds the neighbours."""
    program = f"exec {sys.executable} {EXAMPLES}/poisson/poisson.py --grid 48"
    said = await said_by(live, flexible(21, program, "(maxCount=9)(distinct=yes)"))
    assert len(re.findall(r"rank \d+ .* neighbours", said)) == 21, said
