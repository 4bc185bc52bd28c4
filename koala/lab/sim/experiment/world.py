"""One run: scheduler, sites and copies on one engine, from the first submission to the last end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from koala.core.model import actions as act
from koala.core.model import events as ev
from koala.core.model.job import TERMINAL_PHASES, Job, Running
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, Instant, JobId, Seconds, SiteName, UserName
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.core.sites import is_usable
from koala.lab.sim.engine import Engine
from koala.lab.sim.experiment.copies import Copies
from koala.lab.sim.experiment.programs import Programs
from koala.lab.sim.experiment.setting import Faults, Links, NoFaults, SiteSetting, Submission
from koala.lab.sim.experiment.sites import LocalUsers, Site
from koala.lab.sim.experiment.usage import Span, Usage
from koala.lab.sim.metrics import JobRecord, record_of
from koala.views.explain import why

OPERATOR = UserName("operator")
RUNNING = Running.__name__
WAITING_MAX = 3
"""Number of unfinished jobs whose reason is reported."""
_STEPS = 1_000
Watch = Callable[[Scheduler, ev.Event, Sequence[act.Action], Instant], None]
"""Receives every handled event and its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentReport:
    """Result of a run. `unfinished` jobs had not ended when the run was broken off at `ended_at`;
    `waiting` explains the first of them as `koala why` does."""

    jobs: tuple[JobRecord, ...]
    unfinished: int
    ended_at: Instant
    events: int
    spans: tuple[Span, ...]
    local_s: float  # processor-seconds at all sites
    held_s: float
    running_s: float
    users: dict[SiteName, LocalUsers]
    given_back: int  # claims that held processors, and ended before the barrier
    waiting: tuple[str, ...] = ()


class Grid:
    """The sites and the links between them; carries out the core's actions. It does not know the
    core: events go to `emit`, at their instant."""

    def __init__(
        self,
        engine: Engine,
        settings: Iterable[SiteSetting],
        *,
        parameters: Parameters,
        links: Links,
        faults: Faults,
        bin_s: Seconds,
        emit: Callable[[ev.Event], None],
    ) -> None:
        settings = tuple(settings)
        self._engine = engine
        self._emit = emit
        self._links = links
        self._faults = faults
        self._parameters = parameters
        self.programs = Programs(engine)
        self.usage = Usage({s.name: s.facts.processors for s in settings}, bin_s=bin_s)
        self.copies = Copies(engine, links, default_bps=parameters.bandwidth_default_bps, emit=emit)
        self.sites = {
            setting.name: Site(
                engine,
                setting,
                faults=faults,
                programs=self.programs,
                usage=self.usage,
                emit=emit,
            )
            for setting in settings
        }
        self._sites = tuple(self.sites.values())

    def begin(self) -> None:
        """Start the daemon, register the sites, and start the submissions of their users."""
        links = tuple((*pair, bps) for pair, bps in self._links.bandwidth.items())
        self._emit(ev.DaemonStarted(epoch=1))
        self._emit(ev.ParametersChanged(parameters=self._parameters, links=links))
        for site in self.sites.values():
            facts = site.setting.facts
            self._emit(ev.SiteRegistered(site=site.name, facts=facts, idle=facts.processors))
            site.begin()
        for outage in self._faults.outages:
            self._engine.at(outage.at, partial(self._lose, outage.site))
            self._engine.at(outage.until, partial(self._repair, outage.site))

    def submit(self, submission: Submission) -> None:
        """Submit a job now; its input files are at its sites."""
        self.programs.add(submission)
        for file in submission.spec.all_inputs:
            for site in submission.replicas:
                self._emit(
                    ev.ReplicaAdded(file=file.name, site=site, size_bytes=file.size_bytes or 0)
                )
        self._emit(ev.JobSubmitted(job=submission.job, spec=submission.spec))

    def report_on_request(self) -> None:
        """Switch to reports on request: a site reports only at `request_reports`. Most reports
        would be overtaken, because no one acts on them in between. A report with latency is still
        sent at once."""
        for site in self.sites.values():
            site.reports_on_request = not site.setting.latency_s

    def request_reports(self) -> None:
        """Ask every site with a change to report it now."""
        for site in self._sites:
            if site.passed_at is not None or site.has_figure:  # else there is no news
                site.report()

    def carry_out(self, actions: Sequence[act.Action]) -> None:
        """Send each action to its site as an entry of its own."""
        for action in actions:
            match action:
                case (
                    act.ClaimProcessors()
                    | act.TryPaths()
                    | act.ArmClaim()
                    | act.ReleaseClaim()
                    | act.ResizeClaim()
                    | act.StopClaim()
                ):
                    site = self.sites[action.site]
                    at = self._engine.now + site.setting.latency_s
                    self._engine.surely_at(at, partial(site.receive, action))
                case act.StartTransfer():
                    latency_s = self.sites[action.target].setting.latency_s
                    self._engine.after(latency_s, partial(self.copies.begin, action))
                case act.CancelTransfer():
                    latency_s = self.sites[action.target].setting.latency_s
                    self._engine.after(latency_s, partial(self.copies.cancel, action.transfer))
                case act.PaceClaim():
                    pass  # programs do not report their progress here
                case act.AcknowledgeClaim() | act.PublishOutputs() | act.Announce():
                    pass

    def _lose(self, name: SiteName) -> None:
        self.sites[name].break_down()
        self.copies.take_down(name)

    def _repair(self, name: SiteName) -> None:
        self.sites[name].repair()
        self.copies.repair(name)
        self._emit(ev.SiteResumed(site=name, by=OPERATOR))


class World:
    """One run of an experiment. Submissions come in order of their instants and are drawn one by
    one, so that a trace need not be held."""

    def __init__(
        self,
        *,
        sites: Iterable[SiteSetting],
        submissions: Iterable[Submission],
        parameters: Parameters,
        policies: Policies,
        links: Links | None = None,
        faults: Faults | None = None,
        bin_s: Seconds = 600.0,
        watch: Watch | None = None,
    ) -> None:
        self.engine = Engine()
        self.scheduler = Scheduler(parameters, policies)
        self.submitted = 0
        self.over = 0
        self.running: set[JobId] = set()
        self.events = 0
        self.grid = Grid(
            self.engine,
            sites,
            parameters=parameters,
            links=links or Links(),
            faults=faults or NoFaults(),
            bin_s=bin_s,
            emit=self.handle,
        )
        if parameters.scan == "interval":  # then a report changes what is known, and starts nothing
            self.grid.report_on_request()
        self._watch = watch
        self._arriving: Iterator[Submission] = iter(submissions)
        self._is_exhausted = False

    def run(self, *, until: Instant = FOREVER) -> ExperimentReport:
        """Run to the end of the last job, or to `until`."""
        self.begin()
        while not self.is_over and self.step(until=until):
            pass
        if not self.is_over:  # a job that is lost with its site by then is part of the run, too
            self.engine.run(max(site.count_lost(until) for site in self.grid.sites.values()))
        return self.report()

    def begin(self) -> None:
        """Set up everything that precedes the first step."""
        self.grid.begin()
        self._await_submission()

    @property
    def is_all_submitted(self) -> bool:
        """True when no submission is to come."""
        return self._is_exhausted

    @property
    def is_over(self) -> bool:
        """True when all jobs were submitted and have ended, and no claim is left at a site."""
        is_ended = self._is_exhausted and self.over == self.submitted
        return is_ended and not self.scheduler.ledger

    def step(self, *, until: Instant = FOREVER) -> bool:
        """Make steps until the scheduler takes part in one, or a thousand; return False when none
        is due by `until`. Events go before the core's wake-up at the same instant. Most steps are
        of local users alone, and no such step changes when the core is to be woken."""
        engine, wake_at = self.engine, self.scheduler.wake_at
        if wake_at is None or wake_at > until:
            return engine.run_some(until, most=_STEPS)
        if not engine.run_some(wake_at, most=_STEPS):
            engine.run(wake_at)  # nothing but the clock
            self.handle(ev.Woken())
        return True

    def handle(self, event: ev.Event) -> None:
        """Handle an event that happens now."""
        if not isinstance(event, ev.SiteReported):
            self.grid.request_reports()
        now = self.engine.now
        actions = self.scheduler.handle(event, now)
        self.events += 1
        self.engine.pause()
        if actions:
            for action in actions:
                if isinstance(action, act.Announce):
                    self._note(action, now)
            self.grid.carry_out(actions)
        if self._watch is not None:
            self._watch(self.scheduler, event, actions, now)

    def _note(self, announced: act.Announce, now: Instant) -> None:
        if (
            announced.site is not None
        ):  # something about a site may have changed whether it is usable
            for site in self.scheduler.sites.values():
                self.grid.usage.set_usable(site.name, now, is_usable=is_usable(site))
        elif announced.job is not None:
            if announced.phase == RUNNING:
                self.running.add(announced.job)
            else:
                self.running.discard(announced.job)
            if announced.phase in TERMINAL_PHASES:
                self.over += 1
                self.grid.programs.forget(announced.job)

    def _await_submission(self) -> None:
        submission = next(self._arriving, None)
        if submission is None:
            self._is_exhausted = True
        else:
            self.engine.at(submission.at, partial(self._submit, submission))

    def _submit(self, submission: Submission) -> None:
        self._await_submission()
        self.submitted += 1
        self.grid.submit(submission)

    def report(self) -> ExperimentReport:
        """Return the results so far."""
        usage = self.grid.usage
        for site in self.grid.sites.values():
            site.count_lost(self.engine.now)
        usage.advance(self.engine.now)
        local_s, held_s, running_s = usage.totals_s
        return ExperimentReport(
            jobs=tuple(self._record(job) for job in self.scheduler.jobs.values()),
            unfinished=self.submitted - self.over,
            ended_at=self.engine.now,
            events=self.events,
            spans=usage.spans(),
            local_s=local_s,
            held_s=held_s,
            running_s=running_s,
            users={name: site.users for name, site in self.grid.sites.items()},
            given_back=sum(site.given_back for site in self.grid.sites.values()),
            waiting=self._waiting(),
        )

    def _record(self, job: Job) -> JobRecord:
        sizes = self.grid.programs.sizes_of(job.id)
        return replace(record_of(job), sizes=sizes) if sizes else record_of(job)

    def whereabouts(self) -> str:
        """Say where the run is, in a line."""
        day = self.engine.now / 86_400
        return (
            f"simulated day {day:.1f}: {self.submitted} jobs submitted, {self.over} over,"
            f" {len(self.running)} run"
        )

    def _waiting(self) -> tuple[str, ...]:
        """Explain why the first unfinished jobs wait."""
        now = self.engine.now
        jobs = (job for job in self.scheduler.jobs.values() if not job.has_ended)
        return tuple(
            f"{job.id} is {job.phase_name}: {'; '.join(why(self.scheduler, job.id, now))}"
            for job in islice(jobs, WAITING_MAX)
        )
