"""`python -m tests.bench.pages [--scale SHARE]`: what open pages of `koala web` cost the daemon.

A real daemon with TLS, sites and a long queue, a real `koala web`, and readers that do what a
browser does: they read a page, follow its stream, and read it again when the stream says so.
Processor time is measured, without and with pages, while jobs come and end. Status 1 when a limit
is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter

import httpx
import psutil

from koala.client import AsyncClient
from koala.common.runtime.child_lifetime import ended_in_order
from tests.bench.crowd import pause
from tests.bench.figures import Figure, table
from tests.bench.live import TRUE, a_queued_job
from tests.bench.load import BATCH, MB, Daemon, a_daemon, agents
from tests.live.grid import Grid

PAGES = 200
TOPICS = ("grid", "jobs", "grid", "jobs", "queues")
PATHS = {"grid": "/", "jobs": "/jobs", "queues": "/queues"}
JOBS_A_MINUTE = 50
SHARE_MAX = 0.1
ONE = f"&{TRUE}(count=1)"


@asynccontextmanager
async def web_process(grid: Grid, folder: Path) -> AsyncIterator[tuple[psutil.Process, str]]:
    """A `koala web` of the administrator, and a sign-in link of it."""
    link = folder / "link"
    own = next(grid.state.rglob("administrator.toml"))
    words = ("web", "--listen", "127.0.0.1:0", "--link-file", str(link), "--address", grid.address)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "koala.cli", *words),
        env={**grid.environment(), "KOALA_CREDENTIALS": str(own)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        assert "open http" in line, line + (await process.stderr.read()).decode()
        yield psutil.Process(process.pid), line.split()[-1]
    finally:
        process.terminate()
        await process.wait()


class Readers:
    """Open pages of one user."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.events = 0
        self.open = 0
        self._client = client
        self._changed = asyncio.Event()

    async def read(self, topic: str) -> None:
        """Read a page and follow its stream; read it again when it is told to."""
        await self._get(topic)
        async with self._client.stream("GET", "/events", params={"topic": topic}) as stream:
            assert stream.status_code == 200, stream.status_code
            self.open += 1
            self._changed.set()
            async for line in stream.aiter_lines():
                self.events += line.startswith("event:")
                if line in ("event: fresh", "event: reload"):
                    await self._get(topic)

    async def _get(self, topic: str) -> None:
        """Read a page; as a browser does, again if the server closed an idle connection."""
        try:
            await self._client.get(PATHS[topic])
        except httpx.TransportError:
            await self._client.get(PATHS[topic])

    async def all_open(self, count: int) -> None:
        """Wait until so many streams are open."""
        while self.open < count:
            self._changed.clear()
            await self._changed.wait()


async def submitting(client: AsyncClient, duration_s: float) -> None:
    """Submit jobs that end at once, at an even pace."""
    pause_s = 60.0 / JOBS_A_MINUTE
    until = perf_counter() + duration_s
    while perf_counter() < until:
        await client.submit(ONE)
        await pause(pause_s)


async def open_pages(folder: Path, scale: float, duration_s: float) -> list[Figure]:
    """200 pages of a grid of 1,000 sites and 100,000 jobs."""
    sites, jobs = round(1_000 * scale), round(100_000 * scale)
    limits_text = f"[limits]\njobs_per_user = {2 * jobs + 10_000}\n"
    async with (
        a_daemon(folder, sites, more=limits_text) as (grid, client),
        AsyncExitStack() as stack,
    ):
        daemon = Daemon(grid)
        for first in range(0, jobs, BATCH):
            await client.submit_many([a_queued_job(one) for one in range(first, first + BATCH)])
        await stack.enter_async_context(agents(grid, 0, sites, 1))
        await submitting(client, duration_s / 2)  # until all is warm
        begun_s, begun_at = daemon.cpu_s, perf_counter()
        await submitting(client, duration_s)
        alone = (daemon.cpu_s - begun_s) / (perf_counter() - begun_at)

        process, link = await stack.enter_async_context(web_process(grid, folder))
        limits = httpx.Limits(max_connections=None)
        browser = await stack.enter_async_context(
            httpx.AsyncClient(base_url=link.split("/sign-in")[0], limits=limits, timeout=None)
        )
        assert (await browser.get(link)).status_code == 303
        readers = Readers(browser)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(readers.read(TOPICS[number % len(TOPICS)]))
                for number in range(PAGES)
            ]
            await readers.all_open(PAGES)
            await submitting(client, duration_s / 2)
            begun_s, begun_at = daemon.cpu_s, perf_counter()
            times = process.cpu_times()
            events = readers.events
            await submitting(client, duration_s)
            took_s = perf_counter() - begun_at
            watched = (daemon.cpu_s - begun_s) / took_s
            later = process.cpu_times()
            own = (later.user + later.system - times.user - times.system) / took_s
            memory, events = process.memory_info().rss, readers.events - events
            for task in tasks:
                task.cancel()
        name = f"{PAGES} pages, {sites:,} sites, {jobs:,} jobs"
        how = f"processor time over {took_s:.0f} s with {JOBS_A_MINUTE} more jobs a minute"
        return [
            Figure(name=f"{name}: the daemon without pages", value=alone, unit="of a processor",
                   how=how),
            Figure(name=f"{name}: what the pages add", value=watched - alone,
                   unit="of a processor", limit=SHARE_MAX, how="the same, with all pages open"),
            Figure(name=f"{name}: the web process", value=own, unit="of a processor",
                   how="the same"),
            Figure(name=f"{name}: its memory", value=memory / MB, unit="MB", how="resident"),
            Figure(name=f"{name}: events", value=events / took_s, unit="/s",
                   how="received by all pages together"),
        ]  # fmt: skip


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pages", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, metavar="SHARE", help="of the numbers")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (60)")
    options = parser.parse_args()
    sys.stderr.write(f"pages (load average {os.getloadavg()[0]:.1f})\n")
    with tempfile.TemporaryDirectory(prefix="koala-pages-") as folder:
        figures = asyncio.run(open_pages(Path(folder), options.scale, options.seconds))
    print(table(figures), end="")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    with ended_in_order():
        sys.exit(main())
