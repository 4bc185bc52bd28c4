"""The event loop of a replay: completions, arrivals, then one pass of the local manager.

It is one loop over plain tuples instead of calls by `sim.engine`, because logs have hundreds
of thousands of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import Any

from koala.common.protocol.ordering import OrderPolicy
from koala.lab.sim.log_replay.events import Change
from koala.lab.sim.log_replay.tally import Ended
from koala.lab.workload.arrivals import Arrival
from koala.queue_model import ConservativeQueue, Discipline, LocalQueue, local_queue

Owners = Mapping[int, tuple[str, int]]
"""User and queue number of each job, by its number in the log."""
_NEVER = 1 << 62
_NONE: Arrival = (_NEVER, -1, 0, 0, 0)
"""Sentinel after the last arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Running and waiting jobs after all events until `at`, by their numbers in the log; running
    ones in order of start, waiting ones in order of submission."""

    at: float
    running: tuple[tuple[int, int, int, int], ...]
    """Job, submit, start, processors."""
    waiting: tuple[tuple[int, int, int], ...]
    """Job, submit, processors."""
    available: int


class TraceRun:
    """A site with the arriving jobs of its users."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        *,
        processors: int,
        discipline: Discipline | OrderPolicy,
        owners: Owners | None = None,
    ) -> None:
        """`owners` are known where an order needs them."""
        self.now = 0
        self.waiting_max = 0
        self.lost_area = 0
        """Processor-seconds of jobs that were killed or put back."""
        self.killed = 0
        self.requeued = 0
        self.ended: list[Ended] = []
        """Jobs that ended since the caller last collected them."""
        self.cut: list[Ended] = []
        """Jobs that were killed since then."""
        self.queue: LocalQueue[int] = local_queue(processors=processors, discipline=discipline)
        self._owners = owners or {}
        self._submit = self._submit_owned if owners is not None else self.queue.submit
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next = next(self._arrivals, _NONE)
        self._forced_at = math.inf
        """An instant at which a pass is due without another event."""
        self._arrived = 0
        """Number of arrivals; a job's key is its number among them, from 1."""
        self._waiting: dict[int, Arrival] = {}
        self._ends: list[Ended] = []
        """Heap of the running jobs."""

    # Going on ---------------------------------------------------------------------------------

    def go_on(  # noqa: C901 - one loop: a call an event would cost as much as what it does
        self, before: float, *, instants: int
    ) -> bool:
        """Process all events before an instant, or so many instants of them; return True if there
        may be more."""
        queue, ends, waiting = self.queue, self._ends, self._waiting
        submit, end, advance = self._submit, queue.end, queue.advance
        start_at_once = queue.start_at_once
        arrival, arrivals, key = self._next, self._arrivals, self._arrived
        ended, waiting_max, now = self.ended, self.waiting_max, self.now
        forced_at = self._forced_at
        may_wake = isinstance(queue, ConservativeQueue) or forced_at < math.inf
        may_be_more = True
        for _ in repeat(None, instants):
            coming = arrival[0]
            if ends and ends[0][0] < coming:
                coming = ends[0][0]
            if may_wake:
                coming = int(min(coming, queue.wake_at, forced_at))
            if coming >= before or coming == _NEVER:
                may_be_more = False
                break
            now = coming
            while ends and ends[0][0] == now:
                over = heappop(ends)
                end(over[1])
                ended.append(over)
            while arrival[0] == now:
                key += 1
                _, _, processors, run_s, estimate_s = arrival
                if not waiting and start_at_once(
                    key, processors=processors, estimate_s=estimate_s, now=now
                ):
                    heappush(ends, (now + run_s, key, arrival, now))
                else:
                    waiting[key] = arrival
                    submit(key, processors=processors, estimate_s=estimate_s)
                arrival = next(arrivals, _NONE)
            if waiting:
                for started in advance(now):
                    job = waiting.pop(started)
                    heappush(ends, (now + job[3], started, job, now))
                if len(waiting) > waiting_max:  # noqa: PLR1730 - quicker than a call
                    waiting_max = len(waiting)
        self._next, self._arrived, self.waiting_max, self.now = arrival, key, waiting_max, now
        return may_be_more

    def _submit_owned(self, key: int, *, processors: int, estimate_s: float) -> None:
        user, priority = self._owners.get(self._waiting[key][1], ("", 0))
        self.queue.submit(
            key, processors=processors, estimate_s=estimate_s, user=user, priority=priority
        )

    def change(self, change: Change) -> None:
        """Fail or return processors, between the completions and the arrivals of an instant that is
        next."""
        now = change.at
        self.now = now
        while self._ends and self._ends[0][0] == now:
            over = heappop(self._ends)
            self.queue.end(over[1])
            self.ended.append(over)
        if change.failing:
            self._fail(change.failing, is_requeued=change.is_requeued)
        self.queue.regain(change.returning)

    def finish_instant(self, at: int) -> None:
        """Process the arrivals and the pass of an instant with a change."""
        self._forced_at = at
        self.go_on(at + 1, instants=1)
        self._forced_at = math.inf

    def _fail(self, processors: int, *, is_requeued: bool) -> None:
        running = self.running()
        victims: list[Ended] = []
        while self.queue.idle < processors:
            victims.append(running.pop())
            self.queue.end(victims[-1][1])
        self._ends[:] = running
        heapify(self._ends)
        for _, key, job, start in victims:
            self.lost_area += job[2] * (self.now - start)
            if is_requeued:
                self._waiting[key] = job
                self.queue.put_back(key, processors=job[2], estimate_s=job[4])
                self.requeued += 1
            else:
                self.cut.append((self.now, key, job, start))
                self.killed += 1
        self.queue.lose(processors)

    def running(self) -> list[Ended]:
        """List the running jobs in order of start."""
        by_key = {job[1]: job for job in self._ends}
        return [by_key[key] for key in self.queue.running]

    # What there is ----------------------------------------------------------------------------

    def state(self) -> State:
        """Return the running and waiting jobs now."""
        jobs = self._waiting
        return State(
            at=self.now,
            running=tuple((job[1], job[0], start, job[2]) for _, _, job, start in self.running()),
            waiting=tuple((jobs[k][1], jobs[k][0], jobs[k][2]) for k in self.queue.order()),
            available=self.queue.available,
        )

    @property
    def is_over(self) -> bool:
        """True when no event is left."""
        return not self._ends and self._next is _NONE and self.queue.wake_at == math.inf

    @property
    def arrived(self) -> int:
        """Number of jobs that have arrived."""
        return self._arrived

    # To go on another time --------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Return the state that another process needs to go on, as plain values."""
        reservations = None
        if isinstance(self.queue, ConservativeQueue):
            reservations = [*self.queue.reservations.items()]
        return {
            "now": self.now,
            "arrived": self._arrived,
            "waiting_max": self.waiting_max,
            "lost_area": self.lost_area,
            "killed": self.killed,
            "requeued": self.requeued,
            "available": self.queue.available,
            "running": [(key, job, start) for _, key, job, start in self.running()],
            "waiting": [(key, self._waiting[key]) for key in self.queue.order()],
            "reservations": reservations,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore a new run, which was given the arrivals from the next one on, from the saved
        state."""
        self.now, self._arrived, self.waiting_max = (
            kept[name] for name in ("now", "arrived", "waiting_max")
        )
        self.lost_area = kept["lost_area"]
        self.killed, self.requeued = kept["killed"], kept["requeued"]
        queue = self.queue
        queue.lose(queue.processors - kept["available"])
        for key, job, start in kept["running"]:
            queue.occupy(key, processors=job[2], until=start + job[4])
            self._ends.append((start + job[3], key, tuple(job), start))
        heapify(self._ends)
        for key, job in kept["waiting"]:
            self._waiting[key] = tuple(job)
            queue.submit(key, processors=job[2], estimate_s=job[4])
        if isinstance(queue, ConservativeQueue):
            queue.restore(dict(kept["reservations"]), self.now)
