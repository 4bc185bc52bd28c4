"""Runs of a simulated grid whose journals are replayed: hand-made, or drawn by a seed.

The grid is that of the swarm (the whole protocol, a queue at each site), not that of a what-if: the
two share nothing but the core, so that where they agree the what-if is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from koala.core.digest import digest
from koala.core.model.actions import Action
from koala.core.model.events import Event, Woken
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Notice, Record
from koala.lab.sim.journal_replay.run_history import RunHistory
from koala.lab.sim.journal_replay.whatif import WhatIf, compare
from koala.policies import DEFAULTS, chosen
from koala.policies.changes import Changes
from tests.swarm.run import Run
from tests.swarm.scenario import Scenario
from tests.swarm.system.daemons import Daemon
from tests.swarm.system.faults import Chances, FaultPlan
from tests.swarm.system.journals import records_of
from tests.swarm.system.starters import Starter
from tests.swarm.system.world import Setting, Site, World

BANDWIDTH_BPS = 1_000_000.0


@dataclass(kw_only=True)
class Told:
    """A recorded run: its notes, and the state that its replay gives."""

    history: RunHistory
    scheduler: Scheduler

    def compare(self, **changes: object) -> WhatIf:
        """Simulated as it was, and with changes."""
        policies = {k: str(v) for k, v in changes.items() if k in DEFAULTS}
        others = {k: v for k, v in changes.items() if k not in policies}
        wanted = Changes(policies=policies, parameters=others)
        return compare(self.history, self.scheduler, wanted, lambda _n, _r: lambda _at: None)


class Blind:
    """Sees nothing: the worlds here are judged by their journals."""

    def handled(self, scheduler: Scheduler, event: Event, now: Instant) -> None:
        """Nothing to do."""

    def committed(self, scheduler: Scheduler, event: Event, actions: list[Action]) -> None:
        """Nothing to do."""

    def crashed(self) -> None:
        """Nothing to do."""

    def damage_detected(self, how: str) -> None:
        """Nothing to do."""

    def is_lost(self, job: JobId) -> bool:
        """Nothing is."""
        return False

    def noticed(self, notices: Sequence[Notice]) -> None:
        """Nothing to do."""

    def restored(self, daemon: Daemon) -> None:
        """Nothing to do."""

    def replayed(self, before: str, after: str) -> None:
        """Nothing to do."""

    def accepted(self, job: JobId) -> None:
        """Nothing to do."""

    def began(self, site: SiteName, starter: Starter) -> None:
        """Nothing to do."""

    def armed(self, site: SiteName, starter: Starter) -> None:
        """Nothing to do."""

    def froze(self, site: SiteName, starter: Starter, late_at: Instant) -> None:
        """Nothing to do."""

    def passed(self, site: SiteName, starter: Starter) -> None:
        """Nothing to do."""

    def ended(self, site: SiteName, starter: Starter) -> None:
        """Nothing to do."""

    def asked_to_leave(self, starter: Starter) -> None:
        """Nothing to do."""

    def stopped(self, starter: Starter) -> None:
        """Nothing to do."""

    def made_room(self, site: SiteName, claim: str, idle: int, killed: list[int]) -> None:
        """Nothing to do."""


@dataclass(kw_only=True)
class Grid:
    """A grid in simulated time that does what a test says."""

    sites: Mapping[str, int]
    run_s: Mapping[str, Seconds] = field(default_factory=dict)  # by job; 10 else
    starts_after_stop: bool = False
    gate: str = ""
    chances: Chances = field(default_factory=Chances)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        facts = {
            name: SiteFacts(
                processors=processors, starts_after_stop=self.starts_after_stop, gate=self.gate
            )
            for name, processors in self.sites.items()
        }
        self.world = World(
            tuple(Setting(name=SiteName(name), facts=fact) for name, fact in facts.items()),
            parameters=Parameters(
                **{"bandwidth_default_bps": BANDWIDTH_BPS, "start": "jst", **self.parameters}
            ),
            policies=chosen(),
            plan=FaultPlan(1, chances=self.chances, kinds=(), quiet_at=1e9),
            onlooker=Blind(),
            program=self._program,
            bandwidth=lambda _source, _target: BANDWIDTH_BPS,
        )

    def _program(self, claim: ClaimId) -> tuple[Seconds, int]:
        return self.run_s.get(claim.partition("/")[0], 10.0), 0

    def site(self, name: str) -> Site:
        """A site, for what happens there."""
        return self.world.sites[SiteName(name)]

    def submit(self, job: str, spec: JobSpec, *, at: Instant) -> None:
        """A client submits."""
        self.world.submit(JobId(job), spec, at)

    def at(self, instant: Instant, call: Callable[[], None]) -> None:
        """Something happens."""
        self.world.engine.at(instant, call)

    def local_job(self, site: str, processors: int, *, at: Instant, run_s: Seconds) -> None:
        """A job of a site's own users."""
        self.at(at, lambda: self.site(site).submit_local(processors, run_s))

    def told(self, until: Instant) -> Told:
        """Run to the end, and take notes of the journal."""
        with self.world.running():
            self.world.engine.run(until)
        return told(self.records())

    def records(self) -> list[Record]:
        """The journal as the daemon keeps it."""
        return records_of(self.world.daemon.disk)


def driven(events: Sequence[tuple[Instant, Event]], *, until: Instant) -> list[Record]:
    """The journal of a daemon that hears these events and nothing else; its own are added."""
    scheduler = Scheduler(Parameters(), chosen())
    records: list[Record] = []

    def handle(at: Instant, event: Event) -> None:
        scheduler.handle(event, at)
        record = Record(seq=len(records) + 1, at=at, event=event, answers=scheduler.answers)
        records.append(record)

    for at, event in [*events, (until, Woken())]:
        while scheduler.wake_at is not None and scheduler.wake_at < at:
            handle(scheduler.wake_at, Woken())
        handle(at, event)
    return records


def told(records: Sequence[Record]) -> Told:
    """The notes of a journal."""
    scheduler, history = Scheduler(Parameters(), NO_POLICIES), RunHistory()
    for record in records:
        actions = scheduler.replay(record.event, record.at, record.answers)
        history.note(record.event, record.at, actions)
    return Told(history=history, scheduler=scheduler)


def written(records: Sequence[Record], folder: Path) -> Path:
    """The records as a journal on disk, with a digest of the state after the last; its file."""
    journal = Journal.open(folder)
    assert list(journal.records()) == []
    journal.append(Batch(records=records, digest=digest(told(records).scheduler)))
    journal.close()
    return journal.path


def drawn(scenario: Scenario) -> Told:
    """The notes of a swarm's run."""
    run = Run(scenario)
    run.play()
    return told(records_of(run.world.daemon.disk))
