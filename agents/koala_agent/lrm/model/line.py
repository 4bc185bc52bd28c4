"""A queue that is searched for the first job of those that may start out of turn.

Deep queues are what makes a simulation slow. The line is kept in blocks of jobs that follow one
another; of each but the first and the last it is known which least estimate the jobs up to each
size have, so a whole block in which nothing can start is passed over in one step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Generic

from koala_agent.lrm.model.queue import Key, Waiting

_BLOCK = 128


class Block(Generic[Key]):
    """Some jobs that follow one another, as they wait."""

    __slots__ = ("_is_current", "_least_estimates", "_sizes", "jobs")

    def __init__(self) -> None:
        self.jobs: list[Waiting[Key]] = []
        self._sizes: list[int] = []
        self._least_estimates: list[float] = []
        self._is_current = False

    def may_start(self, *, idle: int, extra: int, now: float, shadow_at: float) -> bool:
        """Whether one of them fits, and is short enough or small enough."""
        if not self._is_current:
            self._summarise()
        fitting = bisect_right(self._sizes, idle)
        if not fitting:
            return False
        return now + self._least_estimates[fitting - 1] <= shadow_at or self._sizes[0] <= extra

    def remove(self, job: Waiting[Key]) -> None:
        """Takes a job out."""
        self.jobs.remove(job)
        self._is_current = False

    def take_in(self, other: Block[Key]) -> None:
        """Takes the jobs of the block that follows."""
        self.jobs += other.jobs
        self._is_current = False

    def _summarise(self) -> None:
        """Each size at which the least estimate of the jobs up to that size falls."""
        self._sizes, self._least_estimates = [], []
        for estimate_s, size in _falls(self.jobs):
            self._sizes.append(size)
            self._least_estimates.append(estimate_s)
        self._is_current = True


def _falls(jobs: list[Waiting[Key]]) -> Iterator[tuple[float, int]]:
    least = None
    for size, estimate_s in sorted({(job[1], job[2]) for job in jobs}):
        if least is None or estimate_s < least:
            least = estimate_s
            yield estimate_s, size


class Line(Generic[Key]):
    """Jobs in the order of their arrival."""

    def __init__(self) -> None:
        self.blocks: list[Block[Key]] = []

    def append(self, job: Waiting[Key]) -> None:
        """A job joins at the tail."""
        blocks = self.blocks
        if not blocks or len(blocks[-1].jobs) >= _BLOCK:
            blocks.append(Block())
        blocks[-1].jobs.append(job)

    def prepend(self, job: Waiting[Key]) -> None:
        """A job joins at the head."""
        first: Block[Key] = Block()
        first.jobs.append(job)
        self.blocks.insert(0, first)

    def behead(self) -> None:
        """The first job leaves."""
        jobs = self.blocks[0].jobs
        del jobs[0]
        if not jobs:
            del self.blocks[0]

    def remove(self, job: Waiting[Key]) -> None:
        """A job leaves; those at the tail are found soonest."""
        for index in range(len(self.blocks) - 1, -1, -1):
            if job in self.blocks[index].jobs:
                self.remove_from(index, [job])
                return

    def remove_from(self, index: int, jobs: list[Waiting[Key]]) -> None:
        """Jobs of one block leave. Blocks that have become small are joined, so that a long line
        has few of them."""
        block = self.blocks[index]
        for job in jobs:
            block.remove(job)
        if index + 1 < len(self.blocks):
            after = self.blocks[index + 1]
            if len(block.jobs) + len(after.jobs) <= _BLOCK:
                block.take_in(after)
                del self.blocks[index + 1]
        if not block.jobs:
            del self.blocks[index]
