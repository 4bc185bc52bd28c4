"""Placement queues: jobs that wait to be placed, in order, and submissions delayed while they are
full.

The queue discipline decides which queues exist and which job joins which queue: high and low
(KOALA 3.1), or a global queue and one for each site (Multiple queues 2.5).
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import TypeAlias

from koala.core.model.job import Job, Placing
from koala.core.model.values import Instant, JobId, Priority, QueueName, Seconds, SiteName

JobQueue: TypeAlias = dict[JobId, Job]
"""The jobs of one queue, head first."""

GLOBAL = QueueName("*")
BY_PRIORITY = {Priority.HIGH: QueueName("*high"), Priority.LOW: QueueName("*low")}
"""No site can have such a name; a local queue has the name of its site."""


def local_site(queue: QueueName | None) -> SiteName | None:
    """Return the site whose local queue it is."""
    return None if queue is None or queue.startswith("*") else SiteName(queue)


def queue_label(queue: QueueName) -> str:
    """Return a short name of a queue: high, low, global, or the name of its site."""
    return queue.removeprefix("*") or "global"


def describe_queue(queue: QueueName) -> str:
    """Describe a queue in a sentence for people."""
    if queue == GLOBAL:
        return "the global queue"
    return f"the {queue[1:]} queue" if queue.startswith("*") else f"the queue of {queue}"


class Queues:
    """Named queues, timed jobs, delayed jobs, and the memory of disciplines as plain data.

    - Every job is in at most one of them.
    - A timed job waits for its own instants: no discipline visits it, it blocks no other job, and
      it does not age (Deadlines 2.2: such jobs are not scheduled in order of arrival).
    """

    __slots__ = (
        "delayed",
        "departures",
        "disabled",
        "discipline",
        "freed",
        "lines",
        "scans",
        "timed",
    )

    def __init__(self) -> None:
        self.discipline = "koala"  # its name
        self.lines: dict[QueueName, JobQueue] = {name: {} for name in BY_PRIORITY.values()}
        self.timed: JobQueue = {}
        self.delayed: JobQueue = {}
        self.scans = 0
        self.disabled: dict[QueueName, None] = {}  # their heads did not fit, in that order
        self.departures = 0  # changes at which all queues were enabled
        self.freed: dict[SiteName, None] = {}  # sites that have more idle since the last of them

    def __len__(self) -> int:
        """Return the number of queued jobs, timed ones included; delayed jobs do not count."""
        return sum(map(len, self.lines.values())) + len(self.timed)

    def append(self, job: Job, queue: QueueName) -> None:
        """Append a job to the tail of this queue."""
        job.queue = queue
        self.lines.setdefault(queue, {})[job.id] = job

    def remove(self, job: Job) -> None:
        """Remove a job from the queue that it is in, if any."""
        if job.queue is not None:
            self.lines.get(job.queue, {}).pop(job.id, None)
        self.timed.pop(job.id, None)
        self.delayed.pop(job.id, None)

    def jobs(self, queue: QueueName) -> tuple[Job, ...]:
        """Return the jobs of one queue, head first."""
        return tuple(self.lines.get(queue, {}).values())

    def of(self, job: Job) -> QueueName:
        """Return the queue of a queued job."""
        assert job.queue is not None, job.id
        return job.queue

    def regroup(self, discipline: str, names: tuple[QueueName, ...]) -> list[Job]:
        """Replace the queues by empty ones for another discipline; return the jobs of the old."""
        jobs = [job for line in self.lines.values() for job in line.values()]
        self.lines = {name: {} for name in names}
        self.discipline = discipline
        self.disabled = {}
        return jobs

    def order(self) -> list[list[JobId]]:
        """Return the ids of the jobs in each queue, head first; the last list holds the delayed
        jobs."""
        return [*(list(line) for line in self.lines.values()), list(self.delayed)]

    def has_aged(self, now: Instant, ageing_s: Seconds) -> bool:
        """Return True if a job has waited for `ageing_s`; looking at the heads is enough."""
        heads = (next(iter(line.values()), None) for line in self.lines.values())
        return any(head is not None and now - queued_at(head) >= ageing_s for head in heads)

    def aged(self, now: Instant, ageing_s: Seconds) -> list[Job]:
        """Return the jobs that have waited for `ageing_s`, longest first."""
        if not self.has_aged(now, ageing_s):
            return []  # as nearly always
        split = [split_aged(tuple(line.values()), now, ageing_s) for line in self.lines.values()]
        prefixes = [aged for aged, _ in split if aged]
        if len(prefixes) == 1:  # sorting asks for a key of each job, and queues can be long
            return list(prefixes[0])
        return sorted(chain.from_iterable(prefixes), key=queued_at)


def split_aged(
    jobs: tuple[Job, ...], now: Instant, ageing_s: Seconds
) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Split the jobs of a queue, head first, into those that have waited for `ageing_s` and the
    others. Jobs join at the tail, so the aged ones are a prefix."""
    end = bisect_left(jobs, True, key=lambda job: now - queued_at(job) < ageing_s)  # noqa: FBT003
    return jobs[:end], jobs[end:]


def queued_at(job: Job) -> Instant:
    """Return the instant at which a queued job joined its queue."""
    assert isinstance(job.phase, Placing)
    return job.phase.queued_at
