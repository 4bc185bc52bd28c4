"""Measure starts of a daemon with a long queue, and of the command that submits one job.

The queue is made by the core and the journal in this process, as a daemon would have written them.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import psutil

from koala.client import AsyncClient
from koala.common.runtime.structured_log import configure_logging
from koala.core.digest import digest
from koala.core.model.events import JobSubmitted
from koala.core.model.job_spec import JobSpec
from koala.daemon.config import read_config
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, Retention
from koala.daemon.state.recovery import begin_run
from koala.job_descriptions.job_reader import read_job
from tests.bench.figures import Figure, median
from tests.bench.live import LIMIT_S, TRUE, a_grid, a_queued_job
from tests.harness.children import module_command
from tests.harness.moments import moment

LOT = 100
PATIENCE_S = 300.0
START_S_MAX = 2.0
CONFIG = """\
[daemon]
listen = "127.0.0.1:0"
state_dir = "state"
log_level = "warning"
[parameters]
queue_jobs_max = 1000000
"""


def queues(folder: Path, is_quick: bool) -> list[Figure]:
    """Starts of a daemon with a long queue, after a kill and after an end in order."""
    jobs = 20_000 if is_quick else 100_000
    config = folder / "daemon.toml"
    config.write_text(CONFIG, encoding="utf-8")
    asyncio.run(fill(config, jobs))
    killed = started_s(config, jobs, signal.SIGTERM)
    ended = started_s(config, jobs, signal.SIGKILL)
    how = f"{jobs:,} jobs of two to four components, none alike; spawn to first answer"
    return [
        Figure(name=f"start with {jobs:,} queued jobs after {after}", value=took, unit="s",
               limit=None if is_quick else START_S_MAX, reference=cpu, how=how,
               reference_name="of it the daemon's processor time")
        for after, (took, cpu) in {"a kill": killed, "an end in order": ended}.items()
    ]  # fmt: skip


async def fill(config: Path, jobs: int) -> None:
    """Write the journal of a daemon that accepted so many jobs and was killed."""
    configure_logging("error")
    journal, found = begin_run(read_config(config))
    retention = Retention(
        keep_jobs=1_000,
        keep_jobs_s=1e9,
        snapshot_events=read_config(config).journal.snapshot_events,
        settings=found.settings,
    )
    event_loop = EventLoop(
        found.scheduler, journal, found.clock, digest=digest, jobs=found.jobs, retention=retention
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(event_loop.run())
        for first in range(0, jobs, LOT):
            texts = [a_queued_job(number) for number in range(first, first + LOT)]
            specs = [read_job(text, {}, "bench").spec for text in texts]
            await event_loop.ask(partial(_submit, specs))
        running.cancel()
    journal.close()


def _submit(specs: Sequence[JobSpec], batch: BatchContext) -> None:
    for spec in specs:
        batch.emit(JobSubmitted(job=batch.new_job(), spec=spec))


def started_s(config: Path, jobs: int, end: signal.Signals) -> tuple[float, float]:
    """Start the daemon and end it by a signal; the seconds until its first answer, and those of
    processor time."""
    endpoint = config.parent / "state" / "endpoint"
    endpoint.unlink(missing_ok=True)
    begun_at = perf_counter()
    with subprocess.Popen(
        module_command("koala.daemon.main", str(config)),
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            took_s = asyncio.run(_answered(endpoint, begun_at))
            times = psutil.Process(process.pid).cpu_times()
            asyncio.run(_require(endpoint, jobs))
            process.send_signal(end)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    return took_s, times.user + times.system


async def _answered(endpoint: Path, begun_at: float) -> float:
    async with asyncio.timeout(PATIENCE_S):
        while not (address := _text(endpoint)):
            await moment()
        async with AsyncClient(address) as client:
            await client.hello()
            return perf_counter() - begun_at


async def _require(endpoint: Path, jobs: int) -> None:
    """Check that no job is missing."""
    async with AsyncClient(_text(endpoint)) as client:
        assert (await client.metrics())["queues"]["placement"] == jobs


def _text(path: Path) -> str:
    """Read a file; empty if it does not exist."""
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


# --- the command ----------------------------------------------------------------------------------


def command(folder: Path, is_quick: bool) -> list[Figure]:
    """Whole commands `koala submit` of one job, beside starts of the interpreter."""
    return asyncio.run(_command(folder, 10 if is_quick else 40))


async def _command(folder: Path, count: int) -> list[Figure]:
    text = folder / "job.rsl"
    text.write_text(f"&{TRUE}", encoding="utf-8")
    koala = Path(sys.executable).with_name("koala")
    async with a_grid(folder, {"delft": 4}) as (grid, client), asyncio.timeout(LIMIT_S):
        environment = {**grid.environment(), "KOALA_ADDRESS": grid.address}
        submits = await _timed([str(koala), "submit", str(text)], count, environment)
        bare = await _timed([sys.executable, "-c", "import grpc, click"], count, environment)
        await grid.at_rest(client)
    return [
        Figure(
            name="koala submit of one job", value=1_000 * submits, unit="ms",
            reference=1_000 * bare, reference_name="an interpreter that imports gRPC and click",
            how=f"median of {count} whole commands, one after the other",
        )
    ]  # fmt: skip


async def _timed(words: list[str], count: int, environment: dict[str, str]) -> float:
    """Median of the seconds that a command takes."""
    took = []
    for _ in range(count):
        begun_at = perf_counter()
        process = await asyncio.create_subprocess_exec(
            *words, stdout=subprocess.DEVNULL, env=environment
        )
        assert await process.wait() == 0, words
        took.append(perf_counter() - begun_at)
    return median(took)
