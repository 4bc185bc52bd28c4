"""A malleable job on a grid of real processes grows and shrinks while agents and daemon are killed.

Its program looks at its world, and ends when it is asked to give way or a gate opens. Each claim
leaves a line with the time at the start and at the end of its program, so what ran is known beside
the account. No limit is of how busy the machine is: a test fails when nothing moves for long.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.client.records import JobDetails
from koala.errors import KoalaError, UnreachableError
from tests.harness.moments import moment
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

PROGRAM = """
import json, os, select, sys, time
folder = sys.argv[1]
def say(word):
    with open(f"{folder}/lines", "a") as lines:
        lines.write(f"{word} {os.environ['KOALA_CLAIM']} {time.time()}\\n")
say("start")
while not os.path.exists(f"{folder}/gate"):
    with open(os.environ["KOALA_WORLD"]) as world:
        if json.load(world)["leave_by"] is not None:
            break
    select.select([], [], [], 0.05)
say("end")
"""
STALL_S = 600.0
LEASES = ("hold_s", "hold_lease_s", "run_lease_s", "give_way_s")
PARAMETERS = {**CALM, "resize_step_s": 0.1, "late_max_s": 60, **dict.fromkeys(LEASES, STALL_S)}
RESIZES = int(os.environ.get("KOALA_RESIZES", "5"))
TEST_S = STALL_S * (RESIZES + 1)
CLOCK_S = 1.0
"""Most by which clocks differ that processes measure for themselves."""
KILLS = ((), ("leiden",), ("daemon",), ("vu",), ("daemon", "leiden", "vu"))
"""What is killed right after a resize was asked for, in turn."""


class Malleable:
    """A malleable job of up to three components, and what its programs wrote."""

    def __init__(self, grid: Grid, client: AsyncClient) -> None:
        self.grid, self.client, self.job = grid, client, ""
        grid.patience_s = STALL_S
        self.folder = grid.folder / "malleable"
        self.folder.mkdir()
        (self.folder / "program.py").write_text(PROGRAM)

    async def submit(self) -> None:
        words = ("-I", "-S", str(self.folder / "program.py"), str(self.folder))
        arguments = " ".join(f'"{word}"' for word in words)
        sizes = "(totalCount=12)(minTotalCount=4)(maxCount=4)(malleable=yes)(jobType=single)"
        text = f'&(executable="{sys.executable}")(arguments={arguments}){sizes}'
        self.job = (await self.client.submit(text)).job
        await self.grid.phase(self.client, self.job, "Running")

    async def resize(self, total: int) -> None:
        """Ask for a size, also while the daemon comes back."""
        while True:
            with suppress(UnreachableError):
                await self.client.resize(self.job, total)
                return
            await moment()

    async def has(self, processors: int) -> JobDetails:
        """Wait until the job has so many processors, and nobody joins or leaves."""
        async with asyncio.timeout(self.grid.patience_s):
            while True:
                with suppress(UnreachableError):
                    shown = await self.client.show(self.job)
                    size = shown.size
                    assert size is not None, shown
                    if size.processors == processors and not (size.joining or size.leaving):
                        return shown
                await moment()

    def said(self, word: str) -> dict[str, float]:
        """Return when the program of each claim wrote a word."""
        lines = [line.split() for line in (self.folder / "lines").read_text().splitlines()]
        said = [(claim, float(at)) for spoken, claim, at in lines if spoken == word]
        assert len(dict(said)) == len(said), f"a program ran twice: {said}"
        return dict(said)

    async def check_account(self) -> None:
        """Check that all of each program is charged for, and no processor for two at a time."""
        report = await self.client.report("claim")
        charged = [cost for cost in report.claims if cost.passed_at is not None]
        starts, ends = self.said("start"), self.said("end")
        assert sorted(starts) == sorted(ends) == sorted(cost.claim for cost in charged)
        free_at = dict.fromkeys(self.grid.sites, 0.0)  # each site has room for one of them
        for cost in sorted(charged, key=lambda cost: float(cost.passed_at or 0)):
            assert cost.passed_at is not None
            assert cost.ended_at is not None
            passed_at, ended_at = float(cost.passed_at), float(cost.ended_at)
            assert free_at[cost.site] < passed_at + CLOCK_S, cost
            assert passed_at < starts[cost.claim] + CLOCK_S, cost
            assert ended_at > ends[cost.claim] - CLOCK_S, cost
            assert cost.run_s == pytest.approx(cost.processors * (ended_at - passed_at)), cost
            free_at[cost.site] = ended_at
        timeline = (await self.client.show(self.job)).timeline
        assert sum([cost.run_s for cost in charged]) == pytest.approx(timeline.processor_run_s)


async def test_a_job_grows_and_shrinks_while_agents_and_daemon_are_killed(tmp_path: Path) -> None:
    sites = dict.fromkeys(("delft", "leiden", "vu"), 4)
    with live_grid(tmp_path, sites=sites, parameters=PARAMETERS) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = Malleable(grid, client)
            await job.submit()
            await job.has(12)
            for number in range(RESIZES):
                await job.resize(4 if number % 2 == 0 else 12)
                for name in KILLS[number % len(KILLS)]:
                    grid.kill(name)
                    grid.start(name)
                await grid.ready(client)
                await job.has(4 if number % 2 == 0 else 12)
            (job.folder / "gate").touch()
            phase = await client.wait(job.job, timeout=STALL_S)
            assert phase == "Finished", await client.show(job.job)
            await grid.at_rest(client)
            assert (await client.show(job.job)).attempts == 1
            await job.check_account()


async def test_who_never_gives_way_is_stopped_and_the_job_goes_on(tmp_path: Path) -> None:
    parameters = {**PARAMETERS, "give_way_s": 0.5}
    sites = dict.fromkeys(("delft", "leiden"), 4)
    with live_grid(tmp_path, sites=sites, parameters=parameters) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = Malleable(grid, client)
            (job.folder / "program.py").write_text(PROGRAM.replace("break", "pass"))
            await job.submit()
            await job.resize(4)
            shown = await job.has(4)
            assert "did not give way in time" in str(shown.story)
            with pytest.raises(KoalaError, match=r"3 processors for .* \(expected 4 to "):
                await client.resize(job.job, 3)
            await client.cancel(job.job)
            await grid.at_rest(client)
