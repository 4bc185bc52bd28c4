"""The daemon's wall clock is set while programs run, and the daemon starts again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.live.failures.test_faults import running_job
from tests.live.grid import live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

HOURS_S = 7 * 3600.0
SLACK_S = 60.0
"""Far below what the clock is set by."""


def its_clock(ahead_s: float, *, is_rebooted: bool) -> str:
    """Python of a process whose wall clock was set, perhaps on a machine that was started again."""
    lines = [f"import time; wall = time.time; time.time = lambda: wall() + {ahead_s}"]
    if is_rebooted:
        lines.append(
            "import koala.common.runtime.clock as clock; clock.boot_id = lambda: 'another'"
        )
    return "; ".join(lines)


@pytest.mark.parametrize("is_rebooted", [False, True])
@pytest.mark.parametrize("set_by_s", [HOURS_S, -HOURS_S])
async def test_a_program_is_charged_for_the_time_that_it_ran(
    tmp_path: Path,
    set_by_s: float,
    is_rebooted: bool,
) -> None:
    with live_grid(tmp_path, sites={"delft": 4, "leiden": 4}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            since = time.monotonic()
            job = await running_job(grid, client, "delft", "leiden")
            grid.kill("daemon")
            grid.releases["daemon"] = its_clock(set_by_s, is_rebooted=is_rebooted)
            grid.start("daemon")
            await grid.ready(client)
            grid.evidence.open_gate("open")
            assert await client.wait(job) == "Finished"
            lasted_s = time.monotonic() - since
            shown = await client.show(job)
            assert len(shown["charges"]) == 2
            for charge in shown["charges"]:
                begun = [line.at for line in grid.evidence.lines(job) if line.word == "start"]
                component = int(charge["claim"].split("/")[2])
                ran_s = grid.evidence.over_at(job, 1, component) - max(begun)
                assert ran_s - 1.0 < charge["run_s"] / charge["processors"] < lasted_s + SLACK_S
            assert shown["attempts"] == 1
            await grid.at_rest(client)
