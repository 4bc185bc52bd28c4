"""Starters that are stopped (SIGSTOP) after they armed: no other part runs on alone.

T lies seconds after the Arms here, so that a starter can be stopped in between. The lease after the
barrier is longer than a test may last.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.harness.moments import until
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

BARRIER = {**CALM, "lead_min_s": 3.0, "lead_max_s": 3.0, "run_lease_s": 600.0}
SITES = {"delft": 2, "leiden": 2}


@asynccontextmanager
async def armed(folder: Path, *, late_max_s: float) -> AsyncIterator[tuple[Grid, AsyncClient, str]]:
    """A grid, and a job at both sites that was released: T is about three seconds ahead."""
    limits = {**BARRIER, "late_max_s": late_max_s}
    with live_grid(folder, sites=SITES, parameters=limits) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            part = grid.evidence.component
            parts = [part(site=site, count=2, gate="open", seconds=600) for site in SITES]
            job = (await client.submit(grid.evidence.job(*parts))).job
            await grid.phase(client, job, "Releasing")
            yield grid, client, job


def starter_of(grid: Grid, claim: str) -> int:
    """Return the process of a claim's starter."""
    (pid,) = grid.starters(claim)
    return pid


def began(grid: Grid, job: str, *, attempt: int, component: int) -> bool:
    """Return True when a process of that component has begun in that attempt."""
    lines = [line for line in grid.evidence.lines(job) if line.word == "start"]
    return any((line.attempt, line.component) == (attempt, component) for line in lines)


async def test_a_starter_that_is_stopped_after_it_armed_ends_its_attempt(tmp_path: Path) -> None:
    async with armed(tmp_path, late_max_s=2.0) as (grid, client, job):
        os.kill(starter_of(grid, f"{job}/1/1/"), signal.SIGSTOP)
        await until(lambda: began(grid, job, attempt=1, component=0))
        # It stays stopped: its agent ends it by KILL, and only then the next attempt begins.
        await until(lambda: began(grid, job, attempt=2, component=1))
        assert not grid.processes(f"{job}/1/")
        grid.evidence.open_gate("open")
        assert await client.wait(job) == "Finished"
        assert grid.evidence.finished(job, processes=4) == 2
        shown = await client.show(job)
        assert "partial start: leiden at leiden" in str(shown.document), shown
        frozen = next(one for one in shown["charges"] if one["claim"].startswith(f"{job}/1/1/"))
        assert frozen["passed_at"] is None
        assert frozen["wasted_s"] >= frozen["processors"] * 3.0, frozen
        await grid.at_rest(client)


async def test_a_starter_that_goes_on_after_its_attempt_was_given_up_never_passes(
    tmp_path: Path,
) -> None:
    async with armed(tmp_path, late_max_s=1.0) as (grid, client, job):
        starter = starter_of(grid, f"{job}/1/1/")
        os.kill(starter, signal.SIGSTOP)
        await grid.phase(client, job, "Stopping")
        os.kill(starter, signal.SIGCONT)
        await until(lambda: began(grid, job, attempt=2, component=1))
        assert not began(grid, job, attempt=1, component=1)
        grid.evidence.open_gate("open")
        assert await client.wait(job) == "Finished"
        assert grid.evidence.finished(job, processes=4) == 2
        await grid.at_rest(client)
