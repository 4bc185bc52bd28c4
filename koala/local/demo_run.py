"""Run the demo: submit the stream of jobs, show their progress, summarize."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koala.cli.output import say
from koala.local.demo_scenario import PROCESSES_MAX, PlannedJob
from koala.local.demo_summary import summary_rows
from koala.local.live_view import LiveView, PlainView

if TYPE_CHECKING:
    from koala.client import AsyncClient

LIMIT_S = 300.0
"""Time limit of the demo; jobs that are not over then count as not finished."""
POLL_S = 0.25


class DemoRun:
    """Submits the stream of jobs, shows their progress, and returns the summary's rows."""

    def __init__(self, planned: list[PlannedJob], *, is_live: bool) -> None:
        self._planned = planned
        self._is_live = is_live
        self._names: dict[str, str] = {}

    async def run(self, client: AsyncClient) -> list[dict[str, Any]]:
        """Run the demo on a running grid until all jobs are over, or to the time limit."""
        view = LiveView(client.address) if self._is_live else PlainView(self._names)
        with view:
            async with asyncio.TaskGroup() as group:
                events = group.create_task(self._show_events(client, view))
                poll = group.create_task(self._poll(client, view))
                try:
                    async with asyncio.timeout(LIMIT_S):
                        await self._submit(client)
                        await self._wait_for_room(client, processes=0)
                except TimeoutError:
                    say(f"koala demo: not all jobs are over after {LIMIT_S:.0f} s")
                events.cancel()
                poll.cancel()
            await self._update(client, view)
        return summary_rows(self._names, [await client.show(job) for job in self._names])

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

    async def _poll(self, client: AsyncClient, view: LiveView | PlainView) -> None:
        while True:
            await self._update(client, view)
            await asyncio.sleep(POLL_S)

    async def _update(self, client: AsyncClient, view: LiveView | PlainView) -> None:
        view.update(await client.list_jobs(), await client.sites())

    async def _show_events(self, client: AsyncClient, view: LiveView | PlainView) -> None:
        async for notice in client.watch(after=0):
            view.add_event(notice)
