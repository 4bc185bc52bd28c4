"""`python -m tests.bench.load [--only NAME] [--scale SHARE] [--out FILE]`: a daemon under load.

A real daemon with TLS, and crowds of agents, clients and watchers in processes of their own. Each
measurement has a daemon of its own; `--scale 0.1` makes all of them a tenth as large. Status 1 when
a limit is missed. Two processors have daemon and crowds to serve: figures of speed are of both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import psutil

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.runtime.atomic_file import write_atomically
from koala.common.runtime.child_lifetime import end_once, ended_by
from tests.bench.crowd import Crowd, a_crowd, pause
from tests.bench.figures import Figure, document, machine, percentile, table
from tests.bench.live import PATIENT, TRUE, a_queued_job, submit, timed
from tests.live.grid import Grid

OUT = Path("bench-out") / "load.json"
BEAT_S = 2.0  # a daemon's default
BATCH = 100
LOT = 25
ONE = f"&{TRUE}(count=1)"
MB = 1_000_000
END_S = 300.0


@asynccontextmanager
async def a_daemon(
    folder: Path, sites: int = 0, *, more: str = "", **parameters: Any
) -> AsyncIterator[tuple[Grid, AsyncClient]]:
    """A daemon that serves, with so many sites enrolled and none connected; and a client."""
    grid = Grid(
        folder,
        sites={a_site(number): 16 for number in range(sites)},
        parameters={**PATIENT, "queue_jobs_max": 1_000_000, **parameters},
        silence_s=15.0,
        more={"daemon": more},
    )
    path = grid.config("daemon")
    path.write_text(path.read_text().replace("beat_s = 0.5", f"beat_s = {BEAT_S}"))
    os.environ["PYTHONPATH"] = grid.environment()["PYTHONPATH"]
    grid.start("daemon")
    try:
        async with grid.client() as client:
            await grid.up(client)
            yield grid, client
    finally:
        if grid.is_alive("daemon"):
            grid.terminate("daemon", limit_s=END_S)  # which saves its state
        grid.stop()
    assert "Traceback" not in grid.log("daemon"), grid.tail("daemon")


def a_site(number: int) -> str:
    return f"site{number:04}"


def agents(grid: Grid, first: int, count: int, processors: int) -> Any:
    """These sites' agents in one process."""
    return a_crowd(
        "agents",
        address=grid.address,
        state=str(grid.state),
        sites=[a_site(number) for number in range(first, first + count)],
        processors=processors,
        beat_s=BEAT_S,
    )


def clients(grid: Grid, name: str, count: int, jobs: int, **more: Any) -> Any:
    settings = {"rsl": ONE, "reject_if_full": False, "watch": False, **more}
    return a_crowd("clients", address=grid.address, name=name, clients=count, jobs=jobs, **settings)


class Daemon:
    """Measure what the daemon's process takes."""

    def __init__(self, grid: Grid) -> None:
        self._process = psutil.Process(grid.pid("daemon"))

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(self._process.memory_info().rss)

    @property
    def cpu_s(self) -> float:
        """Processor time so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


# --- clients --------------------------------------------------------------------------------------


async def many_clients(folder: Path, scale: float) -> list[Figure]:
    """200 clients submit and watch at once."""
    count, each = max(2, round(200 * scale)), 10
    async with a_daemon(folder) as (grid, _), AsyncExitStack() as stack:
        daemon = Daemon(grid)
        before = daemon.memory
        crowds = [
            await stack.enter_async_context(
                clients(grid, name, count // 2, each, watch=True, rsl=ONE)
            )
            for name in ("a", "b")
        ]
        begun_at, begun_cpu_s = perf_counter(), daemon.cpu_s
        found = await together(crowds, "go")
        took_s = perf_counter() - begun_at
        cpu_s = daemon.cpu_s - begun_cpu_s
        jobs = total(found, "accepted")
        how = f"{count} clients with a connection each, {each} jobs each; all watch all events"
        worst = {name: max(one["latency_s"][name] for one in found) for name in ("p50", "p99")}
        return [
            Figure(name=f"{count} clients: submissions", value=jobs / took_s, unit="/s", how=how),
            Figure(name=f"{count} clients: submission answered, p50", unit="ms",
                   value=1_000 * worst["p50"], how="the same"),
            Figure(name=f"{count} clients: submission answered, p99", unit="ms",
                   value=1_000 * worst["p99"], how="the same"),
            Figure(name=f"{count} clients: the daemon's processor time a job", unit="ms",
                   value=1_000 * cpu_s / jobs, how=f"{count} notices of it among that"),
            Figure(name=f"{count} clients: memory a client", unit="kB",
                   value=(daemon.memory - before) / count / 1_000,
                   how="growth of the daemon's resident memory, jobs included"),
        ]  # fmt: skip


async def queue_limit(folder: Path, scale: float) -> list[Figure]:
    """50,000 submissions of 64 clients against a limit of 10,000; ten sites that run at once."""
    jobs, most, count = round(50_000 * scale), round(10_000 * scale), 64
    each = jobs // count
    more = f"[limits]\njobs = {most}\n"
    async with a_daemon(folder, 10, more=more) as (grid, client), AsyncExitStack() as stack:
        sites = await stack.enter_async_context(agents(grid, 0, 10, 64))
        crowds = [
            await stack.enter_async_context(clients(grid, name, count // 2, each, lot=LOT))
            for name in ("a", "b")
        ]
        found = await together(crowds, "go")
        accepted, refused = total(found, "accepted"), total(found, "ExhaustedError")
        others = sum(sum(one["outcomes"].values()) for one in found) - accepted - refused
        begun_at = perf_counter()
        while (counts := await phases(client)).get("Finished", 0) < accepted:
            assert perf_counter() - begun_at < 1_800, counts
            await pause(0.5)
        heard = await sites.ask("report")
        how = f"{jobs:,} submissions of {count} clients, `limits.jobs = {most}`, ten sites"
        latency = max(one["latency_s"]["p99"] for one in found)
        return [
            Figure(name="overload: accepted", value=accepted, unit="jobs", how=how),
            Figure(name="overload: refused as RESOURCE_EXHAUSTED", value=refused, unit="jobs",
                   how="the same"),
            Figure(name="overload: neither", value=others, unit="jobs", limit=0, how="the same"),
            Figure(name="overload: accepted and Finished in the end", value=counts["Finished"],
                   unit="jobs", limit=accepted, is_least=True, how="the same"),
            Figure(name="overload: answered, p99", value=1_000 * latency, unit="ms",
                   how="the same"),
            Figure(name="overload: lateness of the daemon's beats, p99", unit="ms", limit=1_000,
                   value=1_000 * heard["late_s"]["p99"], how="at the ten sites"),
            Figure(name="overload: sites lost", value=heard["sessions"] - 10, unit="", limit=0,
                   how="the same"),
        ]  # fmt: skip


async def fairness(folder: Path, scale: float) -> list[Figure]:
    """One user floods with batches from 64 clients; another one submits now and then."""
    each = round(500 * scale)
    async with a_daemon(folder) as (grid, client), AsyncExitStack() as stack:
        calm_s = [await timed(client) for _ in range(100)]
        made = await client.add_user("flood")
        crowd = await stack.enter_async_context(
            clients(grid, "flood", 64, each, lot=100, token=made["token"], authority=made["ca"])
        )
        crowd.send("go")
        flooded_s = []
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(crowd.answer())
            while not answering.done():
                flooded_s.append(await timed(client))
        found = answering.result()
        how = f"64 clients of one user, {each:,} jobs each in calls of 100; one of another user"
        return [
            Figure(name="a user's flood: jobs accepted", unit="/s", how=how,
                   value=found["outcomes"]["accepted"] / found["took_s"]),
            Figure(name="a user's flood: another's submission, p50", unit="ms",
                   value=1_000 * percentile(flooded_s, 0.5), how=f"{len(flooded_s)} of them",
                   reference=1_000 * percentile(calm_s, 0.5), reference_name="without"),
            Figure(name="a user's flood: another's submission, p99", unit="ms", limit=1_000,
                   value=1_000 * percentile(flooded_s, 0.99), how="the same",
                   reference=1_000 * percentile(calm_s, 0.99), reference_name="without"),
        ]  # fmt: skip


# --- a long queue ---------------------------------------------------------------------------------


async def long_queue(folder: Path, scale: float) -> list[Figure]:
    """100,000 jobs that wait: lists, why, and who waits meanwhile."""
    jobs = round(100_000 * scale)
    async with a_daemon(folder, 100) as (_, client):
        for first in range(0, jobs, BATCH):
            results = await client.submit_many(
                [a_queued_job(number) for number in range(first, first + BATCH)]
            )
            assert all(isinstance(result, AsyncJobHandle) for result in results), results[0]
        list_s, lag_s = await beside(client, client.list_jobs())
        newest_s, _ = await beside(client, client.list_jobs(last=50))
        why_s, _ = await beside(client, client.why(f"j{jobs // 2}"))
    name = f"{jobs:,} queued jobs"
    return [
        Figure(name=f"{name}: list of all", value=list_s, unit="s",
               how="in pages, the client's work included"),
        Figure(name=f"{name}: others' longest wait meanwhile", value=1_000 * lag_s, unit="ms",
               limit=1_000, how="a client that asks Hello again and again"),
        Figure(name=f"{name}: list of the newest 50", value=1_000 * newest_s, unit="ms",
               how="the same"),
        Figure(name=f"{name}: why", value=1_000 * why_s, unit="ms", how="of one in the middle"),
    ]  # fmt: skip


# --- sites ----------------------------------------------------------------------------------------


async def many_sites(folder: Path, scale: float) -> list[Figure]:
    """1,000 sites: connections, beats, placing."""
    count, processes = round(1_000 * scale), 2
    each = count // processes
    async with a_daemon(folder, each * processes) as (grid, client), AsyncExitStack() as stack:
        daemon = Daemon(grid)
        crowds = await asyncio.gather(
            *(
                stack.enter_async_context(agents(grid, number * each, each, 16))
                for number in range(processes)
            )
        )
        assert (await client.metrics())["sites"]["connected"] == each * processes
        await together(crowds, "report")
        begun_cpu_s, begun_at = daemon.cpu_s, perf_counter()
        await pause(10 * BEAT_S)
        idle_share = (daemon.cpu_s - begun_cpu_s) / (perf_counter() - begun_at)
        await together(crowds, "report")
        alone_s = [await timed(client) for _ in range(50)]
        jobs = 100
        begun_at = perf_counter()
        results = await client.submit_many(["+" + f"(&{TRUE}(count=8))" * 3] * jobs)
        accepted = sum(isinstance(result, AsyncJobHandle) for result in results)
        while (await phases(client)).get("Finished", 0) < accepted + len(alone_s):
            await pause(0.2)
        took_s = perf_counter() - begun_at
        busy = await together(crowds, "report")
        name = f"{each * processes:,} sites"
        return [
            Figure(name=f"{name}: processor time while nothing happens", unit="of a processor",
                   value=idle_share, how=f"a beat every {BEAT_S:g} s for each of them"),
            Figure(name=f"{name}: submission answered, p50", unit="ms",
                   value=1_000 * percentile(alone_s, 0.5),
                   how="one job of one component at a time"),
            Figure(name=f"{name}: jobs from submission to Finished", value=accepted / took_s,
                   unit="/s", how=f"{jobs} jobs of three components, whose programs end at once"),
            Figure(name=f"{name}: lateness of beats then, p99", unit="ms", limit=1_000,
                   value=1_000 * max(one["late_s"]["p99"] for one in busy), how="at the sites"),
            Figure(name=f"{name}: sessions lost", unit="", limit=0,
                   value=sum(one["sessions"] for one in busy) - each * processes, how="the same"),
        ]  # fmt: skip


async def flood(folder: Path, scale: float) -> list[Figure]:
    """An agent that talks without end, beside nine calm ones and a client."""
    async with a_daemon(folder, 10) as (grid, client), AsyncExitStack() as stack:
        daemon = Daemon(grid)
        calm = await stack.enter_async_context(agents(grid, 0, 9, 16))
        wild = await stack.enter_async_context(agents(grid, 9, 1, 16))
        calls = max(100, round(1_000 * scale))
        without_s = [await timed(client) for _ in range(calls)]
        await calm.ask("report")
        before, begun_cpu_s, begun_at = daemon.memory, daemon.cpu_s, perf_counter()
        wild.send("flood")
        flooded_s: list[float] = []
        while not (metrics := await client.metrics())["floods"]:
            flooded_s.append(await timed(client))
        took_s, cpu_s = perf_counter() - begun_at, daemon.cpu_s - begun_cpu_s
        heard = await calm.ask("report")
        return [
            Figure(name="a flood: cut after", value=took_s, unit="s", limit=60,
                   how="one of ten agents reports other idle processors as fast as it can"),
            Figure(name="a flood: reports taken", unit="/s",
                   value=metrics["events_by_kind"]["SiteReported"] / took_s,
                   how="until it was cut"),
            Figure(name="a flood: the daemon's processor time", unit="of a processor",
                   value=cpu_s / took_s, how="the client's submissions included"),
            Figure(name="a flood: memory", value=(daemon.memory - before) / MB, unit="MB", limit=20,
                   how="growth of the daemon's resident memory"),
            Figure(name="a flood: submission answered, p50", unit="ms",
                   value=1_000 * percentile(flooded_s, 0.5), how="one client, meanwhile",
                   reference=1_000 * percentile(without_s, 0.5), reference_name="without"),
            Figure(name="a flood: submission answered, p99", unit="ms", limit=1_000,
                   value=1_000 * percentile(flooded_s, 0.99), how="the same",
                   reference=1_000 * percentile(without_s, 0.99), reference_name="without"),
            Figure(name="a flood: lateness of others' beats, p99", unit="ms", limit=1_000,
                   value=1_000 * heard["late_s"]["p99"], how="at the nine calm agents"),
            Figure(name="a flood: calm agents lost", value=heard["sessions"] - 9, unit="", limit=0,
                   how="the same"),
        ]  # fmt: skip


# --- watchers -------------------------------------------------------------------------------------


async def slow_watchers(folder: Path, scale: float) -> list[Figure]:
    """20 watchers that stop reading, half of them stopped processes, while 10,000 events pass."""
    events = round(10_000 * scale)
    async with a_daemon(folder) as (grid, client), AsyncExitStack() as stack:
        daemon = Daemon(grid)

        async def some(count: int, stops_after: int) -> Crowd:
            return await stack.enter_async_context(
                a_crowd("watchers", address=grid.address, clients=count, stops_after=stops_after)
            )

        idle, stopped = await some(10, 1), await some(10, 0)
        reading = await some(5, 0)
        await submit(client, ONE)
        await submit_events(client, 2_000)  # what any events cost is there before
        before = daemon.memory
        stopped.process.send_signal(signal.SIGSTOP)
        try:
            begun_at = perf_counter()
            await submit_events(client, events)
            took_s = perf_counter() - begun_at
            grown = daemon.memory - before
            last = (await client.metrics())["notices"]
            read = await reading.ask(str(last))
        finally:
            stopped.process.send_signal(signal.SIGCONT)
        caught_up = [await crowd.ask(str(last)) for crowd in (idle, stopped)]
        gaps = read["gaps"] + sum(one["gaps"] for one in caught_up)
        how = (
            f"10 watchers take no more notices, the process of 10 others is stopped; {events:,} "
            f"events in {took_s:.1f} s; growth of the daemon's resident memory, with as many jobs"
        )
        return [
            Figure(name="20 slow watchers: memory", value=grown / MB, unit="MB", limit=20.0,
                   how=how),
            Figure(name="20 slow watchers: others' delay, p50", unit="ms",
                   value=1_000 * read["delay_s"]["p50"], how="five watchers that read"),
            Figure(name="20 slow watchers: others' delay, p99", unit="ms", limit=1_000,
                   value=1_000 * read["delay_s"]["p99"], how="the same"),
            Figure(name="20 slow watchers: gaps and doubles", value=gaps, unit="", limit=0,
                   how="in what all 25 have seen, the slow ones after they went on"),
        ]  # fmt: skip


async def submit_events(client: AsyncClient, count: int) -> None:
    """So many notices: jobs that wait."""
    for first in range(0, count, BATCH):
        results = await client.submit_many([ONE] * min(BATCH, count - first))
        assert all(isinstance(result, AsyncJobHandle) for result in results), results[0]


# --- parts ----------------------------------------------------------------------------------------


async def together(crowds: list[Crowd], word: str) -> list[dict[str, Any]]:
    """Send this to all of them at once; their answers."""
    for crowd in crowds:
        crowd.send(word)
    return [await crowd.answer() for crowd in crowds]


def total(found: list[dict[str, Any]], outcome: str) -> int:
    return sum(one["outcomes"].get(outcome, 0) for one in found)


async def phases(client: AsyncClient) -> dict[str, int]:
    counts: dict[str, int] = (await client.metrics())["jobs"]
    return counts


async def beside(client: AsyncClient, question: Awaitable[object]) -> tuple[float, float]:
    """Time a call, and the longest that somebody else waits for Hello meanwhile."""
    longest_s = 0.0

    async def ask() -> float:
        begun_at = perf_counter()
        await question
        return perf_counter() - begun_at

    async with asyncio.TaskGroup() as group, AsyncClient(client.address) as other:
        await other.hello()
        asking = group.create_task(ask())
        while not asking.done():
            begun_at = perf_counter()
            await other.hello()
            longest_s = max(longest_s, perf_counter() - begun_at)
    return asking.result(), longest_s


Load: TypeAlias = Callable[[Path, float], Coroutine[Any, Any, list[Figure]]]

MEASUREMENTS: dict[str, Load] = {
    "clients": many_clients,
    "limit": queue_limit,
    "fairness": fairness,
    "queue": long_queue,
    "sites": many_sites,
    "flood": flood,
    "watchers": slow_watchers,
}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load", description=__doc__)
    parser.add_argument("--only", choices=tuple(MEASUREMENTS), action="append", help="just these")
    parser.add_argument("--scale", type=float, default=1.0, metavar="SHARE", help="of the numbers")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"({OUT})")
    options = parser.parse_args()
    at, before = datetime.now(UTC).isoformat(timespec="seconds"), machine()
    figures: list[Figure] = []
    for name in options.only or MEASUREMENTS:
        sys.stderr.write(f"load: {name} (load average {os.getloadavg()[0]:.1f})\n")
        with tempfile.TemporaryDirectory(prefix="koala-load-") as folder:
            figures += asyncio.run(MEASUREMENTS[name](Path(folder), options.scale))
    result = {**document(figures, at=at, is_quick=options.scale < 1), "machine": before}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out, json.dumps(result, indent=2) + "\n")
    print(f"{at}, {before}\n\n{table(figures)}", end="")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    end_once(ended_by)
    sys.exit(main())
