"""One run: an event heap, clusters with their local users, and jobs with deadlines.

The heap is its own, because runs of `koala.sim.engine` take a quarter longer here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Any, NamedTuple

from koala.core.model.grid import GridView, Part, PlacementRequest, SiteView, Unplaceable
from koala.core.model.timeline import considered_at, next_try_at
from koala.core.model.values import Instant, Seconds, SiteName
from koala.papers.deadlines.simulation.counting import Outcome, Record, Tally
from koala.papers.deadlines.simulation.jobs import (
    GlobalArrival,
    LocalArrival,
    global_arrivals,
    local_arrivals,
)
from koala.papers.deadlines.simulation.setting import Setting
from koala.policies import named
from koala.policies.claiming.repeated import make_room
from koala.sim import job_csv
from koala.sim.statistics import BATCHES
from koala_agent.lrm.model import Discipline, LocalQueue, local_queue

_END, _ARRIVAL, _TRY, _DEADLINE = range(4)
"""Order of events at one instant: processors come free, jobs arrive, tries are made, deadlines."""


def simulate(setting: Setting, seed: int, record: Record | None = None) -> list[Tally]:
    """Simulate one run; return the tallies of consecutive batches of equal time after the
    warm-up."""
    local = [local_arrivals(setting, seed, index) for index in range(len(setting.sites))]
    return simulate_jobs(setting, local, global_arrivals(setting, seed), record)


def simulate_jobs(
    setting: Setting,
    local: Sequence[Iterable[LocalArrival]],
    jobs: Iterable[GlobalArrival],
    record: Record | None = None,
) -> list[Tally]:
    """Simulate one run with these jobs, each stream in order of arrival: local ones of each site,
    and global ones."""
    return _Run(setting, local, jobs, record).run()


simulate_to_file = partial(job_csv.simulate_to_file, simulate, Outcome._fields)
"""Simulates as `simulate` does; one of the runs writes a line of CSV for each job."""


class _LocalJob(NamedTuple):
    number: int
    submitted_at: Instant
    processors: int
    run_s: Seconds
    started_at: Instant


@dataclass(slots=True, kw_only=True, eq=False)
class _GlobalJob:
    number: int
    arrival: GlobalArrival
    tries: int = 0
    is_due_at_deadline: bool = False  # its series of tries has come to D
    claimed_at: Instant | None = None
    claims: list[tuple[_Cluster, int]] = field(default_factory=list)


class _Cluster:
    """A site: its queue and its running local jobs in order of start."""

    __slots__ = ("arrivals", "name", "queue", "running", "waiting")

    def __init__(self, index: int, processors: int, arrivals: Iterable[LocalArrival]) -> None:
        self.name = SiteName(str(index))
        self.queue: LocalQueue[int] = local_queue(processors=processors, discipline=Discipline.FCFS)
        self.arrivals = iter(arrivals)
        self.waiting: dict[int, _LocalJob] = {}
        self.running: dict[int, _LocalJob] = {}


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
        local: Sequence[Iterable[LocalArrival]],
        jobs: Iterable[GlobalArrival],
        record: Record | None,
    ) -> None:
        self.setting = setting
        self.now: Instant = 0.0
        self._record = record
        self._heap: list[tuple[Instant, int, int, Callable[[Any], None], Any]] = []
        self._number = 0  # of entries in the heap, and of keys in queues
        sites = enumerate(zip(setting.sites, local, strict=True))
        self._clusters = [_Cluster(index, *one) for index, one in sites]
        self._by_name = {cluster.name: cluster for cluster in self._clusters}
        self._arrivals = iter(jobs)
        self._placement = named("placement", setting.placement)
        self._globals = self._deadlines = self._successes = 0
        self._locals = self._killed = self._completed = 0
        self._response_s = 0.0
        self._local, self._global, self._claimed = _Area(), _Area(), _Area()

    def run(self) -> list[Tally]:
        """Run from 0 to the end; return the tallies between the bounds of the batches."""
        for cluster in self._clusters:
            self._await_local(cluster)
        self._await_global()
        setting = self.setting
        span_s = (setting.time_s - setting.warmup_s) / BATCHES
        tallies = []
        for batch in range(BATCHES + 1):
            self._go_on(setting.warmup_s + batch * span_s)
            tallies.append(self._tally())
        return [after.less(before) for before, after in pairwise(tallies)]

    def _go_on(self, until: Instant) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, _, call, argument = heappop(heap)
            call(argument)
        self.now = until

    def _push(self, at: Instant, rank: int, call: Callable[[Any], None], argument: object) -> None:
        self._number += 1
        heappush(self._heap, (at, rank, self._number, call, argument))

    def _tally(self) -> Tally:
        return Tally(
            seconds=self.now,
            deadlines=self._deadlines,
            successes=self._successes,
            submitted=self._locals,
            killed=self._killed,
            completed=self._completed,
            response_s=self._response_s,
            local_area=self._local.until(self.now),
            global_area=self._global.until(self.now),
            claimed_area=self._claimed.until(self.now),
            waiting=sum(cluster.queue.waiting for cluster in self._clusters),
        )

    # --- local jobs ---

    # Most of a run is local jobs, so `_push` and `_Area.change` are written out for them.

    def _await_local(self, cluster: _Cluster) -> None:
        arrival = next(cluster.arrivals, None)
        if arrival is not None:
            self._number += 1
            entry = (arrival[0], _ARRIVAL, self._number, self._local_arrives, (cluster, arrival))
            heappush(self._heap, entry)

    def _local_arrives(self, what: tuple[_Cluster, LocalArrival]) -> None:
        cluster, (at, processors, run_s) = what
        self._locals += 1
        self._number = key = self._number + 1
        job = tuple.__new__(_LocalJob, (self._locals, at, processors, run_s, at))
        if cluster.queue.start_at_once(key, processors=processors, estimate_s=run_s, now=at):
            self._start(cluster, key, job)
        else:
            cluster.waiting[key] = job
            cluster.queue.submit(key, processors=processors, estimate_s=run_s)
        self._await_local(cluster)

    def _advance(self, cluster: _Cluster) -> None:
        """Start the waiting jobs that fit now."""
        now = self.now
        for key in cluster.queue.advance(now):
            number, submitted_at, processors, run_s, _ = cluster.waiting.pop(key)
            job = (number, submitted_at, processors, run_s, now)
            self._start(cluster, key, tuple.__new__(_LocalJob, job))

    def _start(self, cluster: _Cluster, key: int, job: _LocalJob) -> None:
        _, _, processors, run_s, now = job
        cluster.running[key] = job
        area = self._local
        area.level += processors
        area.past -= processors * now
        self._number += 1
        entry = (now + run_s, _END, self._number, self._local_ends, (cluster, key))
        heappush(self._heap, entry)

    def _local_ends(self, which: tuple[_Cluster, int]) -> None:
        cluster, key = which
        if key not in cluster.running:
            return  # killed before
        job = self._leave(cluster, key, "completed")
        self._completed += 1
        self._response_s += self.now - job.submitted_at
        if cluster.waiting:
            self._advance(cluster)

    def _kill(self, cluster: _Cluster, key: int) -> None:
        """Kill a local job to make room; its work is lost."""
        job = self._leave(cluster, key, "killed")
        self._killed += 1
        if self.setting.is_requeued:
            self._number += 1
            cluster.waiting[self._number] = job
            cluster.queue.put_back(self._number, processors=job.processors, estimate_s=job.run_s)

    def _leave(self, cluster: _Cluster, key: int, outcome: str) -> _LocalJob:
        job = cluster.running.pop(key)
        cluster.queue.end(key)
        area, processors = self._local, job.processors
        area.level -= processors
        area.past += processors * self.now
        if self._record is not None:
            self._record(
                Outcome(
                    kind="local",
                    job=job.number,
                    submitted_at=job.submitted_at,
                    deadline_at=None,
                    components=1,
                    processors=job.processors,
                    run_s=job.run_s,
                    sites=(self._clusters.index(cluster),),
                    claimed_at=None,
                    started_at=job.started_at,
                    ended_at=self.now,
                    tries=0,
                    outcome=outcome,
                )
            )
        return job

    # --- global jobs ---

    def _await_global(self) -> None:
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self._push(arrival.at, _ARRIVAL, self._global_arrives, arrival)

    def _global_arrives(self, arrival: GlobalArrival) -> None:
        self._globals += 1
        job = _GlobalJob(number=self._globals, arrival=arrival)
        first = considered_at(arrival.at, arrival.deadline_at, wait_s=self.setting.wait_s)
        self._await_try(job, first)
        self._push(arrival.deadline_at, _DEADLINE, self._deadline_comes, job)
        self._await_global()

    def _await_try(self, job: _GlobalJob, after: Instant) -> None:
        at = next_try_at(after, job.arrival.deadline_at, fraction=self.setting.fraction)
        job.is_due_at_deadline = at >= job.arrival.deadline_at
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
        if not job.claims and (job.is_due_at_deadline or may_kill):
            job.tries += 1
            sites = self._place(job)
            if sites is not None:
                self._claim(job, sites)
            elif may_kill:
                self._make_room(job)
        if job.claims:
            self._successes += 1
            processors = job.arrival.components * job.arrival.processors
            self._claimed.change(-processors, self.now)
            self._global.change(processors, self.now)
            self._push(self.now + job.arrival.run_s, _END, self._global_ends, job)
        self._tell(job)

    def _place(self, job: _GlobalJob) -> list[_Cluster] | None:
        """Place the components by Worst-Fit on the idle processors (Deadlines 2.2)."""
        size = job.arrival.processors
        room = sum([cluster.queue.idle // size for cluster in self._clusters])
        if room < job.arrival.components:
            return None  # components of one size: needs no policy
        view = GridView(
            [
                SiteView(name=c.name, processors=c.queue.processors, idle=c.queue.idle)
                for c in self._clusters
            ],
            replicas={},
            bandwidth={},
            bandwidth_default=1.0,
        )
        parts = tuple(Part(component=i, processors=size) for i in range(job.arrival.components))
        answer = self._placement(PlacementRequest(parts=parts), view)
        if isinstance(answer, Unplaceable):
            return None
        return [self._by_name[assignment.site] for assignment in answer.assignments]

    def _claim(self, job: _GlobalJob, sites: Sequence[_Cluster]) -> None:
        job.claimed_at = self.now
        for cluster in sites:
            self._number += 1
            until = job.arrival.deadline_at + job.arrival.run_s
            cluster.queue.occupy(self._number, processors=job.arrival.processors, until=until)
            job.claims.append((cluster, self._number))
        self._claimed.change(job.arrival.components * job.arrival.processors, self.now)

    def _make_room(self, job: _GlobalJob) -> None:
        """Kill local jobs if that suffices; the local queues get surplus processors at once."""
        candidates = range(len(self._clusters))
        room = make_room(
            [(job.arrival.processors, candidates)] * job.arrival.components,
            [cluster.queue.idle for cluster in self._clusters],
            [[c.running[key].processors for key in self._victims(c)] for c in self._clusters],
        )
        if room is None:
            return
        for cluster, victims in zip(self._clusters, room.victims, strict=True):
            for key in list(islice(self._victims(cluster), victims)):
                self._kill(cluster, key)
        self._claim(job, [self._clusters[index] for index in room.sites])
        for cluster, victims in zip(self._clusters, room.victims, strict=True):
            if victims and cluster.waiting:
                self._advance(cluster)

    def _victims(self, cluster: _Cluster) -> Iterable[int]:
        """Return the running local jobs of a cluster in the order in which they are killed."""
        running = cluster.running
        return running if self.setting.is_oldest_first else reversed(running)

    def _global_ends(self, job: _GlobalJob) -> None:
        for cluster, key in job.claims:
            cluster.queue.end(key)
        self._global.change(-job.arrival.components * job.arrival.processors, self.now)
        for cluster in dict.fromkeys([cluster for cluster, _ in job.claims]):
            if cluster.waiting:
                self._advance(cluster)

    def _tell(self, job: _GlobalJob) -> None:
        if self._record is None:
            return
        has_started = bool(job.claims)
        self._record(
            Outcome(
                kind="global",
                job=job.number,
                submitted_at=job.arrival.at,
                deadline_at=job.arrival.deadline_at,
                components=job.arrival.components,
                processors=job.arrival.processors,
                run_s=job.arrival.run_s,
                sites=tuple(self._clusters.index(cluster) for cluster, _ in job.claims),
                claimed_at=job.claimed_at,
                started_at=self.now if has_started else None,
                ended_at=self.now + job.arrival.run_s if has_started else None,
                tries=job.tries,
                outcome="started" if has_started else "failed",
            )
        )
