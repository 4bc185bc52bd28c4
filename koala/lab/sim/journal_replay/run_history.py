"""Notes of claims, copies and sites, made event by event.

Recorded and simulated runs are noted by the same code, so that both are measured alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from koala.core.model import actions as act
from koala.core.model import events as ev
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ArmNumber, ClaimEnd, EndKind
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName, TransferId


@dataclass(slots=True, kw_only=True, eq=False)
class ArmNote:
    """One Arm that was sent, and the instant of its answer."""

    asked_at: Instant
    answered_at: Instant | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class ClaimNote:
    """The life of a claim as the daemon saw it."""

    order: act.ClaimProcessors
    job: JobId
    attempt: int
    component: int
    asked_at: Instant
    granted_at: Instant | None = None
    arms: dict[ArmNumber, ArmNote] = field(default_factory=dict)
    release_at: Instant | None = None
    passed_at: Instant | None = None
    pass_reported_at: Instant | None = None
    stopped_at: Instant | None = None
    gone_at: Instant | None = None
    end: ClaimEnd | None = None

    @property
    def id(self) -> ClaimId:
        """Id of the claim."""
        return self.order.claim

    @property
    def site(self) -> SiteName:
        """Site of the claim."""
        return self.order.site

    @property
    def processors(self) -> int:
        """Processors that it asked for."""
        return self.order.processors

    @property
    def freed_at(self) -> Instant | None:
        """Instant at which its processors were free again: its end at the site, else the report of
        its end."""
        if self.end is None or self.gone_at is None:
            return None
        return min(self.end.ended_at or self.gone_at, self.gone_at)

    @property
    def is_refused(self) -> bool:
        """True if it did not begin, without an error."""
        return self.end is not None and self.end.kind is EndKind.REFUSED


@dataclass(slots=True, kw_only=True, eq=False)
class CopyNote:
    """A transfer: its total time, and the site's own measurement."""

    order: act.StartTransfer
    started_at: Instant
    ended_at: Instant | None = None
    took_s: Seconds = 0.0
    failure: ev.TransferFailed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """Report of a site; `through` is None at a registration, which includes all."""

    at: Instant
    idle: int
    through: int | None
    rtt_s: Seconds
    local: int = 0  # processors of local jobs that run


@dataclass(slots=True, kw_only=True, eq=False)
class SiteNote:
    """A site: its facts by instant, its reports, its connected periods, its claims as asked."""

    facts: list[tuple[Instant, SiteFacts]] = field(default_factory=list)
    reports: list[SiteReport] = field(default_factory=list)
    claims: list[ClaimNote] = field(default_factory=list)

    @property
    def processors(self) -> int:
        """Processors by its newest facts."""
        return self.facts[-1][1].processors if self.facts else 0


class RunHistory:
    """Notes of one run."""

    def __init__(self) -> None:
        self.events = 0
        self.first_at: Instant = 0.0
        self.last_at: Instant = 0.0
        self.claims: dict[ClaimId, ClaimNote] = {}
        self.copies: dict[TransferId, CopyNote] = {}
        self.sites: dict[SiteName, SiteNote] = {}
        self.outside: list[tuple[Instant, ev.Event]] = []  # what no decision of ours brought
        self.down: list[tuple[Instant, Instant]] = []  # the daemon, from its last event on
        self._before: Instant | None = None  # the last instant before that of the last event

    def note(self, event: ev.Event, now: Instant, actions: Sequence[act.Action]) -> None:
        """Note one event and its outcome."""
        if not self.events:
            self.first_at = now
        elif now > self.last_at:
            self._before = self.last_at
        if isinstance(event, ev.DaemonStarted) and self._before is not None:
            self.down.append((self._before, now))
        self.events += 1
        self.last_at = now
        self._note_event(event, now)
        for action in actions:
            self._note_action(action, now)

    def site(self, name: SiteName) -> SiteNote:
        """Return the notes of a site."""
        return self.sites.setdefault(name, SiteNote())

    def _note_event(self, event: ev.Event, now: Instant) -> None:
        match event:
            case ev.ClaimGranted() | ev.ClaimArmed() | ev.ClaimPassed():
                claim = self.claims.get(event.claim)
                if claim is not None:
                    _note_answer(claim, event, now)
            case ev.ClaimGone(claim=name, end=end):
                self._note_end(name, end, now)
            case ev.ClaimFenced(claim=name):
                self._note_end(name, ClaimEnd(kind=EndKind.FENCED), now)
            case ev.TransferFinished() | ev.TransferFailed():
                self._note_copied(event, now)
            case ev.SiteReported():
                report = SiteReport(
                    at=now,
                    # Simulated sites have no reservations: what is idle in one is so for all.
                    idle=event.idle + sum([idle for _, idle in event.reservations or ()]),
                    through=event.through,
                    rtt_s=event.rtt_s,
                    local=event.local,
                )
                self.site(event.site).reports.append(report)
            case ev.Woken() | ev.ProgressReported() | ev.TransferProgressed():
                pass
            case (
                ev.DaemonStarted()
                | ev.ParametersChanged()
                | ev.AllowancesSet()
                | ev.PathsTried()
                | ev.PortsUsed()
                | ev.JobSubmitted()
                | ev.JobCancelRequested()
                | ev.JobResizeRequested()
                | ev.SiteRegistered()
                | ev.SiteDisconnected()
                | ev.SiteDrained()
                | ev.SiteResumed()
                | ev.SiteDeclaredLost()
                | ev.ReplicaAdded()
                | ev.ReplicaRemoved()
            ):
                self._note_outside(event, now)

    def _note_outside(self, event: ev.Event, now: Instant) -> None:
        """Note events from outside, which do not depend on our decisions."""
        self.outside.append((now, event))
        if isinstance(event, ev.SiteRegistered):
            site = self.site(event.site)
            site.facts.append((now, event.facts))
            rtt_s = site.reports[-1].rtt_s if site.reports else 0.0
            local = site.reports[-1].local if site.reports else 0
            report = SiteReport(at=now, idle=event.idle, through=None, rtt_s=rtt_s, local=local)
            site.reports.append(report)
        elif isinstance(event, ev.SiteDeclaredLost):
            for claim in self.site(event.site).claims:
                self._note_end(claim.id, ClaimEnd(kind=EndKind.FENCED), now)

    def _note_end(self, name: ClaimId, end: ClaimEnd, now: Instant) -> None:
        claim = self.claims.get(name)
        if claim is not None and (claim.end is None or claim.end.kind is EndKind.UNKNOWN):
            claim.end, claim.gone_at = end, now

    def _note_copied(self, event: ev.TransferFinished | ev.TransferFailed, now: Instant) -> None:
        copy = self.copies.get(event.transfer)
        if copy is None or copy.ended_at is not None:
            return
        copy.ended_at = now
        if isinstance(event, ev.TransferFailed):
            copy.failure = event
        else:
            copy.took_s = event.took_s

    def _note_action(self, action: act.Action, now: Instant) -> None:
        match action:
            case act.ClaimProcessors():
                if action.claim not in self.claims:
                    job, attempt, component, _ = action.claim.rsplit("/", 3)
                    claim = ClaimNote(
                        order=action,
                        job=JobId(job),
                        attempt=int(attempt),
                        component=int(component),
                        asked_at=now,
                    )
                    self.claims[action.claim] = claim
                    self.site(action.site).claims.append(claim)
            case act.TryPaths():
                pass
            case act.ArmClaim() | act.ReleaseClaim() | act.StopClaim():
                known = self.claims.get(action.claim)  # None: made before the journal begins
                if known is not None:
                    _note_order(known, action, now)
            case act.StartTransfer():
                self.copies[action.transfer] = CopyNote(order=action, started_at=now)
            case (
                act.CancelTransfer()
                | act.ResizeClaim()
                | act.PaceClaim()
                | act.AcknowledgeClaim()
                | act.PublishOutputs()
                | act.Announce()
            ):
                pass


def _note_order(
    claim: ClaimNote, order: act.ArmClaim | act.ReleaseClaim | act.StopClaim, now: Instant
) -> None:
    match order:
        case act.ArmClaim():
            claim.arms[order.number] = ArmNote(asked_at=now)
        case act.ReleaseClaim():
            claim.release_at = order.release_at
        case act.StopClaim():
            claim.stopped_at = now if claim.stopped_at is None else claim.stopped_at


def _note_answer(
    claim: ClaimNote, event: ev.ClaimGranted | ev.ClaimArmed | ev.ClaimPassed, now: Instant
) -> None:
    match event:
        case ev.ClaimGranted():
            claim.granted_at = now if claim.granted_at is None else claim.granted_at
        case ev.ClaimArmed(number=number):
            arm = claim.arms.get(number)
            if arm is not None and arm.answered_at is None:
                arm.answered_at = now
        case ev.ClaimPassed(passed_at=passed_at):
            if claim.passed_at is None:
                claim.passed_at, claim.pass_reported_at = passed_at, now
