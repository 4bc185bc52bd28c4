"""`python -m tests.bench.plain_trace FILE POLICY OUT`: a replay as short as plain Python makes it.

One policy after the definition, a list that is searched, no checks, no figures, no streams: what a
replay of `koala simulate trace` is compared with. It imports nothing of Koala.
"""

from __future__ import annotations

import gzip
import sys
from bisect import bisect_left, insort
from heapq import heappop, heappush
from pathlib import Path

Job = tuple[int, int, int, int, int]
"""Submit, number, processors, run time, estimate."""


def main() -> int:
    """The command."""
    path, policy, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    jobs, processors = read(path)
    starts = replay(jobs, processors, is_easy=policy == "easy")
    with out.open("w", encoding="ascii") as file:
        file.writelines(
            f"{job[1]},{job[0]},{start},{start + job[3]},{job[2]}\n"
            for job, start in zip(jobs, starts, strict=True)
        )
    return 0


def read(path: Path) -> tuple[list[Job], int]:
    """The jobs of a log (Standard Workload Format), and the processors that its header says."""
    processors = nodes = 0
    jobs = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith(";"):
                words = line[1:].split()
                if words[:1] == ["MaxProcs:"]:
                    processors = int(words[1])
                elif words[:1] == ["MaxNodes:"]:
                    nodes = int(words[1])
                continue
            fields = line.split()
            size = int(fields[4])
            if size <= 0:
                size = int(fields[7])
            submit, run = int(float(fields[1])), int(float(fields[3]))
            if size > 0 and run >= 0 and submit >= 0 and size <= (processors or nodes or size):
                run = run or 1
                jobs.append((submit, int(fields[0]), size, run, max(int(float(fields[8])), run)))
    jobs.sort(key=lambda job: job[0])
    first = jobs[0][0]
    return [(job[0] - first, *job[1:]) for job in jobs], processors or nodes


def replay(jobs: list[Job], processors: int, *, is_easy: bool) -> list[int]:
    """Return the start of each job."""
    starts = [0] * len(jobs)
    ends: list[tuple[int, int]] = []
    releases: list[tuple[int, int]] = []
    queue: list[int] = []
    head = arrived = 0
    idle = processors
    while ends or arrived < len(jobs):
        now = ends[0][0] if ends else jobs[arrived][0]
        if arrived < len(jobs) and jobs[arrived][0] < now:
            now = jobs[arrived][0]
        while ends and ends[0][0] == now:
            done = heappop(ends)[1]
            idle += jobs[done][2]
            if is_easy:
                del releases[bisect_left(releases, (starts[done] + jobs[done][4], jobs[done][2]))]
        while arrived < len(jobs) and jobs[arrived][0] == now:
            queue.append(arrived)
            arrived += 1
        chosen = []
        while head < len(queue) and jobs[queue[head]][2] <= idle:
            chosen.append(queue[head])
            idle -= jobs[queue[head]][2]
            head += 1
        begin(chosen, jobs, starts, now, ends, releases)
        if is_easy and idle and head + 1 < len(queue):
            chosen = backfill(queue, head, jobs, releases, idle, now)
            for index in chosen:
                idle -= jobs[index][2]
                queue.remove(index)
            begin(chosen, jobs, starts, now, ends, releases)
        if head > 1_000:
            del queue[:head]
            head = 0
    return starts


def begin(
    chosen: list[int],
    jobs: list[Job],
    starts: list[int],
    now: int,
    ends: list[tuple[int, int]],
    releases: list[tuple[int, int]],
) -> None:
    """These jobs start."""
    for index in chosen:
        starts[index] = now
        heappush(ends, (now + jobs[index][3], index))
        insort(releases, (now + jobs[index][4], jobs[index][2]))


def backfill(
    queue: list[int],
    head: int,
    jobs: list[Job],
    releases: list[tuple[int, int]],
    idle: int,
    now: int,
) -> list[int]:
    """Those behind the head that may start."""
    needed, free, shadow = jobs[queue[head]][2], idle, 0
    for at, size in releases:
        if free >= needed and at > shadow:
            break
        free += size
        shadow = at if free - size < needed else shadow
    extra = free - needed
    chosen = []
    for index in queue[head + 1 :]:
        job = jobs[index]
        if job[2] > idle:
            continue
        if now + job[4] > shadow:
            if job[2] > extra:
                continue
            extra -= job[2]
        idle -= job[2]
        chosen.append(index)
    return chosen


if __name__ == "__main__":
    sys.exit(main())
