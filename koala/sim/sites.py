"""A simulated site: its local queue, its own users, the starters of our claims, and its agent.

The agent keeps a durable table and forgets everything else when it crashes; queue, starters and
what they wrote down live on without it. Between check-in and withdrawal the first written wins; a
claim that ended stays in the table until the daemon has acknowledged its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from koala.core.actions import (
    AcknowledgeClaim,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    TryPaths,
    Wanted,
)
from koala.core.events import (
    ClaimArmed,
    ClaimGone,
    ClaimGranted,
    ClaimPassed,
    PathsTried,
    SiteReported,
    TransferFailed,
    TransferFinished,
)
from koala.core.grid import SiteFacts
from koala.core.job import ArmNumber, ClaimEnd, EndKind
from koala.core.values import ClaimId, Instant, Seconds, SiteName, TransferId
from koala.sim.engine import Engine, Entry
from koala.sim.faults import FaultPlan
from koala.sim.links import InventoryEnd, Link, Ping, Pong, Register, ToAgent
from koala.sim.starters import Leases, Starter
from koala_agent.lrm.model import Discipline, LocalQueue, local_queue


class Witness(Protocol):
    """Who is told the truth about starters, at the instant of it."""

    def began(self, site: SiteName, starter: Starter) -> None:
        """A starter was started."""

    def armed(self, site: SiteName, starter: Starter) -> None:
        """A starter has promised."""

    def passed(self, site: SiteName, starter: Starter) -> None:
        """A starter has passed the barrier: its program runs."""

    def ended(self, site: SiteName, starter: Starter) -> None:
        """Nothing of the starter is left."""

    def made_room(
        self, site: SiteName, order: ClaimProcessors, idle: int, killed: list[int]
    ) -> None:
        """For this claim, beside so many idle processors, local jobs of these sizes were killed, in
        this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a site is: what it registers with, and what nobody is told."""

    name: SiteName
    facts: SiteFacts
    discipline: Discipline = Discipline.FCFS
    rate: float = 1.0  # of its clock; 1 is the daemon's
    offset_s: Seconds = 0.0  # error of what it takes for the daemon's time


@dataclass(slots=True, kw_only=True)
class Held:
    """A claim in the agent's durable table."""

    order: ClaimProcessors
    grace_until: Instant
    nonce: str = ""
    armed: ArmNumber | None = None
    arm: ArmClaim | None = None
    paths: TryPaths | None = None  # in the agent's memory only
    release: ReleaseClaim | None = None
    is_stopping: bool = False
    passed_at: Instant | None = None
    end: ClaimEnd | None = None


@dataclass(slots=True, kw_only=True)
class _Copy:
    """A copy that this site fetches."""

    order: StartTransfer
    outcome: TransferFinished | TransferFailed | None = None
    ending: Entry | None = None


class Site:
    """A site and its agent."""

    def __init__(
        self,
        engine: Engine,
        plan: FaultPlan,
        setting: Setting,
        *,
        leases: Leases,
        witness: Witness,
        program: Callable[[ClaimId], tuple[Seconds, int]],
        bandwidth: Callable[[SiteName, SiteName], float],
    ) -> None:
        self.engine = engine
        self.plan = plan
        self.setting = setting
        self.name = setting.name
        self.rate = setting.rate
        self.leases = leases
        self.rtt_s = plan.round_trip_s
        self.is_up = True
        self.link: Link | None = None
        self.queue: LocalQueue[str] = local_queue(
            processors=setting.facts.processors, discipline=setting.discipline
        )
        self.starters: dict[ClaimId, Starter] = {}
        self.table: dict[ClaimId, Held] = {}
        self.through = 0
        self._witness = witness
        self._program = program
        self._bandwidth = bandwidth
        self._copies: dict[TransferId, _Copy] = {}
        self._notes: dict[ClaimId, ClaimEnd] = {}  # ends that starters wrote down
        self._runs: dict[ClaimId, int] = {}  # how often a placeholder was started
        self._local_waiting: dict[str, tuple[int, Seconds]] = {}
        self._local_sizes: dict[str, int] = {}  # of those that run, in order of start
        self._locals = 0
        self._told_idle: tuple[int, int, int] = (-1, -1, -1)
        self._is_reporting = False
        self._wakes_at = math.inf

    # --- the local manager ---

    def submit_local(self, processors: int, run_s: Seconds) -> None:
        """A job of the site's own users."""
        self._locals += 1
        key = f"local{self._locals}"
        processors = min(processors, self.queue.processors)
        self._local_waiting[key] = processors, run_s
        self.queue.submit(key, processors=processors, estimate_s=run_s)
        self._advance()

    def _advance(self) -> None:
        for key in self.queue.advance(self.engine.now):
            if key in self._local_waiting:
                self._local_sizes[key], run_s = self._local_waiting.pop(key)
                self.engine.after(run_s, partial(self._local_over, key))
            else:
                self._start(ClaimId(key))
        self._wake_at(self.queue.wake_at)
        self._report_soon()

    def _wake_at(self, instant: Instant) -> None:
        """A pass is due then, though nothing may happen until then."""
        if instant != self._wakes_at and instant < math.inf:
            self.engine.at(instant, self._advance)
        self._wakes_at = instant

    def _local_over(self, key: str) -> None:
        if self._local_sizes.pop(key, None) is not None:  # else it was killed
            self.queue.end(key)
            self._advance()

    def _make_room(self, order: ClaimProcessors) -> bool:
        """Start the claim at once, and kill the youngest local jobs for that if they suffice."""
        if order.processors > self.queue.idle + sum(self._local_sizes.values()):
            return False
        idle, killed = self.queue.idle, []
        for key in reversed(tuple(self._local_sizes)):
            if order.processors <= self.queue.idle:
                break
            killed.append(self._local_sizes.pop(key))
            self.queue.end(key)
        self._witness.made_room(self.name, order, idle, killed)
        until = self.engine.now + order.hold_s
        self.queue.occupy(order.claim, processors=order.processors, until=until)
        return True

    def _start(self, claim: ClaimId) -> None:
        entry = self.table.get(claim)
        assert entry is not None, f"{claim} starts at {self.name} and is not in the table"
        self._runs[claim] = self._runs.get(claim, 0) + 1
        run_s, status = self._program(claim)
        starter = Starter(
            self,
            entry.order,
            nonce=f"{claim}#{self._runs[claim]}",
            run_s=run_s,
            status=status,
        )
        self.starters[claim] = starter
        self._witness.began(self.name, starter)
        starter.begin()

    def _cancel(self, claim: ClaimId) -> None:
        """What scancel does: out of the queue, or killed."""
        if self.queue.is_waiting(claim):
            self.queue.withdraw(claim)
        elif claim in self.starters:
            starter = self.starters.pop(claim)
            starter.die()
            self._gone_from_queue(starter)
        self._advance()

    def _gone_from_queue(self, starter: Starter) -> None:
        self.queue.end(starter.order.claim)
        self._witness.ended(self.name, starter)

    def kill_starter(self, claim: ClaimId) -> None:
        """A node is lost, or somebody kills the placeholder; it may be started once more."""
        starter = self.starters.pop(claim, None)
        if starter is None:
            return
        starter.die()
        self._gone_from_queue(starter)
        if self.plan.is_requeued(self.engine.now) and not self._is_over(claim):
            self.queue.submit(claim, processors=starter.order.processors, estimate_s=60.0)
        self._advance()
        self._look_soon(claim)

    def _is_over(self, claim: ClaimId) -> bool:
        entry = self.table.get(claim)
        return entry is None or entry.end is not None

    def site_cancels(self, claim: ClaimId) -> None:
        """The site's people end one of our placeholders, through the agent's eyes."""
        if self.is_up and claim in self.table and self.table[claim].end is None:
            self._cancel(claim)
            self._finish(claim, ClaimEnd(kind=EndKind.SITE, reason="cancelled at the site"))

    # --- what a starter finds (Surroundings) ---

    def check_in(self, starter: Starter) -> bool | None:
        """Bind the claim for good to its first nonce, unless it was withdrawn before."""
        if not self.is_up:
            return None
        entry = self.table.get(starter.order.claim)
        if entry is None or entry.end is not None or entry.is_stopping:
            return False
        if entry.nonce not in ("", starter.nonce):
            return False
        if not entry.nonce:
            if self.engine.now >= entry.grace_until:
                return False
            entry.nonce = starter.nonce
            self._tell(ClaimGranted(claim=entry.order.claim, nonce=entry.nonce))
        return True

    def meet(self, starter: Starter) -> None:
        """Give the starter what is held for it, and take what it has to say."""
        entry = self.table.get(starter.order.claim)
        if not self.is_up or entry is None or entry.nonce != starter.nonce:
            return
        if starter.passed_at is not None:
            self.has_passed(starter)
        if entry.is_stopping:
            starter.stop()
        elif entry.release is not None:
            self._release(starter, entry.release)
        elif entry.paths is not None and starter.armed is None:
            starter.try_paths(entry.paths)

    def _release(self, starter: Starter, order: ReleaseClaim) -> None:
        starter.release(order, order.release_at + self.setting.offset_s)

    def ping(self, starter: Starter, ping: Ping) -> None:
        """Pass it on; without a session it is lost."""
        if self.is_up and self.link is not None and starter.is_reachable:
            self.link.to_daemon(ping)

    def has_tried(self, starter: Starter, tried: PathsTried) -> None:
        """Said on, if there is a way; else the daemon asks again."""
        if self.is_up and starter.is_reachable:
            self._tell(tried)

    def has_armed(self, starter: Starter, number: ArmNumber) -> None:
        """The promise is made; the agent tells it in `_arm`."""
        self._witness.armed(self.name, starter)

    def has_passed(self, starter: Starter) -> None:
        """Written down by the starter; the agent takes it into its table and tells it."""
        if starter.passes == 1 and starter.passed_at == self.engine.now:
            self._witness.passed(self.name, starter)
        entry = self.table.get(starter.order.claim)
        if self.is_up and starter.is_reachable and entry is not None and entry.passed_at is None:
            entry.passed_at = starter.passed_at
            assert starter.passed_at is not None
            self._tell(ClaimPassed(claim=starter.order.claim, passed_at=starter.passed_at))

    def has_left(self, starter: Starter, end: ClaimEnd) -> None:
        """The placeholder is over; its end is on disk."""
        claim = starter.order.claim
        if self.starters.get(claim) is starter:
            del self.starters[claim]
        self._gone_from_queue(starter)
        entry = self.table.get(claim)
        if entry is not None and entry.nonce == starter.nonce:
            self._notes[claim] = replace(end, ended_at=self.engine.now)
            if entry.passed_at is None and starter.passed_at is not None:
                entry.passed_at = starter.passed_at  # written down beside the end
        self._advance()
        self._look_soon(claim)

    # --- the agent: looking after its table ---

    def _look_soon(self, claim: ClaimId) -> None:
        self.engine.after(0.01, lambda: self._look(claim))

    def _look(self, claim: ClaimId) -> None:
        """Is it over, as far as the local manager and the starter's notes tell?"""
        entry = self.table.get(claim)
        if not self.is_up or entry is None or entry.end is not None:
            return
        starter = self.starters.get(claim)
        is_other = starter is not None and entry.nonce not in ("", starter.nonce)
        if is_other:  # started once more by the local manager: not ours
            self._cancel(claim)
        elif starter is not None:
            return
        if self.queue.is_waiting(claim):
            if entry.nonce or entry.is_stopping:
                self._cancel(claim)
            else:
                return
        note = self._notes.pop(claim, None)
        lost = ClaimEnd(
            kind=EndKind.STOPPED if entry.is_stopping else EndKind.VANISHED,
            reason="its starter is gone",
            ended_at=self.engine.now,
        )
        self._finish(claim, note or lost)

    def _grace_over(self, claim: ClaimId) -> None:
        entry = self.table.get(claim)
        if not self.is_up or entry is None or entry.end is not None or entry.nonce:
            return
        if self.engine.now < entry.grace_until:
            return
        self._cancel(claim)
        end = ClaimEnd(kind=EndKind.REFUSED, reason="not started within the grace time")
        self._finish(claim, end)

    def _finish(self, claim: ClaimId, end: ClaimEnd) -> None:
        entry = self.table[claim]
        assert entry.end is None, f"{claim} ends twice: {entry.end}, {end}"
        assert claim not in self.starters, f"{claim} is gone and its starter lives"
        entry.end = end
        self._tell_gone(entry)

    def _tell_gone(self, entry: Held) -> None:
        assert entry.end is not None
        claim = entry.order.claim
        if entry.passed_at is not None:
            self._tell(ClaimPassed(claim=claim, passed_at=entry.passed_at))
        self._tell(ClaimGone(claim=claim, end=entry.end))

    def _tell(
        self, report: ClaimGranted | PathsTried | ClaimArmed | ClaimPassed | ClaimGone
    ) -> None:
        if self.link is not None:
            self.link.to_daemon(report)

    def _report_soon(self) -> None:
        if not self._is_reporting:
            self._is_reporting = True
            self.engine.after(0.02, self._report)

    def _report(self) -> None:
        self._is_reporting = False
        local = sum(self._local_sizes.values())
        figure = (self.queue.startable(self.engine.now), self.through, local)
        if not self.is_up or self.link is None or not self.link.is_open_for_agent:
            return
        if figure != self._told_idle:
            self._told_idle = figure
            idle, through, _ = figure
            self.link.to_daemon(
                SiteReported(
                    site=self.name, idle=idle, through=through, rtt_s=self.rtt_s, local=local
                )
            )

    # --- the agent: crash and return ---

    def crash(self) -> None:
        """The agent dies; its table is on disk, its copies are half done."""
        if self.is_up:
            self.is_up = False
            for copy in self._copies.values():
                if copy.ending is not None:
                    copy.ending.cancel()
            self._copies.clear()
            if self.link is not None:
                self.link.agent_died()

    def restart(self) -> None:
        """The agent is back: first it looks what became of its claims, then it dials."""
        if self.is_up:
            return
        self.is_up = True
        for entry in self.table.values():
            entry.paths = None
        for claim in list(self.table):
            self._grace_over(claim)
            self._look(claim)
            starter = self.starters.get(claim)
            if starter is not None and starter.is_bound and starter.is_reachable:
                self.meet(starter)
        if self.link is not None:
            self.link.dial()

    # --- the agent's end of the link ---

    def connected(self) -> None:
        """Register, and say all that is in the table."""
        assert self.link is not None
        idle = self.queue.startable(self.engine.now)
        self._told_idle = (-1, -1, -1)
        self.link.to_daemon(Register(facts=self.setting.facts, idle=idle))
        for entry in self.table.values():
            self._tell_state(entry)
        for copy in self._copies.values():
            if copy.outcome is not None:
                self.link.to_daemon(copy.outcome)
        self.link.to_daemon(InventoryEnd())
        self._report_soon()

    def _tell_state(self, entry: Held) -> None:
        claim = entry.order.claim
        if entry.end is not None:
            self._tell_gone(entry)
        elif entry.nonce:
            self._tell(ClaimGranted(claim=claim, nonce=entry.nonce))
            if entry.armed is not None:
                self._tell(ClaimArmed(claim=claim, number=entry.armed))
            if entry.passed_at is not None:
                self._tell(ClaimPassed(claim=claim, passed_at=entry.passed_at))

    def receive(self, message: ToAgent) -> None:  # noqa: C901 - a line a kind
        """What the daemon says."""
        match message:
            case ClaimProcessors():
                self._hold(message)
            case TryPaths():
                self._try_paths(message)
            case ArmClaim():
                self._arm(message)
            case ReleaseClaim():
                self._on_release(message)
            case StopClaim(claim=claim):
                self._stop(claim)
            case AcknowledgeClaim(claim=claim):
                self._forget(claim)
            case StartTransfer():
                self._fetch(message)
            case CancelTransfer(transfer=transfer):
                self._drop_copy(transfer)
            case Wanted():
                self._on_wanted(message)
            case Pong():
                self._on_pong(message)

    def _on_wanted(self, wanted: Wanted) -> None:
        """What is here and not wanted is stopped."""
        for hold in wanted.holds:
            self._hold(hold)
        for paths in wanted.paths:
            self._try_paths(paths)
        for release in wanted.releases:
            self._on_release(release)
        for stop in wanted.stops:
            self._stop(stop.claim)
        named = {hold.claim for hold in wanted.holds} | {stop.claim for stop in wanted.stops}
        for claim in [c for c in self.table if c not in named]:
            self._stop(claim)
        fetched = {order.transfer for order in wanted.fetches}
        for transfer in [t for t in self._copies if t not in fetched]:
            self._drop_copy(transfer)
        for fetch in wanted.fetches:
            self._fetch(fetch)

    def _hold(self, order: ClaimProcessors) -> None:
        claim = order.claim
        self.through = max(self.through, order.ask_number)
        entry = self.table.get(claim)
        if entry is not None:
            self._tell_state(entry)
            return
        entry = Held(order=order, grace_until=self.engine.now + self._grace_s)
        self.table[claim] = entry
        if order.is_granted:
            self._finish(claim, ClaimEnd(kind=EndKind.UNKNOWN, reason="no such claim here"))
        elif self.plan.manager_errs(self.engine.now):
            self._finish(claim, ClaimEnd(kind=EndKind.FAILED, reason="the local manager erred"))
        elif order.processors > self.queue.processors:
            self._finish(claim, ClaimEnd(kind=EndKind.FAILED, reason="larger than the site"))
        else:
            estimate_s = order.hold_s + (order.component.wall_time_s or 3600.0)
            may_kill = order.may_kill and self.setting.facts.may_kill_local
            if may_kill and self._make_room(order):
                self._start(claim)
            else:
                self.queue.submit(claim, processors=order.processors, estimate_s=estimate_s)
            self.engine.after(self._grace_s, lambda: self._grace_over(claim))
            self._advance()
        self._report_soon()

    @property
    def _grace_s(self) -> Seconds:
        return self.setting.facts.grace_s / self.rate

    def _bound_starter(self, claim: ClaimId) -> Starter | None:
        """The starter to which the claim is bound, if it can be reached."""
        entry, starter = self.table.get(claim), self.starters.get(claim)
        if entry is None or starter is None or not starter.is_bound or not starter.is_reachable:
            return None
        return starter if entry.nonce == starter.nonce else None

    def _try_paths(self, order: TryPaths) -> None:
        starter = self._bound_starter(order.claim)
        entry = self.table.get(order.claim)
        if entry is None or entry.end is not None or entry.is_stopping:
            return
        entry.paths = order
        if starter is not None:
            starter.try_paths(order)

    def _arm(self, order: ArmClaim) -> None:
        starter = self._bound_starter(order.claim)
        entry = self.table.get(order.claim)
        if starter is None or entry is None or entry.end is not None or entry.is_stopping:
            return
        if starter.arm(order):
            entry.armed = order.number
            self._tell(ClaimArmed(claim=order.claim, number=order.number))

    def _on_release(self, order: ReleaseClaim) -> None:
        entry = self.table.get(order.claim)
        if entry is None or entry.end is not None or entry.is_stopping:
            return
        entry.release = order
        starter = self._bound_starter(order.claim)
        if starter is not None:
            self._release(starter, order)

    def _stop(self, claim: ClaimId) -> None:
        entry = self.table.get(claim)
        if entry is None:
            end = ClaimEnd(kind=EndKind.UNKNOWN, reason="no such claim here")
            self._tell(ClaimGone(claim=claim, end=end))
        elif entry.end is not None:
            self._tell_gone(entry)
        elif not entry.is_stopping:
            entry.is_stopping = True
            self._carry_out_stop(claim)

    def _carry_out_stop(self, claim: ClaimId) -> None:
        starter = self.starters.get(claim)
        if starter is None:
            self._cancel(claim)
            self._look(claim)
        elif starter.is_bound and starter.is_reachable:
            starter.stop()
        elif not starter.is_bound:
            self._cancel(claim)
            self._look(claim)

    def _forget(self, claim: ClaimId) -> None:
        entry = self.table.get(claim)
        if entry is not None and entry.end is not None:
            del self.table[claim]
            self._notes.pop(claim, None)

    def _on_pong(self, pong: Pong) -> None:
        starter = self._bound_starter(pong.claim)
        if starter is not None and starter.nonce == pong.nonce:
            starter.answered(pong.sent_at)

    # --- copies ---

    def _fetch(self, order: StartTransfer) -> None:
        known = self._copies.get(order.transfer)
        if known is not None:
            if known.outcome is not None and self.link is not None:
                self.link.to_daemon(known.outcome)
            return
        copy = _Copy(order=order)
        self._copies[order.transfer] = copy
        best_s = order.size_bytes / (
            order.booked_bps or self._bandwidth(order.source, order.target)
        )
        took_s = best_s * self.plan.transfer_factor(self.engine.now)
        side = self.plan.transfer_errs(self.engine.now)
        if side is None:
            outcome: TransferFinished | TransferFailed = TransferFinished(
                transfer=order.transfer, size_bytes=order.size_bytes, took_s=took_s
            )
        else:
            at = {"source": order.source, "target": order.target}.get(side)
            outcome = TransferFailed(transfer=order.transfer, at=at, reason="the copy broke")
        copy.ending = self.engine.after(took_s, lambda: self._copy_over(copy, outcome))

    def _copy_over(self, copy: _Copy, outcome: TransferFinished | TransferFailed) -> None:
        copy.outcome = outcome
        if self.link is not None:
            self.link.to_daemon(outcome)

    def _drop_copy(self, transfer: TransferId) -> None:
        copy = self._copies.pop(transfer, None)
        if copy is not None and copy.ending is not None:
            copy.ending.cancel()
