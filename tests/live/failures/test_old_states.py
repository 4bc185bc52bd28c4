"""A whole grid goes on where an earlier release ended: daemon and agents as processes on recorded
state (`tests/states/record.py`). Whatever was accepted then comes to its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koala.client import TERMINAL_PHASES, AsyncClient
from tests.live.grid import Grid, started
from tests.states.recorded import RECORDED, SITES, unpack

pytestmark = [pytest.mark.live, pytest.mark.slow]

ANYONE = '[accounts]\nmode = "anyone"\n'
"""Whoever recorded the jobs is not who runs the test."""
DEFAULT = "727e3e3-kill"
"""The newest that was killed; an ordered end leaves less to recover. All others run with the long
tests, and `tests/daemon/storage/test_old_states.py` reads every one."""
STATES = [
    name if name == DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in RECORDED
]
SLEEPERS = ("Running", "Stopping", "Claiming", "Starting")


async def ended(grid: Grid, client: AsyncClient, jobs: list[str]) -> None:
    async with asyncio.timeout(grid.patience_s):
        for job in jobs:
            await client.wait(job)


@pytest.mark.parametrize("name", STATES)
async def test_a_grid_goes_on_where_an_earlier_release_ended(name: str, tmp_path: Path) -> None:
    phases = unpack(name, tmp_path)
    over = {job: phase for job, phase in phases.items() if phase in TERMINAL_PHASES}
    grid = Grid(tmp_path, sites=SITES, more=dict.fromkeys(SITES, ANYONE))
    with started(grid):
        async with grid.client() as client:
            # Programs that ended with their agents count as errors, of which three rest a site.
            await grid.ready(client, "delft", "leiden", states=("usable", "unusable"))
            await client.resume("delft")
            await grid.ready(client, "utrecht", states=("drained",))
            for job, phase in over.items():
                assert (await client.show(job))["phase"] == phase
            keyed = max(over, key=lambda job: int(job[1:]))
            assert (await client.show(keyed))["phase"] == "Cancelled"
            # The long ones are there still, and can be cancelled, as can the first of those that
            # wait: its deadline is ten hours after the recording. All others run.
            left = [job for job in phases if job not in over]
            timed = next(job for job in left if phases[job] == "Placing")
            dropped = [job for job in left if phases[job] in SLEEPERS or job == timed]
            before = await client.show(timed)
            is_late = before["phase"] == "Failed"
            assert not is_late or "deadline missed" in before["reason"]
            await client.cancel(dropped)
            await ended(grid, client, left)
            for job in left:
                expected = "Cancelled" if job in dropped else "Finished"
                if job == timed and is_late:
                    expected = "Failed"
                assert (await client.show(job))["phase"] == expected
            after = await client.submit("&(executable=/bin/true)")
            assert int(after.job[1:]) == len(phases) + 1
            assert await client.wait(after.job) == "Finished"
            await grid.at_rest(client)
