"""A fresh scheduler in a recorded world: the same submissions, new decisions.

Events from outside come again at their instant. Policies are called again, under the recorded
parameters with some of them changed. Sites answer as in `site`. The daemon is down when it was down
in the recording. The run goes on until all jobs are over, at most a day past the recording's end
and span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from koala.core.leases import Leases
from koala.core.model import actions as act
from koala.core.model.events import (
    DaemonStarted,
    Event,
    ParametersChanged,
    SiteDisconnected,
    SiteRegistered,
    Woken,
)
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, SiteName
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.lab.sim.engine import Engine, Entry, Rank
from koala.lab.sim.journal_replay.recording import Down, Part, Recording
from koala.lab.sim.journal_replay.run_history import RunHistory
from koala.lab.sim.journal_replay.site import ReplaySite
from koala.policies import chosen
from koala.policies.changes import Changes

PAST_END_S = 86_400.0


def policies_of(names: Mapping[str, str], changes: Changes) -> Policies:
    """Return the policies with the recorded names (a journal may have none), but for the changes.
    Raises ConfigError."""
    return chosen(**{**names, **changes.policies})


class ReplayWorld:
    """One run."""

    def __init__(self, recording: Recording, changes: Changes) -> None:
        self.engine = Engine(recording.first_at)
        self.scheduler = Scheduler(Parameters(), policies_of({}, changes))
        self.history = RunHistory()
        self.recording = recording
        self._changes = changes
        self._leases = Leases(recording.first_at)
        self._wake: Entry | None = None
        self._is_up = True
        self._is_fencing = False
        self._to_come = len(recording.outside)
        ends: Counter[Part] = Counter()
        self.sites = {
            name: ReplaySite(
                name,
                self.engine,
                recording,
                emit=self._handle,
                parameters=lambda: self.scheduler.parameters,
                ends=ends,
                bandwidth=self._bandwidth,
            )
            for name in recording.sites
        }
        for at, event in recording.outside:
            self.engine.at(at, partial(self._apply, event))
        for down in recording.down:
            self.engine.at(down.since, partial(self._go_down, down), rank=Rank.WAKE)

    @property
    def until(self) -> Instant:
        """Latest end of the run."""
        past = self.recording
        return past.last_at + (past.last_at - past.first_at) + PAST_END_S

    def run(self, progress: Callable[[Instant], None] = lambda _now: None) -> None:
        """Run to the end; `progress` is called with the time now and then."""
        number = 0
        while not self.is_over and (at := self.engine.next_at) is not None and at <= self.until:
            self.engine.step()
            number += 1
            if number % 1000 == 0:
                progress(self.engine.now)

    @property
    def is_over(self) -> bool:
        """True when no event is left, and every job is over and gone."""
        if self._to_come or self.scheduler.ledger:
            return False
        return all(job.has_ended for job in self.scheduler.jobs.values())

    # --- events ---

    def _apply(self, event: Event) -> None:
        """Apply an event from outside, as recorded but for the changes."""
        self._to_come -= 1
        match event:
            case DaemonStarted():
                self._is_up = True
                self._leases = Leases(self.engine.now)
                self._handle(event)
            case ParametersChanged():
                if event.policies:
                    self.scheduler.policies = policies_of(dict(event.policies), self._changes)
                changed = replace(event.parameters, **self._changes.parameters)  # type: ignore[arg-type]
                self._handle(replace(event, parameters=changed))
            case SiteRegistered(site=name, facts=facts):
                site = self.sites[name]
                site.connect(facts)
                self._handle(replace(event, idle=site.idle))
                site.resume(lambda: self.scheduler.wanted(name))
            case SiteDisconnected(site=name):
                self._cut(name)
                self._handle(event)
            case _:
                self._handle(event)

    def _go_down(self, down: Down) -> None:
        self._is_up = False
        for name in self.sites:
            self._cut(name, leases_end=down.is_long)

    def _cut(self, name: SiteName, *, leases_end: bool = True) -> None:
        self._answer_pings()
        self.sites[name].cut(leases_end=leases_end)

    def _handle(self, event: Event) -> None:
        now = self.engine.now
        actions = self.scheduler.handle(event, now)
        self.history.note(event, now, actions)
        for action in actions:
            self._carry_out(action)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self.scheduler.wake_at is not None:
            self._wake = self.engine.at(self.scheduler.wake_at, self._woken, rank=Rank.WAKE)
        self._set_fences()

    def _woken(self) -> None:
        if self._is_up:  # else when the daemon is back
            self._handle(Woken())

    def _carry_out(self, action: act.Action) -> None:
        match action:
            case (
                act.ClaimProcessors()
                | act.TryPaths()
                | act.ArmClaim()
                | act.ReleaseClaim()
                | act.StopClaim()
                | act.AcknowledgeClaim()
            ):
                self.sites[action.site].send(action)
            case act.StartTransfer() | act.CancelTransfer():
                self.sites[action.target].send(action)
            case act.ResizeClaim() | act.PaceClaim() | act.PublishOutputs() | act.Announce():
                pass  # programs do neither learn of it nor report their progress here

    def _bandwidth(self, order: act.StartTransfer) -> float:
        """Return the core's estimate for a link on which nothing was ever copied."""
        known = self.scheduler.files.bandwidth
        default = self.scheduler.parameters.bandwidth_default_bps
        return known.get((order.source, order.target), default)

    # --- leases ---

    def _answer_pings(self) -> None:
        """Answer pings continuously where there is a session."""
        for claim in self.scheduler.ledger.values():
            if self.sites[claim.site].is_connected:
                self._leases.answer(claim.id, self.engine.now)

    def _set_fences(self) -> None:
        if self.scheduler.ledger and not self._is_fencing:
            self._is_fencing = True
            every_s = max(0.5, min(self.scheduler.parameters.hold_fence_s / 4, 3600.0))
            self.engine.after(every_s, self._fence)

    def _fence(self) -> None:
        self._is_fencing = False
        if self._is_up:
            self._answer_pings()
            limits = self.scheduler.parameters
            for fenced in self._leases.overdue(
                self.scheduler.ledger,
                self.scheduler.sites,
                fence_s=limits.fence_s,
                hold_fence_s=limits.hold_fence_s,
                now=self.engine.now,
            ):
                self._handle(fenced)
        self._set_fences()
