"""One run: arrivals, scheduling rounds, and the progress of the jobs that were placed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf, nan
from operator import itemgetter

from koala.core.model.grid import GridView, Part, Placement, PlacementRequest, Replica, SiteView
from koala.core.model.values import FileName, Instant, SiteName
from koala.core.policy_api import PlacementPolicy
from koala.lab.papers.hints.simulation.arrivals import Arrival, arrivals
from koala.lab.papers.hints.simulation.progress import Link, Running, left, steps_of
from koala.lab.papers.hints.simulation.setting import MB, MBPS, Setting
from koala.policies import named

SAME_S = 1e-6
"""Ends within this time of one another count as simultaneous, and one round follows."""
SAME_SHARE = 1e-12
"""The same tolerance as a share of the instant: late in a long run the sum of many steps is off by
more."""


@dataclass(slots=True, kw_only=True, eq=False)
class JobRecord:
    """Outcome of a job; nan and None where something never happened."""

    number: int
    submitted_at: Instant
    home: int
    is_io: bool
    placed_at: Instant = nan
    ended_at: Instant = nan
    site: int | None = None
    mips: float = nan
    booked_mbps: float = nan

    @property
    def response_s(self) -> float:
        """Time from submission to end."""
        return self.ended_at - self.submitted_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A whole run: its jobs in order of arrival, and MB that went over each link until its end."""

    jobs: tuple[JobRecord, ...]
    moved_mb: dict[tuple[int, int], float]
    ended_at: Instant


def simulate(setting: Setting, seed: int) -> RunRecord:
    """Simulate one run, until all jobs that can be placed have ended."""
    return simulate_jobs(setting, arrivals(setting, seed))


def simulate_jobs(setting: Setting, jobs: Iterable[Arrival]) -> RunRecord:
    """Simulate one run with these jobs, in order of arrival."""
    return _Run(setting, jobs, named("placement", setting.policy)).run()


class _Run:
    def __init__(self, setting: Setting, jobs: Iterable[Arrival], place: PlacementPolicy) -> None:
        self._setting = setting
        self._place = place
        self._jobs = [
            JobRecord(number=number, submitted_at=job.at, home=job.home, is_io=job.is_io)
            for number, job in enumerate(jobs)
        ]
        self._links = {ends: Link(mbps=mbps) for ends, mbps in setting.links.items()}
        self._names = [SiteName(site.name) for site in setting.sites]
        self._index = {name: index for index, name in enumerate(self._names)}
        self._replicas = {
            FileName(name): Replica(size_bytes=0, sites=(name,)) for name in self._names
        }
        self._at: list[dict[int, Running]] = [{} for _ in setting.sites]
        self._stored: list[dict[int, float]] = [{} for _ in setting.sites]
        self._waiting: dict[int, JobRecord] = {}
        self._round_at: Instant = inf
        self.now: Instant = 0.0

    def run(self) -> RunRecord:
        """Run all jobs, from the first arrival to the last end."""
        coming = self._jobs[::-1]
        while True:
            arrives_at = coming[-1].submitted_at if coming else inf
            at = min(self._next_at(), arrives_at, self._round_at)
            if at == inf:
                break
            self.now = at
            has_changed = self._progress()
            while coming and coming[-1].submitted_at <= self.now:
                job = coming.pop()
                self._waiting[job.number] = job
                has_changed = True
            if has_changed:
                self._round_at = min(self._round_at, self._next_round())
            if self._round_at <= self.now:
                self._round_at = inf
                self._round()
        ends = [job.ended_at for job in self._jobs if job.site is not None]
        return RunRecord(
            jobs=tuple(self._jobs),
            moved_mb={ends: link.moved_mb for ends, link in self._links.items()},
            ended_at=max(ends, default=0.0),
        )

    def _next_at(self) -> Instant:
        """Return the next instant at which a part of a running job is done."""
        return min((job.next_at for jobs in self._at for job in jobs.values()), default=inf)

    def _next_round(self) -> Instant:
        """Set the next scheduling round: now, or at the next of the instants at which rounds may
        be. A change within rounding of such an instant belongs to it."""
        round_s = self._setting.round_s
        if round_s == 0:
            return self.now
        same_s = max(SAME_S, SAME_SHARE * self.now)
        return round_s * ceil((self.now - same_s) / round_s)

    # --- progress ---

    def _progress(self) -> bool:
        """Apply all progress due by now, or within rounding of it; return True if a job ended."""
        until = self.now + SAME_S
        touched: dict[tuple[int, int], Link] = {}
        has_ended = False
        due = [job for jobs in self._at for job in jobs.values() if job.next_at <= until]
        for at, running in sorted(((job.next_at, job) for job in due), key=itemgetter(0)):
            self.now = max(self.now, at)
            link = self._links[running.ends]
            link.advance(self.now)
            touched[running.ends] = link
            if not running.steps:
                self._end(running)
                has_ended = True
        for link in touched.values():
            link.share(self.now)
        return has_ended

    def _end(self, running: Running) -> None:
        job = self._jobs[running.job]
        job.ended_at = self.now
        del self._links[running.ends].running[running.job]
        del self._at[running.site][running.job]
        self._stored[job.home].pop(running.job)

    # --- scheduling (Hints 4) ---

    def _round(self) -> None:
        """Place jobs greedily in the order of arrival. Skip a job like one that was just refused:
        the policy is a function of its input."""
        refused: dict[tuple[int, bool], bool] = {}
        for job in tuple(self._waiting.values()):
            if (job.home, job.is_io) in refused or not self._has_storage(job):
                continue
            answer = self._place(self._request(job), self._view())
            if isinstance(answer, Placement):
                self._start(job, answer)
                refused.clear()
            else:
                refused[job.home, job.is_io] = True

    def _has_storage(self, job: JobRecord) -> bool:
        """True if there is room for the data of one more job where it was submitted."""
        needed_mb = self._setting.kind(is_io=job.is_io).data_mb
        room_mb = self._setting.sites[job.home].storage_mb
        return sum(self._stored[job.home].values()) + needed_mb <= room_mb

    def _request(self, job: JobRecord) -> PlacementRequest:
        kind = self._setting.kind(is_io=job.is_io)
        home = self._names[job.home]
        size_bytes = round(kind.data_mb * MB)
        part = Part(component=0, processors=1, size_bytes=size_bytes, file=FileName(home))
        return PlacementRequest(
            parts=(part,),
            demand=self._setting.demand(is_io=job.is_io),
            home=home,
        )

    def _view(self) -> GridView:
        """Build the policy's view of the grid: job slots as processors, and the unbooked bandwidth
        of each link, in both directions."""
        sites = []
        for index, site in enumerate(self._setting.sites):
            here = self._at[index].values()
            mips = self._slice_mips(index)
            sites.append(
                SiteView(
                    name=self._names[index],
                    processors=site.slots,
                    idle=site.slots - len(here) if mips else 0,
                    mips=mips,
                )
            )
        free: dict[tuple[SiteName, SiteName], float] = {}
        for (start, end), link in self._links.items():
            free_bps = link.free_mbps * MBPS
            free[self._names[start], self._names[end]] = free_bps
            free[self._names[end], self._names[start]] = free_bps
        return GridView(
            sites, replicas=self._replicas, bandwidth={}, bandwidth_default=inf, free=free
        )

    def _slice_mips(self, index: int) -> float:
        """Return the largest slice that a site has left."""
        site = self._setting.sites[index]
        left_mips = left(site.mips, [running.mips for running in self._at[index].values()])
        return min(site.slice_mips, left_mips)

    def _start(self, job: JobRecord, placement: Placement) -> None:
        (found,) = placement.assignments
        site = self._index[found.site]
        kind = self._setting.kind(is_io=job.is_io)
        mips = found.mips or self._slice_mips(site)  # of a policy that speaks of no rates
        job.placed_at, job.site, job.mips = self.now, site, mips
        job.booked_mbps = found.booked_bps / MBPS
        running = Running(
            job=job.number,
            site=site,
            ends=(min(job.home, site), max(job.home, site)),
            mips=mips,
            booked_mbps=job.booked_mbps or None,
            steps=steps_of(self._setting, kind)[::-1],
            is_streaming=self._setting.blocks == 0,
        )
        del self._waiting[job.number]
        self._at[site][job.number] = running
        self._stored[job.home][job.number] = kind.data_mb
        link = self._links[running.ends]
        link.advance(self.now)
        link.running[job.number] = running
        link.share(self.now)
