"""Pairs over two real Slurm clusters that are never idle, each beside two plain jobs.

    python -m tests.bench.busy [--priority basic|age] [--pairs 6] [--every 45] [--run 60] [--pace 1]

A feeder keeps jobs of another user waiting at each cluster. In each round Koala gets a pair of half
of both, and `sbatch` two jobs of the same size and length; in turns the one or the other is first.
Compared are the waits for the last program of a pair, and the processor time of all batch jobs.
With a pace of 60 the parameters of tickets take seconds for minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from koala.client import AsyncClient
from koala.core.model.parameters import Parameters
from tests.batch.systems.grids import grid_over
from tests.batch.systems.slurm import SlurmCluster, slurm_clusters
from tests.bench.slurm import stamps
from tests.harness.moments import moment

CLUSTERS = "alpha:4x8 beta:4x8"
WAITING = 5
"""Jobs of others that wait at each cluster at any time."""
SHARES = (8, 8, 4, 4, 2, 2, 1)
"""Their sizes, as the cluster's processors divided by these."""
RUNS_S = (15, 75)
SCALED = ("ticket_plan_s", "ticket_slack_s", "ticket_hold_min_s", "ticket_hold_max_s")
FIRST_S = 1.0
"""By which one of a round is submitted before the other."""
LONGEST_S = 1800.0
"""Longest wait for what is under way."""


class Feeder:
    """Keeps the queue of a cluster long."""

    def __init__(self, cluster: SlurmCluster, seed: str) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)

    async def feed(self) -> None:
        """Feed it until it is cancelled."""
        while True:
            with suppress(AssertionError):
                await asyncio.to_thread(self._fill)
            await moment(1.0)

    def _fill(self) -> None:
        pending = self._cluster.run("squeue", "-h", "-t", "PD", "-o", "%j").split()
        for _ in range(WAITING - pending.count("others")):
            run_s = self._random.randint(*RUNS_S)
            size = self._cluster.processors // self._random.choice(SHARES)
            limit = f"-t{math.ceil(run_s / 60) + self._random.randint(0, 1)}"
            words = ("--uid=nobody", "-D", "/", "-o", "/dev/null", "-J", "others", limit)
            text = f"#!/bin/sh\nexec sleep {run_s}\n"
            self._cluster.run("sbatch", *words, f"-n{size}", text=text)


def taken(cluster: SlurmCluster, name: str) -> float:
    """Return the processor-seconds of all ended batch jobs whose names begin like this."""
    total = 0.0
    for line in (cluster.folder / "jobcomp.txt").read_text().splitlines():
        row = dict(re.findall(r"(\w+)=(\S+)", line))
        with suppress(ValueError):  # never started
            begun, ended = map(datetime.fromisoformat, (row["StartTime"], row["EndTime"]))
            if row["Name"].startswith(name):
                total += int(row["ProcCnt"]) * (ended - begun).total_seconds()
    return total


class Rounds:
    """Rounds of a Koala pair beside plain jobs."""

    def __init__(
        self, client: AsyncClient, clusters: Mapping[str, SlurmCluster], folder: Path, run_s: int
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._folder = folder
        self._run_s = run_s
        self._limit = math.ceil(run_s / 60)

    async def round(self, number: int) -> tuple[float, float]:
        """Return the waits of the plain pair and of Koala's."""
        late = (FIRST_S, 0.0) if number % 2 else (0.0, FIRST_S)
        plain_s, koala_s = await asyncio.gather(
            self._plain(number, late[0]), self._koala(number, late[1])
        )
        print(f"{number}: plain {plain_s:.1f} s, Koala {koala_s:.1f} s", flush=True)
        return plain_s, koala_s

    def _script(self, file: str) -> str:
        return f"date +%s.%N > {self._folder}/{file}; exec sleep {self._run_s}"

    async def _plain(self, number: int, late_s: float) -> float:
        await moment(late_s)
        began, files = time.time(), []
        for name, cluster in self._clusters.items():
            files.append(self._folder / f"plain-{number}-{name}")
            words = (f"-n{cluster.processors // 2}", f"-t{self._limit}", "-J", "plain")
            text = f"#!/bin/sh\n{self._script(files[-1].name)}\n"
            await asyncio.to_thread(
                cluster.run, "sbatch", *words, "-D", "/", "-o", "/dev/null", text=text
            )
        return await stamps(files, limit_s=LONGEST_S) - began

    async def _koala(self, number: int, late_s: float) -> float:
        await moment(late_s)
        began = time.time()
        script = self._script(f"koala-{number}-$KOALA_SITE")
        parts = (
            f'(&(executable=/bin/sh)(arguments="-c" "{script}")(count={cluster.processors // 2})'
            f"(jobType=single)(maxWallTime={self._limit})(resourceManagerContact={name}))"
            for name, cluster in self._clusters.items()
        )
        job = (await self._client.submit("+" + "".join(parts))).job
        files = [self._folder / f"koala-{number}-{name}" for name in self._clusters]
        wait_s = await stamps(files, limit_s=LONGEST_S) - began
        await self._client.wait(job)
        return wait_s


async def measure(
    folder: Path, clusters: Mapping[str, SlurmCluster], options: argparse.Namespace
) -> None:
    """Measure the rounds, and print the result."""
    limits = {name: getattr(Parameters(), name) / options.pace for name in SCALED}
    limits["late_max_s"] = Parameters().late_max_s
    with grid_over(folder / "grid", dict(clusters), limits=limits, grace_s=120.0) as grid:
        async with grid.client() as client, asyncio.TaskGroup() as group:
            await grid.ready(client)
            feeders = [
                group.create_task(Feeder(one, name).feed()) for name, one in clusters.items()
            ]
            await moment(max(RUNS_S) / 2)  # until the queues are long
            shown = Rounds(client, clusters, folder, options.run)
            rounds = []
            for number in range(options.pairs):
                rounds.append(group.create_task(shown.round(number)))
                await moment(options.every)
            waits = await asyncio.gather(*rounds)
            for feeder in feeders:
                feeder.cancel()
            await grid.at_rest(client)
    plain_s, koala_s = (statistics.median(times) for times in zip(*waits, strict=True))
    print(f"median wait: plain {plain_s:.0f} s, Koala {koala_s:.0f} s: {koala_s / plain_s:.2f}")
    plain, koala = (
        sum(taken(one, name) for one in clusters.values()) for name in ("plain", "koala-")
    )
    print(f"processor time: plain {plain:.0f} s, Koala {koala:.0f} s: {koala / plain - 1:+.1%}")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--priority", choices=("basic", "age"), default="basic")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--every", type=float, default=45.0)
    parser.add_argument("--run", type=int, default=60)
    parser.add_argument("--pace", type=float, default=1.0)
    options = parser.parse_args()
    profile = "" if options.priority == "basic" else options.priority
    with tempfile.TemporaryDirectory(prefix="koala-busy-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # others have jobs there
        with slurm_clusters(folder / "clusters", CLUSTERS, profile=profile) as found:
            clusters = {
                one: system for one, system in found.items() if isinstance(system, SlurmCluster)
            }
            asyncio.run(measure(folder, clusters, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
