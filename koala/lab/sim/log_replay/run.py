"""A site with the arriving jobs of its users, on the engine of all simulations.

At an instant come completions, then changes, arrivals, one pass of the local manager, breakpoints.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from koala.common.protocol.ordering import OrderPolicy
from koala.lab.sim.engine import Engine, Entry, Rank
from koala.lab.sim.log_replay.events import Change
from koala.lab.sim.log_replay.job_files import JobRows
from koala.lab.sim.log_replay.series import Series
from koala.lab.sim.log_replay.tally import Ended, Tally
from koala.lab.workload.arrivals import Arrival
from koala.queue_model import Discipline, LocalQueue, local_queue

Owners = Mapping[int, tuple[str, int]]
"""User and queue number of each job, by its number in the log."""
_STEPS = 2_000
"""Number of events between two calls of `poll`."""


class TraceRun:
    """A run of a site. `poll` is called often; it returns True to stop, and may report progress."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        *,
        processors: int,
        discipline: Discipline | OrderPolicy,
        owners: Owners | None = None,
        changes: Sequence[Change] = (),
        rows: JobRows | None = None,
        series: Series | None = None,
        poll: Callable[[], bool] = lambda: False,
    ) -> None:
        """`owners` are known where an order needs them."""
        self.arrived = 0
        """Number of arrivals; a job's key is its number among them, from 1."""
        self.stopped_at: int | None = None
        self._engine = Engine()
        self._queue: LocalQueue[int] = local_queue(processors=processors, discipline=discipline)
        self._owners = owners
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._waiting: dict[int, Arrival] = {}
        self._running: dict[int, Ended] = {}
        self._ended: list[Ended] = []
        self._is_pass_due = False
        self._wake: Entry | None = None
        self._rows, self._series, self._poll = rows, series, poll
        self._tally = Tally()
        self._waiting_max = self._lost_area = self._killed = self._requeued = 0
        self._breakpoints: list[dict[str, Any]] = []
        for change in changes:
            call = self._break if change.is_breakpoint else self._change
            rank = Rank.WAKE if change.is_breakpoint else Rank.CHANGE
            self._engine.at(change.at, partial(call, change), rank=rank)
        self._await_arrival()

    def go(self, until: int | None = None) -> None:
        """Run to the end or to a stop: after all events at `until`, at a stopping breakpoint, or
        when `poll` says so."""
        end = math.inf if until is None else until
        while self.stopped_at is None and self._engine.run_some(end, most=_STEPS):
            self._flush(self._engine.now)
            if self.stopped_at is None and self._poll():
                self.stopped_at = int(self._engine.now)
        self._flush(math.inf)
        is_over = not self._running and self._next is None and self._wake is None
        if self.stopped_at is None and until is not None and not is_over:
            self.stopped_at = until

    def document(self) -> dict[str, Any]:
        """Return the figures, for JSON."""
        tally = self._tally
        end = tally.last_end if self.stopped_at is None else self.stopped_at
        held = tally.area + self._lost_area
        state = self._state(end)
        if self.stopped_at is not None:
            held += sum(row["processors"] * (end - row["start"]) for row in state["running"])
        return {
            "jobs": tally.jobs,
            "killed": self._killed,
            "requeued": self._requeued,
            "never_started": len(state["waiting"]) if self.stopped_at is None else 0,
            "makespan": end,
            "utilization": round(held / (self._queue.processors * end), 6) if end else None,
            "waiting_max": self._waiting_max,
            **tally.document(),
            "breakpoints": self._breakpoints,
            "stopped": None if self.stopped_at is None else state,
        }

    def running(self) -> list[Ended]:
        """List the running jobs in order of start, with the ends that they will have."""
        return [self._running[key] for key in self._queue.running]

    # Arrivals and completions -----------------------------------------------------------------

    def _await_arrival(self) -> None:
        if self._next is not None:
            self._engine.at(self._next[0], self._arrive, rank=Rank.ARRIVAL)

    def _arrive(self) -> None:
        """Start or queue all jobs that arrive at this instant; most of a run is this and `_end`."""
        now, waiting, queue, arrivals = self._engine.now, self._waiting, self._queue, self._arrivals
        arrival, key = self._next, self.arrived
        while arrival is not None and arrival[0] == now:
            key += 1
            _, _, processors, _, estimate_s = arrival
            if not waiting and queue.start_at_once(
                key, processors=processors, estimate_s=estimate_s, now=now
            ):
                self._start(key, arrival)
            else:
                waiting[key] = arrival
                self._submit(key, arrival)
            arrival = next(arrivals, None)
        self._next, self.arrived = arrival, key
        self._await_arrival()
        self._pass_soon()

    def _submit(self, key: int, job: Arrival) -> None:
        _, number, processors, _, estimate_s = job
        if self._owners is None:
            self._queue.submit(key, processors=processors, estimate_s=estimate_s)
        else:
            user, priority = self._owners.get(number, ("", 0))
            self._queue.submit(
                key, processors=processors, estimate_s=estimate_s, user=user, priority=priority
            )

    def _start(self, key: int, job: Arrival) -> None:
        now = int(self._engine.now)
        self._running[key] = run = (now + job[3], key, job, now)
        self._engine.surely_at(run[0], partial(self._end, run))

    def _end(self, run: Ended) -> None:
        key = run[1]
        if self._running.get(key) is not run:
            return  # killed or put back by failing processors
        del self._running[key]
        self._queue.end(key)
        self._ended.append(run)
        self._pass_soon()

    # Passes -----------------------------------------------------------------------------------

    def _pass_soon(self) -> None:
        if not self._waiting or self._is_pass_due:
            return
        if self._engine.is_last_of_instant:
            self._pass()
        else:
            self._is_pass_due = True
            self._engine.at(self._engine.now, self._pass, rank=Rank.PASS)

    def _pass(self) -> None:
        self._is_pass_due = False
        for key in self._queue.advance(self._engine.now):
            self._start(key, self._waiting.pop(key))
        self._waiting_max = max(self._waiting_max, len(self._waiting))
        wake_at = self._queue.wake_at
        if self._wake is not None:
            self._wake.cancel()
        is_due = wake_at < math.inf
        self._wake = self._engine.at(int(wake_at), self._pass, rank=Rank.PASS) if is_due else None

    # Changes and breakpoints ------------------------------------------------------------------

    def _change(self, change: Change) -> None:
        """Fail or return processors."""
        now = change.at
        self._flush(math.inf)  # those that are killed ended after what ended by itself
        running = self.running()
        cut: list[Ended] = []
        while self._queue.idle < change.failing:
            _, key, job, start = running.pop()
            self._queue.end(key)
            del self._running[key]
            self._lost_area += job[2] * (now - start)
            if change.is_requeued:
                self._waiting[key] = job
                self._queue.put_back(key, processors=job[2], estimate_s=job[4])
                self._requeued += 1
            else:
                cut.append((now, key, job, start))
                self._killed += 1
        self._queue.lose(change.failing)
        self._queue.regain(change.returning)
        if self._rows is not None:
            self._rows.add((), cut)
        self._pass_soon()

    def _break(self, change: Change) -> None:
        """Record the state after all events of an instant."""
        self._breakpoints.append(self._state(change.at))
        if change.is_stop:
            self.stopped_at = change.at
            self._engine.pause()

    def _state(self, at: int) -> dict[str, Any]:
        """Return the running jobs in order of start, and the waiting ones in order of submission,
        by their numbers in the log."""
        running = self.running()
        waiting = [self._waiting[key] for key in self._queue.order()]
        return {
            "at": at,
            "arrived": self.arrived,
            "available": self._queue.available,
            "busy": sum(job[2] for _, _, job, _ in running),
            "running": [
                {"job": job[1], "submit": job[0], "start": start, "processors": job[2]}
                for _, _, job, start in running
            ],
            "waiting": [{"job": job[1], "submit": job[0], "processors": job[2]} for job in waiting],
        }

    def _flush(self, before: float) -> None:
        """Count and write the jobs that ended before an instant, by their ends and numbers."""
        self._ended.sort()
        count = bisect_left(self._ended, (before,))
        ended, self._ended = self._ended[:count], self._ended[count:]
        self._tally.add(ended)
        if self._rows is not None:
            self._rows.add(ended, ())
        if self._series is not None:
            self._series.add(ended)
