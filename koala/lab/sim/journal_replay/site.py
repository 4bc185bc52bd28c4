"""A site of a what-if: other users' load as recorded, our claims as this run makes them.

There is no local queue to model (see `others`). A claim begins when the processors that others
leave idle suffice within the grace time; otherwise it is refused. A ticket waits for that as long
as it takes, and while it is not gated; when that will be is not known. One that is booked waits for
its instant, too. Latencies, errors and losses come from the recording, by instant. While the site
is cut off, its reports wait, orders get lost, and leases run out, as they do live.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from koala.core.model import actions as act
from koala.core.model import events as ev
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName, TransferId
from koala.lab.sim.engine import Engine, Entry
from koala.lab.sim.journal_replay.background_load import BackgroundLoad
from koala.lab.sim.journal_replay.recording import (
    LATENCY_S,
    Answer,
    AnswerKind,
    Copy,
    Loss,
    Part,
    Pass,
    ProgramRun,
    Recording,
)

REPORT_SHARE = 0.1
"""Interval between two reports of a copy, as a share of its time so far: as agents have it."""
Order: TypeAlias = (
    act.ClaimProcessors
    | act.TryPaths
    | act.ArmClaim
    | act.ReleaseClaim
    | act.StopClaim
    | act.AcknowledgeClaim
    | act.StartTransfer
    | act.CancelTransfer
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Claim:
    """A claim at this site, from its ask until its end is acknowledged."""

    order: act.ClaimProcessors
    part: Part
    grace_until: Instant
    answer: Answer
    has_begun: bool = False  # holds processors
    granted_at: Instant | None = None
    promised_until: Instant | None = None  # D of its latest Arm
    arm: act.ArmClaim | None = None
    is_released: bool = False
    passed_at: Instant | None = None
    is_stopping: bool = False
    end: ClaimEnd | None = None
    ends_at: list[Entry] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        return self.end is None


class ReplaySite:
    """A site of the replay (see the module). `emit` sends the site's reports to the daemon."""

    def __init__(
        self,
        name: SiteName,
        engine: Engine,
        recording: Recording,
        *,
        emit: Callable[[ev.Event], None],
        parameters: Callable[[], Parameters],
        ends: Counter[Part],
        bandwidth: Callable[[act.StartTransfer], float],
    ) -> None:
        self.name = name
        self.facts: SiteFacts | None = None
        self.is_connected = False
        self._engine = engine
        self._recording = recording
        self._past = recording.sites[name]
        self._emit = emit
        self._parameters = parameters
        self._ends = ends  # of programs, at all sites
        self._bandwidth = bandwidth  # as far as the core knows
        self._claims: dict[ClaimId, _Claim] = {}
        self._copies: dict[TransferId, list[Entry]] = {}
        self._outbox: list[ev.Event] = []
        self._through = 0
        self._reported = (-1, -1, -1)
        self._is_reporting = False
        self._leases: list[Entry] = []
        self._load = 0
        self._killed = 0  # of the others' processors, as long as the recorded load has them
        self._ours = 0
        self._background = BackgroundLoad()
        self._backlog_timer: Entry | None = None
        for at, load in self._past.load:
            engine.at(at, partial(self._change_load, load))
        for loss in self._past.losses:
            engine.at(loss.at, partial(self._repeat_loss, loss))

    # --- processors ---

    @property
    def idle(self) -> int:
        """Processors in use by neither others nor our claims."""
        return max(0, self._room - self._background.used)

    @property
    def _room(self) -> int:
        return 0 if self.facts is None else self.facts.processors - self._ours

    @property
    def local(self) -> int:
        """Processors on which local jobs run."""
        steps = self._past.local
        place = bisect_right(steps, self._engine.now, key=itemgetter(0))
        return max(0, steps[place - 1][1] - self._killed) if place else 0

    def _change_load(self, load: int) -> None:
        """Change the load; departing jobs that were killed are already gone."""
        self._killed = max(0, self._killed - max(0, self._load - load))
        self._load = load
        self._advance()

    def _share(self) -> None:
        """Give the others what they want of the processors that are not ours."""
        if self.facts is None:
            return
        demand = max(0, self._load - self._killed)
        self._background.change(self._engine.now, room=self._room, demand=demand)
        if self._backlog_timer is not None:
            self._backlog_timer.cancel()
            self._backlog_timer = None
        backlog_cleared_at = self._background.backlog_cleared_at
        if backlog_cleared_at is not None:
            self._backlog_timer = self._engine.at(backlog_cleared_at, self._advance)

    def _make_room(self, claim: _Claim) -> None:
        """Kill as many local processors as the claim lacks, if there are so many."""
        lack = claim.order.processors - self.idle
        if claim.order.may_kill and 0 < lack <= self.local:
            self._killed += lack
            self._share()

    def _advance(self, *, is_reported: bool = True) -> None:
        """Begin the claims that can begin, in the order of asking, and report them."""
        self._share()
        for claim in list(self._claims.values()):
            waits = (
                claim.is_alive and not claim.has_begun and claim.answer.kind is AnswerKind.GRANTED
            )
            if not waits or claim.is_stopping or claim.order.is_gated:
                continue
            if claim.order.begins_at > self._engine.now:
                continue
            self._make_room(claim)
            if claim.order.processors <= self.idle:
                claim.has_begun = True
                self._ours += claim.order.processors
                self._share()
                self._after(claim, claim.answer.after_s, partial(self._grant, claim))
        if is_reported:
            self._report_soon()

    def _report_soon(self) -> None:
        if not self._is_reporting:
            self._is_reporting = True
            self._engine.after(0.0, self._report)

    def _report(self) -> None:
        self._is_reporting = False
        figures = (self.idle, self._through, self.local)
        if self.is_connected and figures != self._reported:
            self._reported = figures
            rtt_s = self._past.rtt.at(self._engine.now) or 0.0
            idle, through, local = figures
            self._emit(
                ev.SiteReported(
                    site=self.name, idle=idle, through=through, rtt_s=rtt_s, local=local
                )
            )

    # --- the link ---

    def cut(self, *, leases_end: bool) -> None:
        """Cut the session: leases begin to run out."""
        if not self.is_connected:
            return
        self.is_connected = False
        for claim in self._claims.values():
            if leases_end and claim.is_alive and claim.granted_at is not None:
                self._lease(claim, self._engine.now)

    def _lease(self, claim: _Claim, cut_at: Instant) -> None:
        """Schedule the end of a claim's lease. Its last ping was answered at the cut; one that
        passes meanwhile has the longer lease."""
        limits = self._parameters()
        is_running = claim.passed_at is not None
        over_at = cut_at + (limits.run_lease_s if is_running else limits.hold_lease_s)

        def over() -> None:
            if is_running or claim.passed_at is None:
                self._leave(claim, ClaimEnd(kind=EndKind.LEASE, reason="its lease ran out"))
            else:
                self._lease(claim, cut_at)

        self._leases.append(self._engine.at(over_at, over))

    def connect(self, facts: SiteFacts) -> None:
        """Open a session: the facts first, then `resume`."""
        self.facts = facts
        self.is_connected = True
        self._reported = (-1, -1, -1)
        for lease in self._leases:
            lease.cancel()
        self._leases = []

    def resume(self, wanted: Callable[[], act.Wanted]) -> None:
        """Send the pending reports, then receive the wanted state."""
        waiting, self._outbox = self._outbox, []
        for event in waiting:
            self._emit(event)
        self._on_wanted(wanted())
        self._advance()

    def send(self, order: Order) -> None:
        """Deliver a message of the daemon; it is lost without a session."""
        self._engine.after(0.0, lambda: self._receive(order))

    def _report_event(self, event: ev.Event) -> None:
        if self.is_connected:
            self._emit(event)
        else:
            self._outbox.append(event)

    def _receive(self, order: Order) -> None:  # noqa: C901 - a line a kind
        if not self.is_connected:
            return
        match order:
            case act.ClaimProcessors():
                self._hold(order)
            case act.TryPaths(claim=name):
                # Whether a path that was closed would be open at another time nobody can say.
                self._report_event(ev.PathsTried(claim=name))
            case act.ArmClaim():
                self._arm(order)
            case act.ReleaseClaim():
                self._release(order)
            case act.StopClaim(claim=name):
                self._stop(name)
            case act.AcknowledgeClaim(claim=name):
                if name in self._claims and not self._claims[name].is_alive:
                    del self._claims[name]
            case act.StartTransfer():
                self._fetch(order)
            case act.CancelTransfer(transfer=name):
                self._drop_copy(name)

    def _on_wanted(self, wanted: act.Wanted) -> None:
        for hold in wanted.holds:
            self._hold(hold)
        for paths in wanted.paths:
            self._receive(paths)
        for release in wanted.releases:
            self._release(release)
        named = {hold.claim for hold in wanted.holds}
        for stop in wanted.stops:
            self._stop(stop.claim)
        for name in [c for c in self._claims if c not in named]:
            self._stop(name)
        fetched = {order.transfer for order in wanted.fetches}
        for transfer in [t for t in self._copies if t not in fetched]:
            self._drop_copy(transfer)
        for order in wanted.fetches:
            self._fetch(order)

    @property
    def _is_past_end(self) -> bool:
        """True after the end of the recording: from there on nothing errs any more."""
        return self._engine.now > self._recording.last_at

    # --- claims ---

    def _hold(self, order: act.ClaimProcessors) -> None:
        self._through = max(self._through, order.ask_number)
        if order.claim in self._claims:
            self._set_gate(self._claims[order.claim], order)
            return
        now, limits = self._engine.now, self._parameters()
        job, _, component, _ = order.claim.rsplit("/", 3)
        part = (JobId(job), int(component))
        assert self.facts is not None
        wait_s = self.facts.grace_s + (limits.kill_s if order.is_preempting else 0.0)
        answer = self._past.answers.at(now, part)
        is_void = answer is not None and (
            (answer.kind is not AnswerKind.GRANTED and self._is_past_end)
            or (answer.kind is AnswerKind.REFUSED and order.waits)
        )
        if answer is None or is_void:
            answer = Answer(kind=AnswerKind.GRANTED, after_s=self._recording.grant_s)
        claim = _Claim(order=order, part=part, grace_until=now + wait_s, answer=answer)
        self._claims[order.claim] = claim
        if order.is_granted:
            lost = ClaimEnd(kind=EndKind.UNKNOWN, reason="no such claim here")
            self._after(claim, 0.0, lambda: self._leave(claim, lost))
        elif answer.kind is not AnswerKind.GRANTED and answer.end is not None:
            end = answer.end
            self._after(claim, answer.after_s, lambda: self._leave(claim, end))
        elif order.begins_at > now:
            self._engine.at(order.begins_at, self._advance)
        elif order.waits:
            self._report_event(
                ev.SiteReported(
                    site=self.name,
                    idle=self.idle,
                    through=self._through,
                    local=self.local,
                    starts=((order.claim, None),),
                )
            )
        else:
            self._after(claim, wait_s, lambda: self._grace_over(claim))
        self._advance()

    def _set_gate(self, claim: _Claim, order: act.ClaimProcessors) -> None:
        """Gate or open a claim; one that has begun ignores it."""
        if claim.order.is_gated != order.is_gated and not claim.has_begun:
            claim.order = order
            self._advance()

    def _grace_over(self, claim: _Claim) -> None:
        if claim.granted_at is None:
            end = ClaimEnd(kind=EndKind.REFUSED, reason="not started within the grace time")
            self._leave(claim, end)

    def _grant(self, claim: _Claim) -> None:
        now = self._engine.now
        if claim.is_stopping:
            return
        claim.granted_at = now
        self._report_event(ev.ClaimGranted(claim=claim.order.claim, nonce="replay"))
        if claim.order.no_barrier:
            self._pass(claim, now)
        else:
            self._after(claim, claim.order.hold_s, lambda: self._hold_over(claim))

    def _hold_over(self, claim: _Claim) -> None:
        now = self._engine.now
        if claim.is_released:
            return
        if claim.promised_until is not None and claim.promised_until > now:
            self._after(claim, claim.promised_until - now, lambda: self._hold_over(claim))
        else:
            self._leave(claim, ClaimEnd(kind=EndKind.HOLD, reason="its hold deadline came"))

    def _arm(self, order: act.ArmClaim) -> None:
        """Arm a starter: it promises if its hold outlasts D."""
        claim = self._claims.get(order.claim)
        if claim is None or claim.granted_at is None or claim.is_released:
            return
        late_at = self._engine.now + order.late_s
        if not claim.is_alive or claim.granted_at + claim.order.hold_s < late_at:
            return
        claim.arm, claim.promised_until = order, late_at
        after_s = self._past.arms.at(self._engine.now, claim.part)
        after_s = self._recording.arm_s if after_s is None else after_s
        self._after(claim, after_s, lambda: self._armed(claim, order))
        self._after(claim, order.late_s, lambda: self._late(claim, order))

    def _armed(self, claim: _Claim, order: act.ArmClaim) -> None:
        self._report_event(ev.ClaimArmed(claim=claim.order.claim, number=order.number))

    def _late(self, claim: _Claim, order: act.ArmClaim) -> None:
        if claim.arm is order and not claim.is_released:
            end = ClaimEnd(kind=EndKind.LATE, reason="armed, and not released in time")
            self._leave(claim, end)

    def _release(self, order: act.ReleaseClaim) -> None:
        claim = self._claims.get(order.claim)
        if claim is None or not claim.is_alive or claim.is_released or claim.is_stopping:
            return
        claim.is_released = True
        late = self._past.passes.at(order.release_at, claim.part) or self._recording.pass_
        at = max(order.release_at, self._engine.now) + late.late_s
        self._after(claim, at - self._engine.now, lambda: self._pass(claim, at, late))

    def _pass(self, claim: _Claim, at: Instant, late: Pass | None = None) -> None:
        if claim.is_stopping:
            return
        claim.passed_at = at
        claim.is_released = True
        report_s = (late or self._recording.pass_).report_s
        name = claim.order.claim
        self._engine.after(
            report_s, lambda: self._report_event(ev.ClaimPassed(claim=name, passed_at=at))
        )
        run = self._recording.run(claim.part, self._ends[claim.part])
        self._after(claim, run.run_s, lambda: self._over(claim, run, report_s))

    def _over(self, claim: _Claim, run: ProgramRun, pass_report_s: Seconds) -> None:
        """End the program; that is reported later, and after its pass."""
        self._ends[claim.part] += 1
        self._leave(claim, run.end, report_s=max(run.report_s, pass_report_s - run.run_s + 1e-6))

    def _stop(self, name: ClaimId) -> None:
        claim = self._claims.get(name)
        if claim is None:
            end = ClaimEnd(kind=EndKind.UNKNOWN, reason="no such claim here")
            self._report_event(ev.ClaimGone(claim=name, end=end))
        elif claim.is_alive and not claim.is_stopping:
            claim.is_stopping = True
            took_s = self._past.stops.at(self._engine.now, claim.part)
            took_s = self._recording.stop_s if took_s is None else took_s
            end = ClaimEnd(kind=EndKind.STOPPED, reason="stopped")
            self._after(claim, took_s, lambda: self._leave(claim, end))

    def _repeat_loss(self, loss: Loss) -> None:
        """Repeat a recorded loss: of the same component, else of its oldest claim."""
        held = [c for c in self._claims.values() if c.is_alive and c.granted_at is not None]
        same = [c for c in held if c.part == loss.part]
        others = [] if loss.is_own else held
        for claim in (same or others)[:1]:
            self._leave(claim, loss.end)

    def _leave(self, claim: _Claim, end: ClaimEnd, *, report_s: Seconds = 0.0) -> None:
        if not claim.is_alive:
            return
        for entry in claim.ends_at:
            entry.cancel()
        claim.end = replace(end, ended_at=self._engine.now)
        if claim.has_begun:
            self._ours -= claim.order.processors
        gone = ev.ClaimGone(claim=claim.order.claim, end=claim.end)
        self._engine.after(report_s, lambda: self._report_event(gone))
        self._engine.after(self._past.frees.at(self._engine.now, claim.part) or 0.0, self._report)
        self._advance(is_reported=False)

    def _after(self, claim: _Claim, duration_s: Seconds, call: Callable[[], None]) -> None:
        """Schedule a step of a claim, void if the claim ends before."""
        claim.ends_at.append(self._engine.after(duration_s, call))

    # --- copies ---

    def _fetch(self, order: act.StartTransfer) -> None:
        if order.transfer in self._copies:
            return
        now = self._engine.now
        past = self._recording.links.get((order.source, order.target))
        copy = None
        if past is not None:
            copy = past.at(now, (order.transfer.split("/")[0], order.file))
        if copy is None or (copy.failed_after_s is not None and self._is_past_end):
            copy = Copy(bytes_per_s=self._bandwidth(order), beside_s=LATENCY_S)
        bytes_per_s = order.booked_bps or copy.bytes_per_s
        took_s = order.size_bytes / bytes_per_s if bytes_per_s > 0 else 0.0
        whole_s = took_s + copy.beside_s
        outcome: ev.TransferFailed | ev.TransferFinished
        if copy.failed_after_s is not None:
            whole_s = copy.failed_after_s
            outcome = ev.TransferFailed(
                transfer=order.transfer, at=copy.failed_at, reason=copy.reason
            )
        else:
            outcome = ev.TransferFinished(
                transfer=order.transfer, size_bytes=order.size_bytes, took_s=took_s
            )
        self._copies[order.transfer] = [
            *self._reports(order, whole_s),
            self._engine.after(whole_s, lambda: self._report_event(outcome)),
        ]

    def _reports(self, order: act.StartTransfer, whole_s: Seconds) -> Iterator[Entry]:
        """Report the progress of a copy as an agent does, if any policy uses it."""
        if self._parameters().start != "early" or not order.report_s:
            return
        at_s = order.report_s
        while at_s < whole_s:
            progressed = ev.TransferProgressed(
                transfer=order.transfer,
                size_bytes=int(order.size_bytes * at_s / whole_s),
                took_s=at_s,
            )
            yield self._engine.after(at_s, partial(self._report_event, progressed))
            at_s += max(order.report_s, REPORT_SHARE * at_s)

    def _drop_copy(self, name: TransferId) -> None:
        for entry in self._copies.pop(name, ()):
            entry.cancel()
