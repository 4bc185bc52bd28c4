"""A run: the scheduler, its sites and copies on one engine, from the first submission to the end of
the last job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from koala.core.model.actions import (
    AcknowledgeClaim,
    Action,
    Announce,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PaceClaim,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    TryPaths,
)
from koala.core.model.events import (
    DaemonStarted,
    Event,
    JobSubmitted,
    ParametersChanged,
    ReplicaAdded,
    SiteRegistered,
    SiteReported,
    SiteResumed,
    Woken,
)
from koala.core.model.job import TERMINAL
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, ClaimId, Instant, JobId, Seconds, SiteName, UserName
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.core.site_views import is_usable
from koala.sim.engine import Engine
from koala.sim.experiment.copies import Copies
from koala.sim.experiment.setting import (
    Faults,
    Links,
    NoFaults,
    SiteSetting,
    Submission,
)
from koala.sim.experiment.sites import LocalUsers, Site
from koala.sim.experiment.usage import Span, Usage
from koala.sim.metrics import JobRecord, record_of
from koala.views.explain import why

OPERATOR = UserName("operator")
WAITING_MAX = 3
"""Jobs of which is told why they had not ended."""
OVER = tuple(phase.__name__ for phase in TERMINAL)
Watch = Callable[[Scheduler, Event, Sequence[Action], Instant], None]
"""Told of every event that was handled, and what came of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a run. `unfinished` jobs had not ended when it was broken off at `ended_at`;
    `waiting` tells of the first of them what `koala why` would say."""

    jobs: tuple[JobRecord, ...]
    unfinished: int
    ended_at: Instant
    events: int
    spans: tuple[Span, ...]
    local_s: float  # processor-seconds at all sites
    held_s: float
    running_s: float
    users: dict[SiteName, LocalUsers]
    waiting: tuple[str, ...] = ()


class Grid:
    """The sites and the links between them: what the core's actions come to. It neither knows who
    carries the core nor calls it: what happens is told to `tell`, at its instant."""

    def __init__(
        self,
        engine: Engine,
        settings: Iterable[SiteSetting],
        *,
        parameters: Parameters,
        links: Links,
        faults: Faults,
        bin_s: Seconds,
        tell: Callable[[Event], None],
    ) -> None:
        settings = tuple(settings)
        self._engine = engine
        self._tell = tell
        self._links = links
        self._faults = faults
        self._parameters = parameters
        self._programs: dict[JobId, Submission] = {}
        self.usage = Usage({s.name: s.facts.processors for s in settings}, bin_s=bin_s)
        self.copies = Copies(engine, links, default_bps=parameters.bandwidth_default_bps, tell=tell)
        self.sites = {
            setting.name: Site(
                engine,
                setting,
                faults=faults,
                program=self._program,
                usage=self.usage,
                tell=tell,
            )
            for setting in settings
        }

    def begin(self) -> None:
        """The daemon starts, the sites register, their users begin to submit."""
        links = tuple((*pair, bps) for pair, bps in self._links.bandwidth.items())
        self._tell(DaemonStarted(epoch=1))
        self._tell(ParametersChanged(parameters=self._parameters, links=links))
        for site in self.sites.values():
            facts = site.setting.facts
            self._tell(SiteRegistered(site=site.name, facts=facts, idle=facts.processors))
            site.begin()
        for outage in self._faults.outages:
            self._engine.at(outage.at, partial(self._lose, outage.site))
            self._engine.at(outage.until, partial(self._repair, outage.site))

    def submit(self, submission: Submission) -> None:
        """A job is submitted now, and its input file is where it is."""
        self._programs[submission.job] = submission
        file = submission.spec.input_file
        if file is not None:
            for site in submission.replicas:
                self._tell(ReplicaAdded(file=file.name, site=site, size_bytes=file.size_bytes or 0))
        self._tell(JobSubmitted(job=submission.job, spec=submission.spec))

    def forget(self, job: JobId) -> None:
        """The job is over."""
        self._programs.pop(job, None)

    def _program(self, claim: ClaimId) -> tuple[Seconds, int]:
        job, _, component, _ = claim.rsplit("/", 3)
        submission, index = self._programs[JobId(job)], int(component)
        status = submission.statuses[index] if submission.statuses else 0
        return submission.run_s[index], status

    def wait_to_be_asked(self) -> None:
        """From now on a site reports when `ask` is called, and no sooner: nobody acts on what is
        idle in the meantime, and most reports would be overtaken. A report that takes time to come
        is sent at once all the same."""
        for site in self.sites.values():
            site.waits_to_be_asked = not site.setting.latency_s

    def ask(self) -> None:
        """Have every site that has something new report it now."""
        for site in self.sites.values():
            site.report()

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Each action comes to its site as an entry of its own."""
        for action in actions:
            match action:
                case ClaimProcessors() | TryPaths() | ArmClaim() | ReleaseClaim() | StopClaim():
                    site = self.sites[action.site]
                    self._engine.after(site.setting.latency_s, partial(site.receive, action))
                case StartTransfer():
                    latency_s = self.sites[action.target].setting.latency_s
                    self._engine.after(latency_s, partial(self.copies.begin, action))
                case CancelTransfer():
                    latency_s = self.sites[action.target].setting.latency_s
                    self._engine.after(latency_s, partial(self.copies.cancel, action.transfer))
                case PaceClaim() | AcknowledgeClaim() | PublishOutputs() | Announce():
                    pass  # programs do not report their progress here

    def _lose(self, name: SiteName) -> None:
        self.sites[name].lose()
        self.copies.lose(name)

    def _repair(self, name: SiteName) -> None:
        self.sites[name].repair()
        self.copies.repair(name)
        self._tell(SiteResumed(site=name, by=OPERATOR))


class World:
    """One run of an experiment. Submissions come in order of their instants, and are drawn when
    their turn comes: a trace need not be held."""

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
        self.events = 0
        self.grid = Grid(
            self.engine,
            sites,
            parameters=parameters,
            links=links or Links(),
            faults=faults or NoFaults(),
            bin_s=bin_s,
            tell=self.tell,
        )
        if parameters.scan == "interval":  # then a report changes what is known, and starts nothing
            self.grid.wait_to_be_asked()
        self._watch = watch
        self._arriving: Iterator[Submission] = iter(submissions)
        self._is_exhausted = False

    def run(self, *, until: Instant = FOREVER) -> Report:
        """To the end of the last job, or to `until`."""
        self.begin()
        while not self.is_over and self.step(until=until):
            pass
        return self.report()

    def begin(self) -> None:
        """What is there before the first step."""
        self.grid.begin()
        self._await_submission()

    @property
    def is_over(self) -> bool:
        """All jobs were submitted and have ended, and nothing of them is left at a site."""
        is_ended = self._is_exhausted and self.over == self.submitted
        return is_ended and not self.scheduler.ledger

    def step(self, *, until: Instant = FOREVER) -> bool:
        """The next thing that happens; False when nothing will by `until`. What happens goes before
        what the core wants to be woken for at the same instant."""
        at, wake_at = self.engine.next_at, self.scheduler.wake_at
        if wake_at is not None and (at is None or wake_at < at):
            if wake_at > until:
                return False
            self.engine.run(wake_at)  # nothing but the clock
            self.tell(Woken())
            return True
        return at is not None and at <= until and self.engine.step()

    def tell(self, event: Event) -> None:
        """An event happens now."""
        if not isinstance(event, SiteReported):
            self.grid.ask()
        now = self.engine.now
        actions = self.scheduler.handle(event, now)
        self.events += 1
        for action in actions:
            if isinstance(action, Announce):
                self._hear(action, now)
        self.grid.carry_out(actions)
        if self._watch is not None:
            self._watch(self.scheduler, event, actions, now)

    def _hear(self, said: Announce, now: Instant) -> None:
        if said.site is not None:  # something about a site may have changed whether it is usable
            for site in self.scheduler.sites.values():
                self.grid.usage.set_usable(site.name, now, is_usable=is_usable(site))
        elif said.job is not None and said.phase in OVER:
            self.over += 1
            self.grid.forget(said.job)

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

    def report(self) -> Report:
        """What came of it so far."""
        usage = self.grid.usage
        usage.advance(self.engine.now)
        local_s, held_s, running_s = usage.totals_s
        return Report(
            jobs=tuple(record_of(job) for job in self.scheduler.jobs.values()),
            unfinished=self.submitted - self.over,
            ended_at=self.engine.now,
            events=self.events,
            spans=usage.spans(),
            local_s=local_s,
            held_s=held_s,
            running_s=running_s,
            users={name: site.users for name, site in self.grid.sites.items()},
            waiting=self._waiting(),
        )

    def _waiting(self) -> tuple[str, ...]:
        """Why the first jobs that have not ended wait."""
        now = self.engine.now
        jobs = (job for job in self.scheduler.jobs.values() if not job.is_over)
        return tuple(
            f"{job.id} is {job.phase_name}: {'; '.join(why(self.scheduler, job.id, now))}"
            for job in islice(jobs, WAITING_MAX)
        )
