"""Run the demo: submit the stream of jobs, show their progress, summarize."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koala.cli.output import say
from koala.cli.render.table import clean
from koala.local.demo_scenario import PROCESSES_MAX, PlannedJob
from koala.local.grid_session import InterruptedRunError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.jobs import JobDetails, Notice

LIMIT_S = 300.0
"""Time limit of the demo; jobs that are not over then count as not finished."""
POLL_S = 0.25


class PhaseLines:
    """A line on standard error for each change of a job's phase; `names` are those of jobs."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._phases: dict[str, str] = {}

    def add(self, notice: Notice) -> None:
        """Print the notice if its job has a new phase, or if it is about a site."""
        job = notice.job
        if job and self._phases.get(job) == notice.phase:
            return
        self._phases[job] = notice.phase
        subject = f"{job} {self._names.get(job, '')}".strip() or notice.site
        say(f"{subject:<20} {notice.phase:<9} {clean(notice.text)}".rstrip())


class DemoRun:
    """Submits the stream of jobs, shows their progress (`is_live`: as `koala top`), and returns
    them, by the names of the examples."""

    def __init__(self, planned: list[PlannedJob], *, is_live: bool) -> None:
        self._planned = planned
        self._is_live = is_live
        self._names: dict[str, str] = {}

    async def run(self, client: AsyncClient) -> list[JobDetails]:
        """Run the demo on a running grid until all jobs are over, or to the time limit."""
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(self._show(client))
            try:
                async with asyncio.timeout(LIMIT_S):
                    await self._submit(client)
                    await self._wait_for_room(client, processes=0)
            except TimeoutError:
                say(f"koala demo: not all jobs are over after {LIMIT_S:.0f} s")
            showing.cancel()
        found = [(await client.show(job), name) for job, name in self._names.items()]
        return [replace(job, name=name) for job, name in found]

    async def _submit(self, client: AsyncClient) -> None:
        for job in self._planned:
            await asyncio.sleep(job.gap_s)
            await self._wait_for_room(client, processes=max(0, PROCESSES_MAX - job.processes))
            submitted = await client.submit(job.text)
            self._names[submitted.job] = job.name

    async def _wait_for_room(self, client: AsyncClient, *, processes: int) -> None:
        """Wait until the jobs that are not over have at most `processes` processes."""
        sizes = dict(zip(self._names, (job.processes for job in self._planned), strict=False))
        while True:
            alive = [job.job for job in await client.list_jobs() if not job.is_over]
            if sum(sizes.get(job, 0) for job in alive) <= processes:
                return
            await asyncio.sleep(POLL_S)

    async def _show(self, client: AsyncClient) -> None:
        if self._is_live:
            from koala.cli.top.viewer import run

            await run(client)
            raise InterruptedRunError("the screen was left; everything was stopped")
        lines = PhaseLines(self._names)
        async for notice in client.watch(after=0):
            lines.add(notice)
