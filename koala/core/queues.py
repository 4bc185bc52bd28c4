"""The placement queues (KOALA 3.1): high, low, and outside them the submissions delayed while they
are full, and the jobs whose deadline says when they are tried.
"""

from __future__ import annotations

from koala.core.job import Job, Placing
from koala.core.values import Instant, JobId, Priority, Seconds


class Queues:
    """High, low, timed and delayed jobs, each in order; every job stands in at most one of them.

    A timed job waits for instants of its own: no discipline visits it, it lets others pass, and
    does not age (Deadlines 2.2: such jobs are not scheduled in order of arrival).
    """

    __slots__ = ("_queues", "delayed", "scans", "timed")

    def __init__(self) -> None:
        self._queues: dict[Priority, dict[JobId, Job]] = {Priority.HIGH: {}, Priority.LOW: {}}
        self.timed: dict[JobId, Job] = {}
        self.delayed: dict[JobId, Job] = {}
        self.scans = 0

    def __len__(self) -> int:
        """The sum of the lengths of the placement queues; delayed jobs stand outside."""
        return sum(len(queue) for queue in self._queues.values()) + len(self.timed)

    def append(self, job: Job) -> None:
        """To the tail of the queue of the job's priority, or of those with a deadline."""
        queue = self._queues[job.spec.priority] if job.deadline_at is None else self.timed
        queue[job.id] = job

    def remove(self, job: Job) -> None:
        """Out of whatever queue it stands in."""
        self._queues[job.spec.priority].pop(job.id, None)
        self.timed.pop(job.id, None)
        self.delayed.pop(job.id, None)

    def queue(self, priority: Priority) -> tuple[Job, ...]:
        """The jobs of one queue, head first."""
        return tuple(self._queues[priority].values())

    def order(self) -> list[list[JobId]]:
        """Ids in the high, the low and the delayed queue, head first."""
        high, low = (self._queues[p] for p in (Priority.HIGH, Priority.LOW))
        return [list(high), list(low), list(self.delayed)]

    def aged(self, now: Instant, ageing_s: Seconds) -> list[Job]:
        """Jobs that have waited for `ageing_s`, longest first. Tails only grow older, so they are a
        prefix of each queue.
        """
        found: list[tuple[Instant, Job]] = []
        for queue in self._queues.values():
            for job in queue.values():
                assert isinstance(job.phase, Placing)
                if now - job.phase.queued_at < ageing_s:
                    break
                found.append((job.phase.queued_at, job))
        return [job for _, job in sorted(found, key=lambda entry: entry[0])]
