"""Flexible jobs over a Slurm cluster and a Grid Engine cell: programs learn their share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.batch.test_runners import EXAMPLES, finished, mpi_program
from tests.live.grid import Grid

__all__ = ["mpi_program"]

pytestmark = pytest.mark.lrm


@pytest.fixture(scope="module")
def live(
    tmp_path_factory: pytest.TempPathFactory, slurm: dict[str, System], wide_cell: dict[str, System]
) -> Iterator[Grid]:
    """Daemon and agents in front of alpha with 16 processors, and delta with 8."""
    systems = {"alpha": slurm["alpha"], **wide_cell}
    with grid_over(tmp_path_factory.mktemp("flexible"), systems) as grid:
        yield grid


def flexible(total: int, program: str, more: str = "") -> str:
    return (
        f'&(executable=/bin/sh)(arguments=-c "{program}")(totalCount={total})(maxWallTime=5){more}'
    )


async def test_processes_learn_their_share_and_where_it_begins(live: Grid, tmp_path: Path) -> None:
    """The emptier site is filled, and a rest of 3 would be too small: 15 of 16, and 4 of 8."""
    said = "$KOALA_SITE $KOALA_COUNT $KOALA_OFFSET $KOALA_TOTAL $WORLD_SIZE"
    program = f"echo {said} > {tmp_path}/rank.$RANK"
    await finished(live, flexible(19, program, "(minCount=4)"))
    told = [(tmp_path / f"rank.{rank}").read_text().split() for rank in range(19)]
    assert told == [["alpha", "15", "0", "19", "19"]] * 15 + [["delta", "4", "15", "19", "19"]] * 4


async def test_one_mpi_world_of_a_total(live: Grid, mpi_program: Path, tmp_path: Path) -> None:
    program = f"exec {mpi_program} > {tmp_path}/out.$RANK"
    await finished(live, flexible(20, program, "(jobType=mpi)"))
    for rank in range(20):
        said = (tmp_path / f"out.{rank}").read_text()
        assert re.fullmatch(rf"rank {rank} of 20 on \S+: the sum is {19 * 20 // 2}\n", said), said


async def test_one_ring_of_a_total(live: Grid, tmp_path: Path) -> None:
    """The example meets at MASTER_ADDR, as torch does, in three components at two sites."""
    program = f"exec {sys.executable} {EXAMPLES}/allreduce/allreduce.py > {tmp_path}/out.$RANK"
    await finished(live, flexible(18, program, "(maxCount=8)"))
    told = [(tmp_path / f"out.{rank}").read_text() for rank in range(18)]
    assert "18" in told[0], told
