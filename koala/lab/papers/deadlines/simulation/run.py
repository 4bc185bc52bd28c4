"""One run: an event heap, clusters with their local users, and jobs with deadlines.

Most of a run is local jobs, a third of a million of them. So their loop is written out: it does
what `koala.queue_model` does under FCFS, without its calls and without an event for an arrival.
A test compares it with that model and the daemon's scheduler, job by job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice, pairwise
from math import inf
from typing import Any

from koala.core.model.grid import GridView, Part, PlacementRequest, SiteView, Unplaceable
from koala.core.model.timeline import considered_at, next_try_at
from koala.core.model.values import Instant, SiteName
from koala.lab.papers.deadlines.simulation.arrivals import (
    GlobalArrival,
    LocalArrival,
    LocalJob,
    global_arrivals,
    local_jobs,
    merged,
)
from koala.lab.papers.deadlines.simulation.counting import Outcome, Record, Tally
from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.sim.statistics import BATCHES
from koala.policies import named
from koala.policies.claiming.repeated import make_room
from koala.policies.placement.worst_fit import pack, worst_fit

_END, _ARRIVAL, _TRY, _DEADLINE, _NEVER = range(5)
"""Order of events at one instant: processors come free, jobs arrive, tries are made, deadlines."""

_Event = tuple[Any, ...]
"""Instant, order at that instant, number, function to call and its argument. The end of a local job
has no function: its argument is the job, and the instant of its start follows."""

_AT, _RANK, _NUMBER, _CALL, _ARGUMENT, _STARTED_AT = range(6)
_PROCESSORS = 2
"""Place of the processors in a local job."""
_NO_JOB: LocalJob = (inf, 0, 0, 0.0, 0)
"""The next local job where no more come."""


def simulate(setting: Setting, seed: int, record: Record | None = None) -> list[Tally]:
    """Simulate one run; return the tallies of consecutive batches of equal time after the
    warm-up."""
    local = local_jobs(setting, seed)
    return _Run(setting, local, global_arrivals(setting, seed), record).run()


def simulate_jobs(
    setting: Setting,
    local: Sequence[Iterable[LocalArrival]],
    jobs: Iterable[GlobalArrival],
    record: Record | None = None,
) -> list[Tally]:
    """Simulate one run with these jobs, each stream in order of arrival: local ones of each site,
    and global ones."""
    return _Run(setting, merged([iter(one) for one in local]), iter(jobs), record).run()


@dataclass(slots=True, kw_only=True, eq=False)
class _GlobalJob:
    number: int
    arrival: GlobalArrival
    tries: int = 0
    is_due_at_deadline: bool = False  # its series of tries has come to D
    claimed_at: Instant | None = None
    sites: Sequence[int] = ()  # of the claims, one for each component


class _Area:
    """Integral of a changing number of processors, in processor-seconds."""

    __slots__ = ("level", "past")

    def __init__(self) -> None:
        self.level = 0
        self.past = 0.0  # the area, if the level had always been what it is

    def change(self, processors: int, now: Instant) -> None:
        self.level += processors
        self.past -= processors * now

    def until(self, now: Instant) -> float:
        return self.past + self.level * now


class _Run:
    def __init__(
        self,
        setting: Setting,
        local: Iterator[LocalJob],
        jobs: Iterator[GlobalArrival],
        record: Record | None,
    ) -> None:
        self.setting = setting
        self.now: Instant = 0.0
        self._record = record
        self._heap: list[_Event] = [(inf, _NEVER, 0, None, None)]
        self._numbers = count(1)  # of events, and of running local jobs
        # The sites by index: idle processors, waiting jobs, and the ends of the running ones in
        # order of start.
        self._idle = list(setting.sites)
        self._waiting: list[deque[LocalJob]] = [deque() for _ in setting.sites]
        self._running: list[dict[int, _Event]] = [{} for _ in setting.sites]
        self._locals, self._globals = local, jobs
        self._next_local = next(local, _NO_JOB)
        self._placement = named("placement", setting.placement)
        self._submitted = self._killed = self._completed = 0
        self._arrived = self._deadlines = self._successes = 0
        self._response_s = 0.0
        self._local, self._global, self._claimed = _Area(), _Area(), _Area()

    def run(self) -> list[Tally]:
        """Run from 0 to the end; return the tallies between the bounds of the batches."""
        self._await_global()
        setting = self.setting
        span_s = (setting.time_s - setting.warmup_s) / BATCHES
        tallies = []
        for batch in range(BATCHES + 1):
            self._go_on(setting.warmup_s + batch * span_s)
            tallies.append(self._tally())
        return [after.less(before) for before, after in pairwise(tallies)]

    def _go_on(self, until: Instant) -> None:
        heap, idle, waiting, running = self._heap, self._idle, self._waiting, self._running
        area, start = self._local, self._start
        arriving = self._next_local
        at = arriving[0]
        while True:
            event = heap[0]
            now = event[_AT]
            if at < now or (at == now and event[_RANK] > _ARRIVAL):
                if at > until:
                    break
                _, site, processors, _, _ = arriving
                if waiting[site] or processors > idle[site]:
                    waiting[site].append(arriving)
                else:
                    start(arriving, at)
                arriving = next(self._locals, _NO_JOB)
                at = arriving[0]
                self._submitted += 1
                continue
            if now > until:
                break
            heappop(heap)
            if event[_CALL] is not None:
                self.now = now
                event[_CALL](event[_ARGUMENT])
                continue
            job = event[_ARGUMENT]
            submitted_at, site, processors, _, _ = job
            if running[site].pop(event[_NUMBER], None) is None:
                continue  # killed before
            idle[site] += processors
            area.level -= processors
            area.past += processors * now
            self._completed += 1
            self._response_s += now - submitted_at
            if self._record is not None:
                self._record(_local_outcome(event, "completed", now))
            queue = waiting[site]
            while queue and queue[0][_PROCESSORS] <= idle[site]:
                start(queue.popleft(), now)
        self._next_local = arriving
        self.now = until

    def _push(self, at: Instant, rank: int, call: Callable[[Any], None], argument: object) -> None:
        heappush(self._heap, (at, rank, next(self._numbers), call, argument))

    def _tally(self) -> Tally:
        return Tally(
            seconds=self.now,
            deadlines=self._deadlines,
            successes=self._successes,
            submitted=self._submitted,
            killed=self._killed,
            completed=self._completed,
            response_s=self._response_s,
            local_area=self._local.until(self.now),
            global_area=self._global.until(self.now),
            claimed_area=self._claimed.until(self.now),
            waiting=sum(map(len, self._waiting)),
        )

    # --- local jobs ---

    def _start(self, job: LocalJob, now: Instant) -> None:
        """Start a local job, which fits."""
        _, site, processors, run_s, _ = job
        self._idle[site] -= processors
        area = self._local
        area.level += processors
        area.past -= processors * now
        number = next(self._numbers)
        end = (now + run_s, _END, number, None, job, now)
        self._running[site][number] = end
        heappush(self._heap, end)

    def _advance(self, site: int) -> None:
        """Start the waiting jobs of a site that fit now."""
        queue, idle = self._waiting[site], self._idle
        while queue and queue[0][_PROCESSORS] <= idle[site]:
            self._start(queue.popleft(), self.now)

    def _kill(self, site: int, number: int) -> None:
        """Kill a local job to make room; its work is lost."""
        end = self._running[site].pop(number)
        job: LocalJob = end[_ARGUMENT]
        _, _, processors, _, _ = job
        self._idle[site] += processors
        self._local.change(-processors, self.now)
        self._killed += 1
        if self._record is not None:
            self._record(_local_outcome(end, "killed", self.now))
        if self.setting.is_requeued:
            self._waiting[site].appendleft(job)

    # --- global jobs ---

    def _await_global(self) -> None:
        arrival = next(self._globals, None)
        if arrival is not None:
            self._push(arrival.at, _ARRIVAL, self._global_arrives, arrival)

    def _global_arrives(self, arrival: GlobalArrival) -> None:
        self._arrived += 1
        job = _GlobalJob(number=self._arrived, arrival=arrival)
        first = considered_at(arrival.at, arrival.deadline_at, wait_s=self.setting.wait_s)
        self._await_try(job, first)
        self._push(arrival.deadline_at, _DEADLINE, self._deadline_comes, job)
        self._await_global()

    def _await_try(self, job: _GlobalJob, after: Instant) -> None:
        deadline_at = job.arrival.deadline_at
        at = next_try_at(after, deadline_at, fraction=self.setting.fraction)
        job.is_due_at_deadline = at >= deadline_at
        if not job.is_due_at_deadline:
            self._push(at, _TRY, self._try, job)

    def _try(self, job: _GlobalJob) -> None:
        """Make a try before the deadline: claim all components, or none."""
        job.tries += 1
        sites = self._place(job)
        if sites is not None:
            self._claim(job, sites)
        elif job.tries <= self.setting.tries_max:
            self._await_try(job, self.now)

    def _deadline_comes(self, job: _GlobalJob) -> None:
        """Start the job with what is claimed before or now; otherwise count it as failed."""
        self._deadlines += 1
        may_kill = self.setting.at_deadline == "kill"
        if not job.sites and (job.is_due_at_deadline or may_kill):
            job.tries += 1
            sites = self._place(job)
            if sites is not None:
                self._claim(job, sites)
            elif may_kill:
                self._make_room(job)
        if job.sites:
            self._successes += 1
            processors = job.arrival.components * job.arrival.processors
            self._claimed.change(-processors, self.now)
            self._global.change(processors, self.now)
            self._push(self.now + job.arrival.run_s, _END, self._global_ends, job)
        if self._record is not None:
            self._record(_global_outcome(job, self.now))

    def _place(self, job: _GlobalJob) -> Sequence[int] | None:
        """Place the components by Worst-Fit on the idle processors (Deadlines 2.2)."""
        components, size = job.arrival.components, job.arrival.processors
        room = 0
        for idle in self._idle:
            room += idle // size
        if room < components:
            return None  # components of one size: needs no policy
        if self._placement is worst_fit:
            return pack(components, size, self._idle)
        return self._place_by_policy(components, size)

    def _place_by_policy(self, components: int, size: int) -> Sequence[int] | None:
        sites = zip(self.setting.sites, self._idle, strict=True)
        view = GridView(
            [
                SiteView(name=SiteName(str(index)), processors=processors, idle=idle)
                for index, (processors, idle) in enumerate(sites)
            ],
            replicas={},
            bandwidth={},
            bandwidth_default=1.0,
        )
        parts = tuple(Part(component=i, processors=size) for i in range(components))
        answer = self._placement(PlacementRequest(parts=parts), view)
        if isinstance(answer, Unplaceable):
            return None
        return [int(assignment.site) for assignment in answer.assignments]

    def _claim(self, job: _GlobalJob, sites: Sequence[int]) -> None:
        job.claimed_at = self.now
        job.sites = sites
        for site in sites:
            self._idle[site] -= job.arrival.processors
        self._claimed.change(job.arrival.components * job.arrival.processors, self.now)

    def _make_room(self, job: _GlobalJob) -> None:
        """Kill local jobs if that suffices; the local queues get surplus processors at once."""
        candidates = range(len(self._idle))
        room = make_room(
            [(job.arrival.processors, candidates)] * job.arrival.components,
            self._idle,
            [
                [running[key][_ARGUMENT][_PROCESSORS] for key in self._victims(running)]
                for running in self._running
            ],
        )
        if room is None:
            return
        for site, victims in enumerate(room.victims):
            for number in list(islice(self._victims(self._running[site]), victims)):
                self._kill(site, number)
        self._claim(job, room.sites)
        for site, victims in enumerate(room.victims):
            if victims:
                self._advance(site)

    def _victims(self, running: dict[int, _Event]) -> Iterable[int]:
        """Return the running local jobs of a site in the order in which they are killed."""
        return running if self.setting.is_oldest_first else reversed(running)

    def _global_ends(self, job: _GlobalJob) -> None:
        for site in job.sites:
            self._idle[site] += job.arrival.processors
        self._global.change(-job.arrival.components * job.arrival.processors, self.now)
        for site in dict.fromkeys(job.sites):
            self._advance(site)


def _local_outcome(end: _Event, outcome: str, now: Instant) -> Outcome:
    submitted_at, site, processors, run_s, number = end[_ARGUMENT]
    return Outcome(
        kind="local",
        job=number,
        submitted_at=submitted_at,
        deadline_at=None,
        components=1,
        processors=processors,
        run_s=run_s,
        sites=(site,),
        claimed_at=None,
        started_at=end[_STARTED_AT],
        ended_at=now,
        tries=0,
        outcome=outcome,
    )


def _global_outcome(job: _GlobalJob, now: Instant) -> Outcome:
    """Make the outcome of a job at its deadline."""
    arrival = job.arrival
    has_started = bool(job.sites)
    return Outcome(
        kind="global",
        job=job.number,
        submitted_at=arrival.at,
        deadline_at=arrival.deadline_at,
        components=arrival.components,
        processors=arrival.processors,
        run_s=arrival.run_s,
        sites=tuple(job.sites),
        claimed_at=job.claimed_at,
        started_at=now if has_started else None,
        ended_at=now + arrival.run_s if has_started else None,
        tries=job.tries,
        outcome="started" if has_started else "failed",
    )
