"""Queue with a fast search for jobs that may be backfilled.

Deep queues make a simulation slow. The queue is kept in blocks of consecutive jobs, each with a
summary: the smallest estimate of the jobs up to each size. So blocks in which nothing can start are
skipped in one step. The first and the last one change all the time: a scan of them is quicker than
a summary.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic

from koala.queue_model.queue import Key, Waiting

_JOBS_MAX = 256


class _Block(Generic[Key]):
    """Consecutive jobs. The summary has each size at which the smallest estimate of the jobs up to
    that size falls. Jobs that have left count until it is made again, so it may promise too much
    and never too little."""

    __slots__ = ("is_current", "jobs", "least_estimates", "sizes")

    def __init__(self, jobs: list[Waiting[Key]]) -> None:
        self.jobs = jobs
        self.is_current = False
        self.sizes: list[int] = []
        self.least_estimates: list[float] = []

    def sum_up(self) -> None:
        """Make the summary again."""
        self.sizes, self.least_estimates = [], []
        for size, estimate_s in sorted([(job[1], job[2]) for job in self.jobs]):
            if not self.sizes or estimate_s < self.least_estimates[-1]:
                self.sizes.append(size)
                self.least_estimates.append(estimate_s)
        self.is_current = True


class BackfillQueue(Generic[Key]):
    """Jobs in the order of the queue. No block is empty but the only one of an empty queue: most
    jobs of most logs come to an empty queue."""

    def __init__(self) -> None:
        self._blocks: list[_Block[Key]] = [_Block([])]

    @property
    def head(self) -> Waiting[Key]:
        """The first job of a queue that is not empty."""
        return self._blocks[0].jobs[0]

    def append(self, job: Waiting[Key]) -> None:
        """Add a job at the tail."""
        block = self._blocks[-1]
        if len(block.jobs) < _JOBS_MAX:
            block.jobs.append(job)
            block.is_current = False
        else:
            self._blocks.append(_Block([job]))

    def prepend(self, job: Waiting[Key]) -> None:
        """Add a job at the head."""
        self._blocks.insert(0, _Block([job]))
        self._compact()

    def insert(self, job: Waiting[Key], behind: Waiting[Key]) -> None:
        """Add a job right before another one; those at the head are found soonest."""
        for block in self._blocks:
            if behind in block.jobs:
                block.jobs.insert(block.jobs.index(behind), job)
                block.is_current = False
                return

    def take_from_head(self, idle: int) -> list[Waiting[Key]]:
        """Remove and return the jobs at the head that fit together."""
        taken: list[Waiting[Key]] = []
        jobs = self._blocks[0].jobs
        while jobs and jobs[0][1] <= idle:
            job = jobs.pop(0)
            idle -= job[1]
            taken.append(job)
            if not jobs:
                self._compact()
                jobs = self._blocks[0].jobs
        return taken

    def fitting(self, idle: int) -> list[Waiting[Key]] | None:
        """Return the jobs of a short queue that take no more than so many processors each; None for
        a long one, which is left to the summaries of `take`."""
        if len(self._blocks) > 1:
            return None
        return [job for job in self._blocks[0].jobs if job[1] <= idle]

    def remove(self, job: Waiting[Key]) -> None:
        """Remove a job; those at the tail are found soonest."""
        for block in reversed(self._blocks):
            try:
                block.jobs.remove(job)
            except ValueError:
                continue
            if not block.jobs:
                self._compact()
            return

    def take(
        self, *, idle: int, extra: int, now: float, shadow_at: float
    ) -> tuple[list[Waiting[Key]], int]:
        """Remove and return, in order, the jobs that fit and would leave by the shadow, or use no
        more than the extra processors; also return the remaining extra processors."""
        search: _Search[Key] = _Search(idle, extra, now, shadow_at)
        last = len(self._blocks) - 1
        for number, block in enumerate(self._blocks):
            if number in (0, last) or search.may_find(block):
                search.take_from(block)
                if not search.idle:
                    break
        if search.chosen:
            self._compact()
        return search.chosen, search.extra

    def _compact(self) -> None:
        """Merge small blocks into their predecessors, so that a long queue has few of them."""
        if len(self._blocks) == 1:
            return
        kept: list[_Block[Key]] = []
        for block in self._blocks:
            if kept and len(kept[-1].jobs) + len(block.jobs) <= _JOBS_MAX:
                kept[-1].jobs += block.jobs
                kept[-1].is_current = False
            elif block.jobs:
                kept.append(block)
        self._blocks = kept or [_Block([])]


class _Search(Generic[Key]):
    """State of one search: the remaining processors, and the chosen jobs."""

    __slots__ = ("chosen", "extra", "idle", "now", "shadow_at")

    def __init__(self, idle: int, extra: int, now: float, shadow_at: float) -> None:
        self.idle = idle
        self.extra = extra
        self.now = now
        self.shadow_at = shadow_at
        self.chosen: list[Waiting[Key]] = []

    def may_find(self, block: _Block[Key]) -> bool:
        """Test whether a job of this block may start; the summary may still count jobs that have
        left."""
        if not block.is_current:
            block.sum_up()
        fitting = bisect_right(block.sizes, self.idle)
        if not fitting:
            return False
        is_short = self.now + block.least_estimates[fitting - 1] <= self.shadow_at
        return is_short or block.sizes[0] <= self.extra

    def take_from(self, block: _Block[Key]) -> None:
        """Remove the jobs of a block that may start."""
        idle, extra, now, shadow_at = self.idle, self.extra, self.now, self.shadow_at
        found = []
        for job in [job for job in block.jobs if job[1] <= idle]:  # mostly few of them
            processors = job[1]
            if processors > idle:
                continue
            if now + job[2] > shadow_at:
                if processors > extra:
                    continue
                extra -= processors
            found.append(job)
            idle -= processors
            if not idle:
                break
        if not found:
            block.is_current = False  # it promised too much
            return
        for job in found:
            block.jobs.remove(job)
        self.chosen += found
        self.idle, self.extra = idle, extra
