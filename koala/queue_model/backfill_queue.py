"""Queue with a fast search for jobs that may be backfilled.

Deep queues make a simulation slow. The queue is kept in blocks of consecutive jobs, and these in
groups. Each block and group has a summary: the smallest estimate of the jobs up to each size. So
those in which nothing can start are skipped in one step. The first and the last ones change all the
time: a scan of them is quicker than a summary.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Generic

from koala.queue_model.queue import Key, Waiting

_JOBS_MAX = 128
_BLOCKS_MAX = 16


class _Summary:
    """Summary of some jobs: each size at which the smallest estimate of the jobs up to that size
    falls. Jobs that have left count until the next refresh, so it may promise too much and never
    too little."""

    __slots__ = ("is_current", "least_estimates", "sizes")

    def __init__(self) -> None:
        self.is_current = False
        self.sizes: list[int] = []
        self.least_estimates: list[float] = []

    def sum_up(self, requests: Iterable[tuple[int, float]]) -> None:
        """Rebuild the summary from sizes and estimates."""
        self.sizes, self.least_estimates = [], []
        for size, estimate_s in sorted(requests):
            if not self.sizes or estimate_s < self.least_estimates[-1]:
                self.sizes.append(size)
                self.least_estimates.append(estimate_s)
        self.is_current = True


class _Block(_Summary, Generic[Key]):
    __slots__ = ("jobs",)

    def __init__(self, jobs: list[Waiting[Key]]) -> None:
        super().__init__()
        self.jobs = jobs

    def refresh(self) -> None:
        if not self.is_current:
            self.sum_up([(job[1], job[2]) for job in self.jobs])


class _Group(_Summary, Generic[Key]):
    __slots__ = ("blocks",)

    def __init__(self, blocks: list[_Block[Key]]) -> None:
        super().__init__()
        self.blocks = blocks

    def refresh(self) -> None:
        if self.is_current:
            return
        requests: list[tuple[int, float]] = []
        for block in self.blocks:
            block.refresh()
            requests += zip(block.sizes, block.least_estimates, strict=True)
        self.sum_up(requests)

    def compact(self) -> None:
        """Merge small blocks into their predecessors, and drop empty ones."""
        kept: list[_Block[Key]] = []
        for block in self.blocks:
            if kept and len(kept[-1].jobs) + len(block.jobs) <= _JOBS_MAX:
                kept[-1].jobs += block.jobs
                kept[-1].is_current = False
            elif block.jobs:
                kept.append(block)
        self.blocks = kept


class BackfillQueue(Generic[Key]):
    """Jobs in the order of the queue. No block is empty but the only one of an empty queue: most
    jobs of most logs come to an empty queue."""

    def __init__(self) -> None:
        self._groups: list[_Group[Key]] = [_Group([_Block([])])]

    @property
    def head(self) -> Waiting[Key]:
        """The first job of a queue that is not empty."""
        return self._groups[0].blocks[0].jobs[0]

    def append(self, job: Waiting[Key]) -> None:
        """Add a job at the tail."""
        group = self._groups[-1]
        block = group.blocks[-1]
        if len(block.jobs) < _JOBS_MAX:
            block.jobs.append(job)
            block.is_current = group.is_current = False
        elif len(group.blocks) < _BLOCKS_MAX:
            group.blocks.append(_Block([job]))
            group.is_current = False
        else:
            self._groups.append(_Group([_Block([job])]))

    def prepend(self, job: Waiting[Key]) -> None:
        """Add a job at the head."""
        self._groups.insert(0, _Group([_Block([job])]))
        self._compact(self._groups[:2])

    def insert(self, job: Waiting[Key], behind: Waiting[Key]) -> None:
        """Add a job right before another one; those at the head are found soonest."""
        for group in self._groups:
            for block in group.blocks:
                if behind in block.jobs:
                    block.jobs.insert(block.jobs.index(behind), job)
                    block.is_current = group.is_current = False
                    return

    def take_from_head(self, idle: int) -> list[Waiting[Key]]:
        """Remove and return the jobs at the head that fit together."""
        taken: list[Waiting[Key]] = []
        jobs = self._groups[0].blocks[0].jobs
        while jobs and jobs[0][1] <= idle:
            job = jobs.pop(0)
            idle -= job[1]
            taken.append(job)
            if not jobs:
                self._compact(self._groups[:1])
                jobs = self._groups[0].blocks[0].jobs
        return taken

    def fitting(self, idle: int) -> list[Waiting[Key]] | None:
        """Return the jobs of a short queue that take no more than so many processors each; None for
        a long one, which is left to the summaries of `take`."""
        if len(self._groups) > 1 or len(self._groups[0].blocks) > 1:
            return None
        return [job for job in self._groups[0].blocks[0].jobs if job[1] <= idle]

    def remove(self, job: Waiting[Key]) -> None:
        """Remove a job; those at the tail are found soonest."""
        for group in reversed(self._groups):
            for block in reversed(group.blocks):
                try:
                    block.jobs.remove(job)
                except ValueError:
                    continue
                if not block.jobs:
                    self._compact([group])
                return

    def take(
        self, *, idle: int, extra: int, now: float, shadow_at: float
    ) -> tuple[list[Waiting[Key]], int]:
        """Remove and return, in order, the jobs that fit and would leave by the shadow, or use no
        more than the extra processors; also return the remaining extra processors."""
        search: _Search[Key] = _Search(idle, extra, now, shadow_at)
        changed: list[_Group[Key]] = []
        last = len(self._groups) - 1
        for number, group in enumerate(self._groups):
            is_end = number in (0, last)
            if not is_end and not search.may_find(group):
                continue
            before = len(search.chosen)
            first_block = 0 if number == 0 else -1
            last_block = len(group.blocks) - 1 if number == last else -1
            for index, block in enumerate(group.blocks):
                if index in (first_block, last_block) or search.may_find(block):
                    search.take_from(block)
                    if not search.idle:
                        break
            if len(search.chosen) > before:
                changed.append(group)
            else:
                group.is_current = False  # it promised too much
            if not search.idle:
                break
        if changed:
            self._compact(changed)
        return search.chosen, search.extra

    def _compact(self, changed: list[_Group[Key]]) -> None:
        """Merge small blocks and groups, so that a long queue has few of them."""
        if len(self._groups) == len(self._groups[0].blocks) == 1:
            return
        for group in changed:
            group.compact()
        if min(len(group.blocks) for group in changed) > _BLOCKS_MAX // 2:
            return
        kept: list[_Group[Key]] = []
        for group in self._groups:
            if kept and len(kept[-1].blocks) + len(group.blocks) <= _BLOCKS_MAX:
                kept[-1].blocks += group.blocks
                kept[-1].is_current = False
            elif group.blocks:
                kept.append(group)
        self._groups = kept or [_Group([_Block([])])]


class _Search(Generic[Key]):
    """State of one search: the remaining processors, and the chosen jobs."""

    __slots__ = ("chosen", "extra", "idle", "now", "shadow_at")

    def __init__(self, idle: int, extra: int, now: float, shadow_at: float) -> None:
        self.idle = idle
        self.extra = extra
        self.now = now
        self.shadow_at = shadow_at
        self.chosen: list[Waiting[Key]] = []

    def may_find(self, part: _Block[Key] | _Group[Key]) -> bool:
        """Test whether a job of this part may start; the summary may still count jobs that have
        left."""
        if not part.is_current:
            part.refresh()
        fitting = bisect_right(part.sizes, self.idle)
        if not fitting:
            return False
        is_short = self.now + part.least_estimates[fitting - 1] <= self.shadow_at
        return is_short or part.sizes[0] <= self.extra

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
