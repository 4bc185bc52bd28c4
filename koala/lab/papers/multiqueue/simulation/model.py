"""Model of the multiple-queues paper (Multiple queues 2).

It has clusters of processors, jobs that need processors in one or several clusters at once, and
queues in front, under any discipline of the live scheduler.

There are no claims and no messages, because in this model a placed job starts at once. The order of
queues (`koala.core.model.visiting`, `koala.policies.queueing.multiqueue`) and the fit of a job
(`koala.policies.placement.worst_fit`) are the daemon's code. A test has both start the same jobs at
the same instants. Departures have a heap of their own instead of `sim.engine`, because a run
makes hundreds of thousands of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from koala.core.model.values import FOREVER
from koala.core.model.visiting import Discipline, Visiting, is_draining_for_aged
from koala.lab.papers.multiqueue.simulation.arrivals import StreamJob
from koala.policies.placement.worst_fit import spread

_tuple = tuple.__new__
"""Makes a named tuple of its parts in a third of the time."""


class Started(NamedTuple):
    """A started job: its number among the arrivals, its queue (the number of a site, or of the
    global queue, which is one more than the last site's), and the sites of its components."""

    number: int
    job: StreamJob
    queue: int
    at: float
    sites: Sequence[int]


class System:
    """The clusters, their queues, and the jobs in both. `on_start` receives each job that
    starts. `is_reversed` visits the local queues from the last to the first."""

    def __init__(
        self,
        discipline: Discipline,
        sites: Sequence[int],
        *,
        coin: Callable[[], float],
        on_start: Callable[[Started], None],
        ageing: float = FOREVER,
        is_reversed: bool = False,
    ) -> None:
        self.now = 0.0
        self.global_queue = len(sites)
        self._idle = list(sites)
        self._waiting = 0
        self._queues: list[deque[tuple[int, StreamJob]]] = [deque() for _ in range(len(sites) + 1)]
        self._running: list[tuple[float, int, Sequence[int], tuple[int, ...]]] = []
        self._coin = coin
        self._on_start = on_start
        self._is_ageing = ageing < FOREVER
        self._ageing = ageing
        self._is_local = [discipline.is_local(count) for count in range(len(sites) + 1)]
        local = range(len(sites)) if discipline.has_local else range(0)
        self._visiting = Visiting(
            discipline,
            self._queues,
            local=tuple(reversed(local) if is_reversed else local),
            common=(self.global_queue,) if discipline.has_global else (),
            disabled={},
            waited_s=self._waited,
            ageing_s=ageing,
        )

    def depart_until(self, at: float) -> None:
        """Remove all jobs that end by this instant, one after the other."""
        running = self._running
        while running and running[0][0] <= at:
            self.depart()

    def arrive(self, number: int, job: StreamJob) -> None:
        """Add a job that arrives now."""
        self.now = job.at
        key = job.home if self._is_local[len(job.sizes)] else self.global_queue
        self._queues[key].append((number, job))
        self._waiting += 1
        if self._visiting.arrived(key) and not (self._is_ageing and self._is_draining_for_aged()):
            self._try(key)

    def depart(self) -> None:
        """Remove the job that ends next, and start the jobs that now fit."""
        self.now, _, sites, sizes = heappop(self._running)
        idle = self._idle
        if len(sizes) == 1:
            idle[sites[0]] += sizes[0]
        else:
            for site, size in zip(sites, sizes, strict=True):
                idle[site] += size
        draw = self._coin()
        if not self._waiting:
            return  # nor is a queue disabled: none has a head
        for key in self._visiting.departed(sites, draw):
            if not self._try(key) and self._is_ageing and self._must_drain(key):
                break

    def _try(self, key: int) -> bool:
        """Start the head of a queue if it fits (Multiple queues 2.4)."""
        queue = self._queues[key]
        number, job = queue[0]
        sizes, idle = job.sizes, self._idle
        sites: Sequence[int] | None
        if len(sizes) == 1 and key != self.global_queue:
            sites = (key,) if idle[key] >= sizes[0] else None
        else:
            sites = spread(sizes, idle)
        if sites is None:
            self._visiting.disabled[key] = None
            return False
        queue.popleft()
        self._waiting -= 1
        if len(sizes) == 1:
            idle[sites[0]] -= sizes[0]
        else:
            for site, size in zip(sites, sizes, strict=True):
                idle[site] -= size
        heappush(self._running, (self.now + job.service, number, sites, sizes))
        self._on_start(_tuple(Started, (number, job, key, self.now, sites)))
        return True

    # --- ageing, which is off unless asked for ---

    def _waited(self, key: int) -> float:
        queue = self._queues[key]
        return self.now - queue[0][1].at if queue else 0.0

    def _must_drain(self, key: int) -> bool:
        return is_draining_for_aged(self._waited(key), self._ageing)

    def _is_draining_for_aged(self) -> bool:
        """True if an aged head that does not fit blocks the arrivals behind it."""
        return any(map(self._must_drain, self._visiting.disabled))
