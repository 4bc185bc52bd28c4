"""A log of jobs as the workload of a whole multicluster.

The scheduler places its jobs; jobs that no site could hold become several components. Data that a
log lacks is not invented: jobs have no files, and components of one job run equally long. The
caller brings the other users of each site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from statistics import fmean
from typing import Any, NamedTuple

from koala.core.model.job_spec import ComponentSpec, JobSpec, Split
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, Instant, JobId, Priority, Seconds, SiteName, UserName
from koala.core.policy_api import Policies
from koala.errors import ConfigError
from koala.lab.sim.experiment.setting import Faults, Links, SiteSetting, Submission
from koala.lab.sim.experiment.standstill import Standstill
from koala.lab.sim.experiment.world import ExperimentReport, World
from koala.lab.workload.arrivals import Summary
from koala.views.grid_timeline import LocalHistory, all_sites, grid_timeline
from koala.views.records.chart import GridTimeline
from koala.views.units import counted

TICK_STEPS = 1_000
Sizes = tuple[int, ...]
SplitRule = Callable[[int, Sequence[int]], Sizes | None]
"""Component sizes of a job of so many processors on sites of these sizes, largest first; None when
they could not hold it together."""


def at_most(largest: float) -> SplitRule:
    """Split into the fewest components, as equal as possible, none with more than `largest`
    processors, that the empty grid holds together."""

    def split(size: int, sites: Sequence[int]) -> Sizes | None:
        if size > sum(sites):
            return None
        for count in range(max(1, ceil(size / largest)), size + 1):
            small, larger = divmod(size, count)
            parts = (small + 1,) * larger + (small,) * (count - larger)
            if _fits(parts, sites):
                return parts
        return None

    return split


def fill(size: int, sites: Sequence[int]) -> Sizes | None:
    """Fill the largest site, then the next; the last component takes the rest."""
    parts: list[int] = []
    for site in sites:
        if size <= 0:
            break
        parts.append(min(site, size))
        size -= site
    return tuple(parts) if size <= 0 else None


def flexible(size: int, sites: Sequence[int]) -> Sizes | None:
    """Leave the split to the scheduler, which makes it of what is idle."""
    return (size,) if size <= sum(sites) else None


RULES: dict[str, SplitRule] = {"equal": at_most(inf), "fill": fill, "flexible": flexible}


def rule(text: str) -> SplitRule:
    """Return a split rule by its word: equal, fill, flexible, or a number, the most processors of
    a component. Raises ConfigError."""
    if text in RULES:
        return RULES[text]
    if text.isdigit() and int(text) > 0:
        return at_most(int(text))
    raise ConfigError(
        f"--split {text} (expected one of {', '.join(RULES)}, or the most processors of a"
        " component)"
    )


def _fits(parts: Sizes, sites: Sequence[int]) -> bool:
    """Return True if the empty grid holds all of them, each where most is left."""
    left = list(sites)
    for part in parts:
        most = max(range(len(left)), key=left.__getitem__)
        left[most] -= part
        if left[most] < 0:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Multicluster:
    """Grid on which a log is replayed. With `is_whole` the run goes on until the jobs of the sites'
    own users have ended, too."""

    sites: tuple[SiteSetting, ...]
    parameters: Parameters
    policies: Policies
    split: SplitRule
    until: Instant = FOREVER
    faults: Faults | None = None
    links: Links | None = None
    is_whole: bool = False


class GridJob(NamedTuple):
    """A job of a workload; `size` is its processors, to be split where no site could hold it, or
    those of each of its components. `queue` is the site at whose queue it is submitted; `sites` are
    those of its components, if they are given; else each waits at up to `redundancy` sites."""

    at: Instant
    number: int | str
    size: int | Sizes
    run_s: Seconds
    estimate_s: Seconds
    priority: Priority = Priority.LOW
    user: str = ""
    queue: str | None = None
    sites: tuple[str, ...] = ()
    redundancy: int = 1


class Listener:
    """Listener to a run; this one ignores all."""

    def tick(self, describe: Callable[[], str]) -> None:
        """Note that the run goes on; `describe` says where it is. Called often."""

    def warn(self, text: str) -> None:
        """Note that the run may not end."""


class GridReplay:
    """One replay. `notes` say what was left out, and why it was stopped."""

    def __init__(
        self,
        setting: Multicluster,
        jobs: Iterable[GridJob],
        *,
        summary: Callable[[], Summary] = Summary,
    ) -> None:
        """`jobs` come in order of their instants; `summary` returns the counts of a log so far."""
        self._setting = setting
        self._jobs = jobs
        self._summary = summary
        self._processors: dict[str, int] = {s.name: s.facts.processors for s in setting.sites}
        self._sizes = sorted(self._processors.values(), reverse=True)
        self._known: dict[int | Sizes, Sizes | None] = {}
        self._numbers: set[int | str] = set()  # some logs give one to several jobs
        self._first_too_large = ""
        self._standstill = ""
        self.is_interrupted = False
        self.too_large = 0
        self.split_jobs = 0
        self.timeline: GridTimeline | None = None  # of a run that is over

    def run(
        self, *, progress: Callable[[int], None] | None = None, listener: Listener | None = None
    ) -> ExperimentReport:
        """Run to the end of the last job (of everybody's with `is_whole`), to `until`, to an
        interrupt, or to a standstill: a job may be refused for ever."""
        local = LocalHistory()
        listener = listener or Listener()
        world = World(
            sites=self._setting.sites,
            submissions=self._submissions(progress, listener.warn),
            parameters=self._setting.parameters,
            policies=self._setting.policies,
            links=self._setting.links,
            faults=self._setting.faults,
            watch=lambda _, event, __, now: local.note(event, now),
        )
        world.begin()
        until = self._setting.until
        outages = () if self._setting.faults is None else self._setting.faults.outages
        standstill = Standstill(world, outages, until=until, warn=listener.warn)
        steps = 0
        while not (self.is_interrupted or self._is_over(world)) and world.step(until=until):
            if standstill.is_reached():
                break
            steps += 1
            if steps % TICK_STEPS == 0:
                listener.tick(world.whereabouts)
        self._standstill = standstill.note
        report, state = world.report(), world.scheduler
        self.timeline = grid_timeline(
            state, local, all_sites(state), now=report.ended_at, since=0.0
        )
        return report

    @property
    def is_stopped(self) -> bool:
        """True if the run was stopped at a standstill."""
        return bool(self._standstill)

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what was left out, and why the run was stopped."""
        found = []
        if self.too_large:
            sizes = ", ".join(f"{name} {size}" for name, size in self._processors.items())
            left_out = counted(self.too_large, "job")
            found.append(f"{left_out} left out: {self._first_too_large}; sites have {sizes}")
        if self._standstill:
            found.append(self._standstill)
        return tuple(found)

    def _is_over(self, world: World) -> bool:
        if not world.is_over:
            return False
        return not self._setting.is_whole or all(s.is_left for s in world.grid.sites.values())

    def interrupt(self) -> None:
        """Stop after the current step; may be called at any time, by a signal handler too."""
        self.is_interrupted = True

    def document(self, report: ExperimentReport) -> dict[str, Any]:
        """Return the results: times in seconds, rates of 1."""
        summary = self._summary()
        done = [job for job in report.jobs if job.is_finished]
        waits = [job.waiting_s for job in done if job.waiting_s is not None]
        capacity_s = sum(self._sizes) * report.ended_at
        return {
            "jobs": len(report.jobs),
            "processors": sum(self._sizes),
            "finished": len(done),
            "failed": sum(job.phase == "Failed" for job in report.jobs),
            "unfinished": report.unfinished,
            "read": summary.read,
            "dropped": {
                **summary.dropped,
                "too_large": summary.too_large + self.too_large,
            },
            "changed": summary.changed,
            "split_jobs": sum(job.components > 1 for job in report.jobs)
            if self._setting.split is flexible
            else self.split_jobs,
            "coallocated": sum(job.is_coallocated for job in done),
            "wait": _moments(waits),
            "response": _moments([job.response_s for job in done if job.response_s is not None]),
            "bounded_slowdown": _moments(
                [job.bounded_slowdown for job in done if job.bounded_slowdown is not None]
            ),
            "wait_split": _moments(
                [job.waiting_s for job in done if job.components > 1 and job.waiting_s is not None]
            ),
            "placement_tries": _mean([float(job.placement_tries) for job in done]),
            "claiming_tries": _mean([float(job.claiming_tries) for job in done]),
            "held_processor_s": report.held_s,
            "running_processor_s": report.running_s,
            "given_back": report.given_back,
            "utilization": report.running_s / capacity_s if capacity_s else None,
            "utilization_all_users": (report.running_s + report.held_s + report.local_s)
            / capacity_s
            if capacity_s
            else None,
            "local_wait_mean": _mean_local_wait(report),
            "makespan": report.ended_at,
            "sites": {
                name: {
                    "local_jobs": users.submitted,
                    "local_finished": users.finished,
                    **({"local_wait": _moments(users.waits_s)} if users.waits_s else {}),
                }
                for name, users in report.users.items()
            },
        }

    def _submissions(
        self, progress: Callable[[int], None] | None, warn: Callable[[str], None]
    ) -> Iterator[Submission]:
        has_warned = self._setting.until < FOREVER
        for count, job in enumerate(self._jobs):
            if progress is not None and count % 1000 == 0:
                progress(count)
            parts = self._parts(job.size) if not job.sites else self._at_sites(job)
            if parts is None or not self._fits_queue(job, parts):
                self._leave_out(job)
                continue
            if not has_warned and self._needs_whole_sites(parts):
                has_warned = True
                needs = " + ".join(map(str, parts))
                warn(
                    f"{job.number} needs {needs} processors, all of sites whose local users submit"
                    " for ever, so it may never start"
                )
            is_flexible = self._setting.split is flexible and isinstance(job.size, int)
            is_flexible = is_flexible and not job.sites and job.queue is None
            self.split_jobs += len(parts) > 1
            number = job.number
            name = str(number) if number not in self._numbers else f"{number}.{count}"
            self._numbers.add(number)
            yield Submission(
                job=JobId(name),
                at=float(job.at),
                spec=_total(job) if is_flexible else _spec(job, parts),
                run_s=(float(job.run_s),) * (len(self._sizes) if is_flexible else len(parts)),
            )

    def _leave_out(self, job: GridJob) -> None:
        """Count a job that the empty grid could not hold, and remember the first."""
        self.too_large += 1
        if not self._first_too_large:
            sizes = (job.size,) if isinstance(job.size, int) else job.size
            needs = " + ".join(map(str, sizes))
            where = f" at {job.queue}" if job.queue is not None and len(sizes) == 1 else ""
            self._first_too_large = f"{job.number} needs {needs} processors{where}"

    def _needs_whole_sites(self, parts: Sizes) -> bool:
        """Return True if local users who submit for ever would have to leave a site altogether."""
        sites, largest = self._setting.sites, max(parts)
        if sum(parts) == sum(self._sizes):
            return any(site.is_steady for site in sites)
        hosts = [site for site in sites if site.facts.processors >= largest]
        return all(site.is_steady and site.facts.processors == largest for site in hosts)

    def _fits_queue(self, job: GridJob, parts: Sizes) -> bool:
        """Return True if a job of one component fits at the site of its queue, where alone it may
        run."""
        if job.queue is None:
            return True
        if job.queue not in self._processors:
            known = ", ".join(self._processors)
            raise ConfigError(f"job {job.number}: queue {job.queue} (expected {known})")
        return len(parts) > 1 or parts[0] <= self._processors[job.queue]

    def _at_sites(self, job: GridJob) -> Sizes | None:
        """Return the sizes of components that have sites, if these could hold them. Raises
        ConfigError."""
        sizes = (job.size,) if isinstance(job.size, int) else job.size
        left = dict(self._processors)
        for site, size in zip(job.sites, sizes, strict=True):
            if site not in left:
                raise ConfigError(
                    f"job {job.number}: site {site} (expected one of {', '.join(left)})"
                )
            left[site] -= size
        return sizes if min(left.values()) >= 0 else None

    def _parts(self, size: int | Sizes) -> Sizes | None:
        if size not in self._known:
            if isinstance(size, int):
                self._known[size] = self._setting.split(size, self._sizes)
            else:
                self._known[size] = size if _fits(size, self._sizes) else None
        return self._known[size]


def _total(job: GridJob) -> JobSpec:
    """Make the request of a job that the scheduler splits, with one component at a site."""
    assert isinstance(job.size, int)
    size = job.size
    split = Split(total=size, least=size, part_max=size, parts_max=size)
    return replace(_spec(job, (size,)), split=split)


def _spec(job: GridJob, parts: Sizes) -> JobSpec:
    wall_time_s = float(job.estimate_s)
    spec = JobSpec(
        components=tuple(
            ComponentSpec(
                executable="trace",
                processors=part,
                wall_time_s=wall_time_s,
                site=SiteName(job.sites[place]) if job.sites else None,
            )
            for place, part in enumerate(parts)
        ),
        owner=UserName(job.user),
        priority=job.priority,
        redundancy=job.redundancy,
    )
    return spec if job.queue is None else spec.in_queue_of(SiteName(job.queue))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _mean_local_wait(report: ExperimentReport) -> float | None:
    """Return the mean wait of the sites' own users' jobs that were started."""
    started = sum(users.started for users in report.users.values())
    return sum(users.waited_s for users in report.users.values()) / started if started else None


def _moments(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("mean", "median", "p95", "max"))
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "mean": fmean(ordered),
        "median": ordered[round(0.5 * last)],
        "p95": ordered[round(0.95 * last)],
        "max": ordered[last],
    }
