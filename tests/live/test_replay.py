"""The journal of a live grid, replayed while its daemon writes it, after it was killed, and after
it ended in order: the same story, the same state, and nothing left behind.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from tests.cli.command import koala_here
from tests.live.grid import Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow]

TWO = {"delft": 4, "leiden": 4}
SLEEP = "(executable=/bin/sleep)(arguments=0.3)(count=2)"
JOB = f"+(&{SLEEP}(resourceManagerContact=delft))(&{SLEEP}(resourceManagerContact=leiden))"
"""Two have room at once. Free to move, the third would go where a millisecond decides."""


def replayed(grid: Grid, *words: str) -> dict[str, Any]:
    """Return the output of `koala replay` for the daemon's state directory."""
    run = koala_here("replay", str(grid.state / "daemon"), "--json", *words)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


async def shown(
    client: AsyncClient, jobs: list[str]
) -> dict[str, tuple[str, list[str | None], float]]:
    """Phase, sites and instant of the start of each job, as the daemon tells them."""
    pictures = [await client.show(job) for job in jobs]
    return {p["job"]: (p["phase"], p["sites"], p["timeline"]["started_at"]) for p in pictures}


def told(document: dict[str, Any]) -> dict[str, tuple[str, list[str | None], float]]:
    """The same as the journal tells it."""
    return {job["job"]: (job["phase"], job["sites"], job["started_at"]) for job in document["jobs"]}


async def test_a_live_journal_is_replayed_beside_the_daemon_after_a_kill_and_after_its_end(
    tmp_path: Path,
) -> None:
    with live_grid(tmp_path, sites=TWO) as grid:
        async with grid.client() as client, asyncio.timeout(150):
            await grid.ready(client)
            jobs = [(await client.submit(JOB)).job for _ in range(3)]
            for job in jobs:
                await client.wait(job)
            await grid.at_rest(client)
            expected = await shown(client, jobs)
            beside = replayed(grid)
            assert told(beside) == expected
            run_s = (
                max(job["ended_at"] for job in beside["jobs"]) - beside["jobs"][0]["submitted_at"]
            )
            compare(replayed(grid, "--with", "placement=WF"), late_s=run_s)
        grid.kill("daemon")
        killed = replayed(grid, "--summary")
        assert told(killed) == expected
        assert killed["events"] >= beside["events"]
    before = sorted(path.name for path in (grid.state / "daemon").iterdir())
    assert told(replayed(grid)) == expected
    assert sorted(path.name for path in (grid.state / "daemon").iterdir()) == before


def compare(document: dict[str, Any], *, late_s: float) -> None:
    """A live run is told again by the simulation: same sites, starts within the run, however busy
    the machine was then."""
    found = document["fidelity"]
    assert (found["same_sites"], found["same_phase"]) == (3, 3)
    assert found["start_off_s"]["max"] < late_s, document["jobs"]
    assert document["policies"]["are_recorded"]
    assert (
        document["policies"]["recorded"].items() >= {"placement": "CF", "claiming": "ICP"}.items()
    )
