"""A whole grid of real processes, measured through the Python client as a user would."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from koala.client import TERMINAL_PHASES, AsyncClient, AsyncJobHandle, Submission
from tests.bench.figures import Figure, median, percentile
from tests.bench.references import (
    CALLS,
    FILES,
    INTERPRETERS,
    SPAWNS,
    calls_per_s,
    files_per_s,
    spawns_per_s,
)
from tests.live.grid import CALM, Grid, live_grid

DAS = {"vu": 144, "delft": 64, "leiden": 64, "amsterdam": 64, "utrecht": 64}
FOUR = {"delft": 16, "leiden": 16, "utrecht": 16, "amsterdam": 16}
FIVE = {"delft": 16, "leiden": 16, "vu": 16, "utrecht": 16, "amsterdam": 16}
TRUE = "(executable=/bin/true)"
FULL = "(executable=/bin/sleep)(arguments=100000)"
IN_FLIGHT = 32
BATCH = 100
CANCELS = 1_000
LIMIT_S = 900.0
PATIENT: dict[str, Any] = {**CALM, "hold_s": 120.0, "hold_lease_s": 60.0, "run_lease_s": 600.0}


@asynccontextmanager
async def a_grid(
    folder: Path, sites: Mapping[str, int], **parameters: Any
) -> AsyncIterator[tuple[Grid, AsyncClient]]:
    """A grid that is ready, its client, and a limit on all that is done with it."""
    with live_grid(folder, sites=sites, parameters={**PATIENT, **parameters}) as grid:
        async with asyncio.timeout(LIMIT_S), grid.client() as client:
            await grid.ready(client)
            yield grid, client


# --- submissions ----------------------------------------------------------------------------------


def submissions(folder: Path, is_quick: bool) -> list[Figure]:
    """Durable submissions a second, one by one and in batches; what a queued job costs; restart."""
    return asyncio.run(_submissions(folder, 1_000 if is_quick else 10_000))


async def _submissions(folder: Path, jobs: int) -> list[Figure]:
    calls = await asyncio.to_thread(calls_per_s, 500)
    beside: dict[str, Any] = {"unit": "/s", "reference": calls, "reference_name": CALLS}
    async with a_grid(folder, {"delft": 8}, queue_jobs_max=1_000_000) as (grid, client):
        full = await submit(client, f"&{FULL}(count=8)")
        await grid.phase(client, full, "Running")
        latencies = [await timed(client) for _ in range(200)]
        single_s = await concurrently(client, jobs // 10)
        before_bytes = await memory_bytes(grid, client)
        begun_at = perf_counter()
        for first in range(0, jobs, BATCH):
            texts = [a_queued_job(number) for number in range(first, first + BATCH)]
            results = await client.submit_many(texts)
            assert all(isinstance(result, AsyncJobHandle) for result in results)
        batched_s = perf_counter() - begun_at
        grown_bytes = await memory_bytes(grid, client) - before_bytes
        # The newest first: the oldest holds the processors.
        every = [job["job"] for job in reversed(await client.list_jobs())]
        for first in range(0, len(every), CANCELS):
            await client.cancel(every[first : first + CANCELS])
        await grid.at_rest(client)
        return [
            Figure(
                name="submission answered, p50", value=1_000 * median(latencies), unit="ms",
                how="one client, one call after the other, daemon and client on this machine",
            ),
            Figure(
                name="submission answered, p99", value=1_000 * percentile(latencies, 0.99),
                unit="ms", how="the same",
            ),
            Figure(
                name="durable submissions, single", value=jobs // 10 / single_s, **beside,
                how=f"one client, {IN_FLIGHT} calls in flight, one job each, all journaled",
            ),
            Figure(
                name="durable submissions, batched", value=jobs / batched_s, **beside,
                how=f"one client, one call after the other, {BATCH} different jobs of two to four "
                "components each",
            ),
            Figure(
                name="memory of a queued job", value=grown_bytes / jobs / 1_000, unit="kB",
                limit=20.0,
                how=f"growth of the daemon's resident memory over {jobs:,} queued jobs of two to "
                "four components on a full grid",
            ),
        ]  # fmt: skip


def a_queued_job(number: int) -> str:
    """Two to four components, no two jobs alike."""
    part = f'(&{TRUE}(count=2)(arguments="{number}"))'
    return "+" + part * (2 + number % 3)


async def timed(client: AsyncClient) -> float:
    begun_at = perf_counter()
    await submit(client, f"&{TRUE}(count=2)")
    return perf_counter() - begun_at


async def concurrently(client: AsyncClient, jobs: int) -> float:
    """Measure so many single submissions, with some in flight all the time."""
    numbers = iter(range(jobs))

    async def some() -> None:
        for number in numbers:
            await submit(client, a_queued_job(number))

    begun_at = perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(some())
    return perf_counter() - begun_at


async def submit(client: AsyncClient, rsl: str) -> str:
    return (await client.submit(rsl)).job


async def memory_bytes(grid: Grid, client: AsyncClient) -> int:
    """The daemon's resident memory when its inbox is empty."""
    await client.metrics()
    return int(psutil.Process(grid.pid("daemon")).memory_info().rss)


# --- starts ---------------------------------------------------------------------------------------


def launches(folder: Path, is_quick: bool) -> list[Figure]:
    """Components and processes that one agent starts a second."""
    return asyncio.run(_launches(folder, 40 if is_quick else 200))


async def _launches(folder: Path, count: int) -> list[Figure]:
    files = files_per_s(folder, 1_000)
    async with a_grid(folder, {"delft": 400}) as (_, client):
        await run_all(client, [f"&{TRUE}"] * 5)
        jobs_s = await run_all(client, [f"&{TRUE}"] * count)
        processes_s = await run_all(client, [f"&{TRUE}(count={count})"])
    four_folder = folder / "four"
    four_folder.mkdir()
    async with a_grid(four_folder, dict.fromkeys(FOUR, 100)) as (grid, client):
        texts = [f"&{TRUE}(resourceManagerContact={site})" for site in grid.sites]
        await run_all(client, texts * 2)
        four_s = await run_all(client, texts * (count // len(texts)))
    bare = spawns_per_s(["/bin/true"], 200)
    return [
        Figure(
            name=f"{FILES} before the launches", value=files, unit="/s",
            how="a component makes eleven; far fewer than in another run, and the launches cannot "
            "be compared with it",
        ),
        Figure(
            name="component launches", value=count / jobs_s, unit="/s",
            reference=bare, reference_name=SPAWNS,
            how=f"{count} jobs of one component with one process, submitted in one call to one "
            "agent, until all are Finished; each has a starter",
        ),
        Figure(
            name="component launches over four agents", value=count / four_s, unit="/s",
            reference=bare, reference_name=SPAWNS,
            how=f"{count} such jobs, a quarter at each agent on this machine",
        ),
        Figure(
            name="process launches", value=count / processes_s, unit="/s",
            reference=bare, reference_name=SPAWNS,
            how=f"one job of one component with {count} processes, from submission to Finished",
        ),
    ]  # fmt: skip


async def run_all(client: AsyncClient, texts: list[str]) -> float:
    """Measure the time from the submission of these jobs until all are Finished."""
    begun_at = perf_counter()
    results = await client.submit_many(texts)
    jobs = [result.job for result in results if isinstance(result, AsyncJobHandle)]
    assert len(jobs) == len(texts), results
    phases = await client.wait_all(jobs)
    assert set(phases.values()) == {"Finished"}, phases
    return perf_counter() - begun_at


def costs(folder: Path, is_quick: bool) -> list[Figure]:
    """Processor time that a component takes of the daemon, its agent, and its starter."""
    return asyncio.run(_costs(folder, *((2, 100) if is_quick else (5, 300))))


async def _costs(folder: Path, rounds: int, jobs: int) -> list[Figure]:
    async with a_grid(folder, {"delft": 400}) as (grid, client):
        await run_all(client, [f"&{TRUE}"] * 400)
        used = []
        for _ in range(rounds):
            await grid.at_rest(client)
            before = processor_times_s(grid)
            await run_all(client, [f"&{TRUE}"] * jobs)
            await grid.at_rest(client)
            after = processor_times_s(grid)
            used.append({part: after[part] - before[part] for part in after})
    how = (
        f"user and system time, median of {rounds} rounds of {jobs} jobs of one component with one "
        "process at one agent, after 400 others"
    )
    return [
        Figure(
            name=f"processor time a component: {part}", unit="ms", how=how,
            value=1_000 * median([each[part] for each in used]) / jobs,
        )
        for part in used[0]
    ]  # fmt: skip


def processor_times_s(grid: Grid) -> dict[str, float]:
    """Processor time that each part of a grid of one site has used so far."""
    daemon, agent = psutil.Process(grid.pid("daemon")), psutil.Process(grid.pid("delft"))
    starters = [process.cpu_times() for process in agent.children(recursive=True)]
    return {
        "daemon": sum(daemon.cpu_times()[:2]),
        "agent": sum(agent.cpu_times()[:2]),
        # Those of ended starters and programs are their parent's.
        "starter and program": sum(sum(times[:4]) for times in starters),
    }


def latency(folder: Path, is_quick: bool) -> list[Figure]:
    """From the submission's arrival to the pass, and how far apart five components pass."""
    return asyncio.run(_latency(folder, 8 if is_quick else 20))


async def _latency(folder: Path, jobs: int) -> list[Figure]:
    skews = []
    async with a_grid(folder, FIVE) as (grid, client):
        two = "+" + "".join(f"(&{TRUE}(resourceManagerContact={s}))" for s in grid.sites[:2])
        five = "+" + "".join(f"(&{TRUE}(resourceManagerContact={s}))" for s in grid.sites)
        await run_all(client, [five] * 2)
        releases = []
        for _ in range(jobs):
            await grid.at_rest(client)
            releases.append((await timeline(client, two))["total_waiting_s"])
        await grid.at_rest(client)
        for _ in range(jobs):
            skews.append((await timeline(client, five))["start_skew_s"])
            await grid.at_rest(client)
    how_latency = (
        f"two components at two of five idle agents that have run jobs before, {jobs} jobs, each "
        "when nothing is left of the one before: submission journaled to the last component's pass"
    )
    how_skew = f"one process at each of five agents, {jobs} jobs one after the other, by the daemon"
    return [
        Figure(name="submission to release, p50", value=1_000 * median(releases), unit="ms",
               how=how_latency),
        Figure(name="submission to release, p99", value=1_000 * percentile(releases, 0.99),
               unit="ms", how="the same"),
        Figure(name="start skew of five components, median", value=1_000 * median(skews),
               unit="ms", limit=5.0, how=how_skew),
        Figure(name="start skew of five components, p99", value=1_000 * percentile(skews, 0.99),
               unit="ms", how="the same"),
    ]  # fmt: skip


async def timeline(client: AsyncClient, rsl: str) -> dict[str, Any]:
    job = await submit(client, rsl)
    await client.wait(job)
    found: dict[str, Any] = (await client.timeline(job))["timeline"]
    return found


def barrier(folder: Path, is_quick: bool) -> list[Figure]:
    """Releases of components with many processes, which are there and blocked before."""
    return asyncio.run(_barrier(folder, 20 if is_quick else 500))


async def _barrier(folder: Path, jobs: int) -> list[Figure]:
    skews: list[float] = []
    finished = 0
    async with a_grid(folder, FOUR) as (grid, client):
        four = "+" + "".join(
            f"(&{TRUE}(count={FOUR[site]})(resourceManagerContact={site}))" for site in grid.sites
        )
        await run_all(client, [four])
        for _ in range(jobs):
            job = await submit(client, four)
            finished += await client.wait(job) == "Finished"
            skews.append((await client.timeline(job))["timeline"]["start_skew_s"])
            await grid.at_rest(client)
    how = f"{jobs} jobs of 16 processes at each of four agents, one after the other, by the daemon"
    return [
        Figure(name="4 x 16 processes: all passed", value=finished, unit="jobs", limit=jobs,
               is_least=True, how=how),
        Figure(name="4 x 16 processes: start skew, median", value=1_000 * median(skews), unit="ms",
               how="first to last component's pass; on few processors the programs of the first "
               "ones, which begin by exec, stand before the last one"),
        Figure(name="4 x 16 processes: start skew, p99", value=1_000 * percentile(skews, 0.99),
               unit="ms", how="the same"),
    ]  # fmt: skip


# --- a thousand jobs ------------------------------------------------------------------------------


def thousand(folder: Path, is_quick: bool) -> list[Figure]:
    """Jobs of two to four components, submitted as fast as one client can."""
    return asyncio.run(_thousand(folder, 100 if is_quick else 1_000))


async def _thousand(folder: Path, jobs: int) -> list[Figure]:
    async with a_grid(folder, DAS) as (grid, client):
        texts = ["+" + f"(&{TRUE})" * (2 + number % 3) for number in range(jobs)]
        keyed = [Submission(rsl=text, key=f"k{number}") for number, text in enumerate(texts)]
        begun_at = perf_counter()
        results = await client.submit_many(keyed)
        accepted_s = perf_counter() - begun_at
        names = [result.job for result in results if isinstance(result, AsyncJobHandle)]
        with suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S - 60):
                await client.wait_all(names)
        took_s = perf_counter() - begun_at
        listed = await client.list_jobs()
        finished = sum(job["phase"] == "Finished" for job in listed)
        again = sum(job["attempts"] > 1 for job in listed)
        left = [job["job"] for job in listed if job["phase"] not in TERMINAL_PHASES]
        await client.cancel(left)
        await grid.at_rest(client)
    interpreters = spawns_per_s([sys.executable, "-I", "-S", "-c", ""], 50)
    sites = "five sites of 144 and 4 x 64 processors"
    return [
        Figure(name=f"{jobs:,} jobs: accepted", value=len(names), unit="jobs", limit=jobs,
               is_least=True, how=f"two to four components, one client, in {accepted_s:.2f} s"),
        Figure(name=f"{jobs:,} jobs: finished", value=finished, unit="jobs", limit=jobs,
               is_least=True, how=f"{sites}, no other load; {again} needed more than one attempt"),
        Figure(name=f"{jobs:,} jobs: until the last one finished", value=took_s, unit="s",
               how="from the first submission"),
        Figure(name=f"{jobs:,} jobs: components a second", unit="/s", reference=interpreters,
               value=sum(2 + number % 3 for number in range(jobs)) / took_s,
               reference_name=INTERPRETERS, how="over the whole time"),
    ]  # fmt: skip
