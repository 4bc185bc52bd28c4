"""Jobs a second of `koala simulate multiqueue`, the whole process, and of a plain Python loop that
does the same for one policy and nothing else: no statistics, no other policies, no options.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from heapq import heappop, heappush
from math import log
from pathlib import Path
from random import Random
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from tests.bench.figures import Figure
from tests.harness.children import module_command

LEAST_JOBS_PER_S = 20_000.0
PLAIN = "jobs of a plain loop"


def measure(_folder: Path, is_quick: bool) -> list[Figure]:
    """Both at a load at which queues form."""
    jobs = 60_000 if is_quick else 300_000
    plain = plain_jobs_per_s(jobs)
    return [
        Figure(name=PLAIN, value=plain, unit="/s", how="GS alone, CPU time"),
        *(
            Figure(
                name=f"simulated jobs, {policy}",
                value=jobs_per_s(policy, jobs),
                unit="/s",
                how=f"koala simulate multiqueue, {jobs} jobs, whole process, CPU time",
                limit=LEAST_JOBS_PER_S,
                is_least=True,
                reference=plain,
                reference_name=PLAIN,
            )
            for policy in ("GS", "LS-DO", "LP-GF", "LQ")
        ),
    ]


def jobs_per_s(policy: str, jobs: int) -> float:
    """Measure one process on one core, from its start to its end."""
    words = (
        f"simulate multiqueue --policy {policy} --utilization 0.75 --jobs {jobs} --warmup 1000"
        " --reps 1 --workers 1 --json"
    )
    before = cpu_s()
    subprocess.run(
        [
            *module_command("koala.cli.main", *words.split()),
            "--jobs",
            str(jobs),
            "--warmup",
            "1000",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    return jobs / (cpu_s() - before)


def cpu_s() -> float:
    """That all children have used."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain_jobs_per_s(jobs: int) -> float:
    """GS on four clusters of 32, sizes uniform on 1 to 7, one to four components."""
    begun_s = process_time()
    random = Random(1).random
    idle, queue = [32] * 4, deque[tuple[float, float, list[int]]]()
    running: list[tuple[float, int, list[int], list[int]]] = []
    at, response, gap = 0.0, 0.0, 2.5 * 4 / (0.75 * 128)
    for number in range(jobs):
        at -= log(1 - random()) * gap
        while running and running[0][0] <= at:
            now, _, sites, sizes = heappop(running)
            for site, size in zip(sites, sizes, strict=True):
                idle[site] += size
            response += _start(now, queue, idle, running)
        sizes = [1 + int(7 * random()) for _ in range(1 + int(4 * random()))]
        sizes.sort(reverse=True)
        queue.append((at, -log(1 - random()), sizes))
        if len(queue) == 1:
            response += _start(at, queue, idle, running, number)
    assert response > jobs / 2
    return jobs / (process_time() - begun_s)


def _start(
    now: float,
    queue: deque[tuple[float, float, list[int]]],
    idle: list[int],
    running: list[tuple[float, int, list[int], list[int]]],
    number: int = 0,
) -> float:
    """Start what fits from the head on; the sum of the response times."""
    response = 0.0
    while queue:
        at, service, sizes = queue[0]
        sites = sorted(range(4), key=idle.__getitem__, reverse=True)[: len(sizes)]
        if any(idle[site] < size for site, size in zip(sites, sizes, strict=True)):
            break
        queue.popleft()
        for site, size in zip(sites, sizes, strict=True):
            idle[site] -= size
        heappush(running, (now + service, number, sites, sizes))
        response += now + service - at
    return response
