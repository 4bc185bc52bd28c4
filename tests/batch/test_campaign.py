"""The short form of `make chaos-lrm`: jobs in a row, kills, and controllers that stand still."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.batch.campaign import KEEP_S, Plan, campaign
from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.live.grid import CALM

pytestmark = pytest.mark.lrm


async def test_jobs_in_a_row_are_neither_lost_nor_alive_twice_and_leave_nothing(
    tmp_path: Path, slurm: dict[str, System], cell: dict[str, System], pool: dict[str, System]
) -> None:
    systems = {**slurm, **cell, **pool}
    with grid_over(tmp_path, systems, keep_s=KEEP_S) as grid:
        plan = Plan(jobs=20, calm=8, kills=6, away_s=12.0, seed=1)
        course = await campaign(grid, systems, plan)
    assert len(course.processes) == plan.jobs
    # How small it is on a calm machine is what `make chaos-lrm` prints.
    assert max(course.calm_skews) < CALM["late_max_s"], course.calm_skews
