"""The state machine: events in, actions out.

    submitted -> Delayed | Placing      place -> Claiming       all granted -> Starting
    submitted with `after` -> Waiting -> Delayed | Placing
    all armed -> Releasing              all passed -> Running    all ended well -> Finished
    trouble -> Stopping -> Placing      own failure, limits -> Failed          cancel -> Cancelled

Two rules carry the design:
- *Release is a decision.* Releasing is entered while handling the event of the last Armed, so it
  is durable before any Release is sent.
- *A Stop stays pending.* A claim leaves the ledger only by ClaimGone or ClaimFenced. A job whose
  attempt was released is not placed again before all its claims have left.
"""

from __future__ import annotations

from typing import Any

from koala.core.model import events as ev
from koala.core.model.actions import Action, Wanted
from koala.core.model.grid import SiteFacts
from koala.core.model.job import Attempt, Claiming, Queued, Running, Starting
from koala.core.model.parameters import Parameters
from koala.core.model.timers import Timer, TimerKind
from koala.core.model.values import Instant, JobId, SiteName
from koala.core.pipeline.claim_end import on_fenced, on_gone
from koala.core.pipeline.claiming import claim_when_answered, evaluate_when_due, on_granted
from koala.core.pipeline.ending import on_cancel, on_missed
from koala.core.pipeline.placing import on_try_due
from koala.core.pipeline.progress_control import on_progress
from koala.core.pipeline.queue_entry import admit, await_try
from koala.core.pipeline.queueing import (
    SCANNERS,
    SCANS,
    adopt_discipline,
    on_scan_due,
    on_submitted,
)
from koala.core.pipeline.refusals import on_back_off_over
from koala.core.pipeline.requeueing import invalidate_after_loss
from koala.core.pipeline.resizing.growth import (
    on_growth_armed,
    on_growth_granted,
    on_growth_passed,
    on_resize_due,
)
from koala.core.pipeline.resizing.managers import on_resize_requested
from koala.core.pipeline.site_events import (
    on_declared_lost,
    on_disconnected,
    on_drained,
    on_registered,
    on_reported,
    on_rested,
    on_resumed,
    on_silent,
    on_transfer_failed,
    on_transfer_finished,
    on_transfer_progressed,
)
from koala.core.pipeline.start_barrier import (
    advance_start,
    on_armed,
    on_passed,
    on_paths_tried,
    on_ports_used,
)
from koala.core.pipeline.tickets.eligibility import adopt_tickets
from koala.core.pipeline.tickets.plans import plan_when_due
from koala.core.pipeline.tickets.ticket_events import on_ticket_started
from koala.core.pipeline.wanted import wanted
from koala.core.policy_api import Policies
from koala.core.state import State


class Scheduler(State):
    """The state machine: `handle(event, now)` alone changes its state; `wake_at` is its only
    timer.
    """

    def __init__(self, parameters: Parameters, policies: Policies) -> None:
        super().__init__(parameters, policies)
        self.scanner = SCANNERS[SCANS]  # until DaemonStarted

    def handle(self, event: ev.Event, now: Instant) -> list[Action]:
        """Handle an event; return the actions to carry out, in order, once it is durable."""
        return self._handle(event, now, None)

    def replay(self, event: ev.Event, now: Instant, answers: list[Any]) -> list[Action]:
        """Handle an event with the recorded answers in place of the policies."""
        return self._handle(event, now, answers)

    @property
    def answers(self) -> list[Any]:
        """Answers of policies in the last `handle`, to be recorded with the event."""
        return self.recorder.answers

    @property
    def wake_at(self) -> Instant | None:
        """Next instant at which the core needs a Woken event."""
        return self.timers.next_at

    def wanted(self, site: SiteName) -> Wanted:
        """Return all claims and transfers that the site must know of."""
        return wanted(self, site)

    def _handle(self, event: ev.Event, now: Instant, answers: list[Any] | None) -> list[Action]:
        self.recorder.begin(answers)
        self.actions = []
        self.is_changed = True
        self._dispatch(event, now)
        if not self.is_changed:
            return self.actions
        if not self.is_scan_set and (self.is_scan_asked or self.is_paced):
            self.is_scan_set = True
            pause_s = self.parameters.scan_interval_s if self.is_paced else 0.0
            self.timers.set(now + pause_s, TimerKind.SCAN)
        self.is_scan_asked = False
        return self.actions

    def _dispatch(self, event: ev.Event, now: Instant) -> None:  # noqa: C901 - one line a kind of event
        match event:
            case ev.Woken():
                while timer := self.timers.due(now):
                    self._ring(timer, now)
            case ev.SiteReported():
                on_reported(self, event, now)
            case ev.JobSubmitted():
                on_submitted(self, event, now)
            case ev.JobCancelRequested():
                on_cancel(self, event, now)
            case ev.JobResizeRequested():
                on_resize_requested(self, event, now)
            case ev.ClaimGranted():
                on_granted(self, event, now)
                on_ticket_started(self, event, now)
                on_growth_granted(self, event, now)
            case ev.PathsTried():
                on_paths_tried(self, event, now)
            case ev.PortsUsed():
                on_ports_used(self, event)
            case ev.ProgressReported():
                on_progress(self, event, now)
            case ev.ClaimArmed():
                on_armed(self, event, now)
                on_growth_armed(self, event, now)
            case ev.ClaimPassed():
                on_passed(self, event, now)
                on_growth_passed(self, event, now)
            case ev.ClaimGone():
                on_gone(self, event, now)
            case ev.ClaimFenced():
                on_fenced(self, event, now)
            case ev.TransferProgressed():
                on_transfer_progressed(self, event, now)
            case ev.TransferFinished():
                on_transfer_finished(self, event, now)
            case ev.TransferFailed():
                on_transfer_failed(self, event, now)
            case ev.SiteRegistered():
                site = self.sites.get(event.site)
                before = None if site is None else _of_tries(site.facts)
                on_registered(self, event, now)
                if before != _of_tries(event.facts):
                    self._await_tries(now)
            case ev.SiteDisconnected():
                on_disconnected(self, event.site, now)
            case ev.SiteDrained():
                on_drained(self, event, now)
            case ev.SiteResumed():
                on_resumed(self, event, now)
            case ev.SiteDeclaredLost():
                on_declared_lost(self, event, now)
            case ev.ReplicaAdded():
                self._on_replica_added(event)
            case ev.ReplicaRemoved():
                self.files.remove(event.file, event.site)
            case ev.DaemonStarted():
                self._on_daemon_started(event, now)
            case ev.ParametersChanged():
                self._on_parameters_changed(event, now)
            case ev.AllowancesSet():
                self.allowances = dict(event.allowances)
                self.request_scan()

    def _on_daemon_started(self, event: ev.DaemonStarted, now: Instant) -> None:
        self.epoch = event.epoch
        self.started_at = now
        self.arms = 0
        for site in self.sites.values():
            on_disconnected(self, site.name, now)
        if event.after_loss:
            self.loss_epoch = event.epoch
            invalidate_after_loss(self, now)
        adopt_discipline(self)
        adopt_tickets(self)

    def _on_parameters_changed(self, event: ev.ParametersChanged, now: Instant) -> None:
        before, self.parameters = self.parameters, event.parameters
        for claim in self.ledger.values():  # a disconnected starter keeps the older lease
            claim.fence_s = max(claim.fence_s, event.parameters.fence_s)
        for source, target, bandwidth in event.links:
            self.files.bandwidth.setdefault((source, target), bandwidth)
        self.files.bookable = {(start, end): bps for start, end, bps in event.bookable}
        admit(self, now)
        self.request_scan()
        if before != event.parameters:  # most starts change nothing
            self._await_tries(now)

    def _await_tries(self, now: Instant) -> None:
        """Set the timers of tries again after a change of their instants."""
        for job in self.queues.timed.values():
            await_try(self, job, now)

    def _on_replica_added(self, event: ev.ReplicaAdded) -> None:
        self.files.add(event.file, event.site, size_bytes=event.size_bytes, checksum=event.checksum)
        self.request_scan()

    def _ring(self, timer: Timer, now: Instant) -> None:
        match timer.kind:
            case TimerKind.SCAN:
                on_scan_due(self, now)
            case TimerKind.SILENT:
                on_silent(self, SiteName(timer.key), now)
            case TimerKind.PROBE:
                on_rested(self, SiteName(timer.key), now)
            case TimerKind.AGAIN:
                refused = self.jobs.get(JobId(timer.key))
                if refused is not None:
                    on_back_off_over(self, refused)
            case TimerKind.TRY | TimerKind.MISS:
                waiting = self.jobs.get(JobId(timer.key))  # it may be over and forgotten
                if waiting is not None:
                    (on_try_due if timer.kind is TimerKind.TRY else on_missed)(self, waiting, now)
            case (
                TimerKind.CLAIM
                | TimerKind.EVALUATE
                | TimerKind.ARM
                | TimerKind.PATHS
                | TimerKind.RELEASE
                | TimerKind.RESIZE
            ):
                attempt = self.placed.get(JobId(timer.key))
                if attempt is not None:
                    self._on_attempt_due(attempt, timer.kind, now)

    def _on_attempt_due(self, attempt: Attempt, kind: TimerKind, now: Instant) -> None:
        """Handle a timer of an attempt; the phase of its job decides if it still applies."""
        match self.jobs[attempt.job].phase:
            case Claiming(claim_at=None) if kind is TimerKind.EVALUATE:
                evaluate_when_due(self, attempt, now)
            case Claiming(claim_at=at) if at is not None and at <= now and kind is TimerKind.CLAIM:
                claim_when_answered(self, attempt, now)
            case Queued(plan_at=at) if at <= now and kind is TimerKind.CLAIM:
                plan_when_due(self, attempt, now)
            case Starting() as starting:
                advance_start(self, starting, now)
            case Running() if kind is TimerKind.RESIZE:
                on_resize_due(self, attempt, now)
            case _:
                pass


def _of_tries(facts: SiteFacts) -> tuple[object, ...]:
    """Return the facts of a site that determine the instants of tries."""
    return facts.grace_s, facts.owner, facts.users
