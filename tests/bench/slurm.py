"""Koala in front of real Slurm clusters beside `sbatch`, in one run.

    python -m tests.bench.slurm [--jobs 200] [--pairs 10]

Both submit the same: many jobs of one processor to one cluster, and pairs over two idle ones. What
is compared is what a user sees: jobs ended in a second, and how late the last program of a pair
starts. The starters run under a shell that adds up their processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from koala.client import AsyncClient
from tests.batch.systems.grids import grid_over
from tests.batch.systems.slurm import SlurmCluster, slurm_clusters
from tests.harness.moments import moment
from tests.live.grid import Grid

FIRST, SECOND = "alpha", "beta"
CLUSTERS = f"{FIRST}:2x16 {SECOND}:2x16"
AT_ONCE = 8
"""Commands of `sbatch`, and submissions of Koala, at a time."""
LIMIT_S = 300.0
METER = """#!/bin/bash
{python} "$@"
status=$?
times >> {file}
exit $status
"""


@dataclass(frozen=True, kw_only=True)
class Default(SlurmCluster):
    """A cluster whose agent has the settings that it has by default."""

    def lrm_table(self, mark: str) -> str:
        """See System."""
        pairs = ", ".join(f'{key} = "{text}"' for key, text in self.environment.items())
        return f'[lrm]\nkind = "slurm"\nenvironment = {{ {pairs} }}\n'


def job(script: str, *sites: str) -> str:
    parts = (
        f'(&(executable=/bin/sh)(arguments="-c" "{script}")(count=1)(jobType=single)'
        f"(maxWallTime=5)(resourceManagerContact={site}))"
        for site in sites
    )
    return "+" + "".join(parts)


def sbatch(cluster: SlurmCluster, script: str) -> None:
    cluster.run("sbatch", "-n1", "-t5", "-o", "/dev/null", text=f"#!/bin/sh\n{script}\n")


async def plain_jobs(cluster: SlurmCluster, folder: Path, count: int) -> float:
    """Jobs a second of `sbatch`, until the last has run."""
    ran = folder / "plain"
    ran.touch()
    slots = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with slots:
            await asyncio.to_thread(sbatch, cluster, f"echo >> {ran}")

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
    async with asyncio.timeout(LIMIT_S):
        while ran.stat().st_size < count:
            await moment(0.01)
    return count / (time.monotonic() - began)


async def koala_jobs(client: AsyncClient, site: str, folder: Path, count: int) -> float:
    """Jobs a second of Koala, until the last has run."""
    ran = folder / f"koala-{time.monotonic_ns()}"
    ran.touch()
    slots = asyncio.Semaphore(AT_ONCE)
    text = job(f"echo >> {ran}", site)
    names: list[str] = []

    async def one() -> None:
        async with slots:
            names.append((await client.submit(text)).job)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
    async with asyncio.timeout(LIMIT_S):
        while ran.stat().st_size < count:
            await moment(0.01)
    took_s = time.monotonic() - began
    for name in names:
        await client.wait(name)
    return count / took_s


async def stamps(files: list[Path], *, limit_s: float = LIMIT_S) -> float:
    """The last of the instants in these files, once all are there."""
    async with asyncio.timeout(limit_s):
        while not all(file.exists() and file.stat().st_size > 10 for file in files):
            await moment(0.01)
    return max(float(file.read_text()) for file in files)


async def until_any_instant() -> None:
    """Pause for up to one round of Slurm's scheduler, which looks once a second here: a pair that
    began right after the one before would always, or never, wait for it."""
    await moment(random.random())


async def plain_pair(clusters: Sequence[SlurmCluster], folder: Path, number: int) -> float:
    files = [folder / f"plain-{number}-{cluster.name}" for cluster in clusters]
    await until_any_instant()
    began = time.time()
    await asyncio.gather(
        *(
            asyncio.to_thread(sbatch, cluster, f"date +%s.%N > {file}")
            for cluster, file in zip(clusters, files, strict=True)
        )
    )
    return await stamps(files) - began


async def koala_pair(client: AsyncClient, folder: Path, number: int) -> float:
    file = folder / f"koala-{number}-"
    await until_any_instant()
    began = time.time()
    name = (await client.submit(job(f"date +%s.%N > {file}$KOALA_SITE", FIRST, SECOND))).job
    last = await stamps([folder / f"koala-{number}-{site}" for site in (FIRST, SECOND)])
    await client.wait(name)
    return last - began


def agent_cpu_s(grid: Grid, site: str) -> float:
    used = psutil.Process(grid.pid(site)).cpu_times()
    return float(used.user + used.system + used.children_user + used.children_system)


def metered_s(file: Path) -> list[float]:
    """Processor time of each starter and its program: every second line is of the children."""
    found = []
    for line in file.read_text().splitlines()[1::2]:
        parts = (word.removesuffix("s").split("m") for word in line.split())
        found.append(sum(60 * float(minutes) + float(seconds) for minutes, seconds in parts))
    return found


async def measure(folder: Path, *, count: int, pairs: int) -> None:
    meter, used = folder / "python3", folder / "used"
    meter.write_text(METER.format(python=sys.executable, file=used))
    meter.chmod(0o755)
    with slurm_clusters(folder / "clusters", CLUSTERS) as found:
        systems = {
            name: Default(**vars(system))
            for name, system in found.items()
            if isinstance(system, SlurmCluster)
        }
        table = f'[starter]\npython = "{meter}"\n'
        with grid_over(folder / "grid", dict(systems), more=dict.fromkeys(systems, table)) as grid:
            async with grid.client() as client:
                await grid.ready(client)
                clusters = list(systems.values())
                both = [
                    (
                        await plain_pair(clusters, folder, number),
                        await koala_pair(client, folder, number),
                    )
                    for number in range(pairs)
                ]
                print(f"load: {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} processors")
                plain, ours = (statistics.median(times) for times in zip(*both, strict=True))
                print(f"a pair starts after: sbatch {plain:.2f} s, Koala {ours:.2f} s")
                used.unlink(missing_ok=True)
                before_s = agent_cpu_s(grid, FIRST)
                plain_rate = await plain_jobs(systems[FIRST], folder, count)
                rate = await koala_jobs(client, FIRST, folder, count)
                agent_s = agent_cpu_s(grid, FIRST) - before_s
                print(
                    f"jobs of one processor: sbatch {plain_rate:.1f} /s, Koala {rate:.1f} /s,"
                    f" ratio {rate / plain_rate:.2f}"
                )
                print(
                    f"processor time a claim: {1000 * agent_s / count:.0f} ms on the login node,"
                    f" {1000 * statistics.mean(metered_s(used)):.0f} ms on the compute node"
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="koala-bench-") as name:
        asyncio.run(measure(Path(name), count=arguments.jobs, pairs=arguments.pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
