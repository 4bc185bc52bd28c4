"""Mutants of daemon, agents and starters: deliberate bugs that the swarm must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from koala.common.files import transfer
from koala.common.protocol.messages import Acknowledge, EndKind
from koala.core.awaited_passes import AwaitedPasses
from koala.core.leases import Leases
from koala.daemon.agents import connections, reports
from koala.daemon.loop import group_commit
from koala.daemon.storage import journal, records
from koala_agent.claims import ends as claim_ends
from koala_agent.claims import table as claims
from koala_agent.claims.events import Withdraw
from koala_agent.claims.states import Armed, Asked, Granted, Passed, Withdrawing
from koala_agent.starter.messages import PingAnswered, ReleaseOrder
from koala_agent.starter.state_machine import pacing
from koala_agent.starter.state_machine import starter as state_machine
from koala_agent.starter.state_machine.phases import Holding
from tests.swarm.planted.mutating import Patches, mutant, replaced

# The daemon ---------------------------------------------------------------------------------------


@mutant
def a_chain_that_is_not_checked() -> Patches:
    """A row that was changed on the disk is accepted."""
    with replaced((records, "_chained"), by=lambda *_row: b"always the same!"):
        yield


@mutant
def a_mark_that_is_not_read() -> Patches:
    """A journal that lost its end is accepted."""
    with replaced(
        (journal, "read_position"), by=lambda _text, **_source: records.JournalPosition()
    ):
        yield


@mutant
def answers_before_the_commit() -> Patches:
    """Clients receive the acceptance of a job before it is durable."""
    real = group_commit.GroupCommit.handle_batch

    def take(self: Any) -> Any:
        items = real(self)
        for item in items:
            item.on_commit(item.result, item.error)
        return items

    with replaced((group_commit.GroupCommit, "handle_batch"), by=take):
        yield


@mutant
def pings_that_are_answered_and_not_noted() -> Patches:
    """The fence counts from the grant and ignores later pings."""
    with replaced((Leases, "answer"), by=lambda self, claim, now: None):
        yield


@mutant
def passes_that_are_not_awaited() -> Patches:
    """A released claim that tells no pass is left to its lease."""
    with replaced((AwaitedPasses, "overdue"), by=lambda _self, _state, **_how: ()):
        yield


@mutant
def ends_by_the_daemons_newest_clock() -> Patches:
    """The time from pass to end has what became of the daemon's clock meanwhile."""

    def to_daemons(self: Any, instant: float) -> float:
        offset_s: float = self.clock.offset_s(self._now)
        return instant + offset_s

    with replaced((state_machine.StarterMachine, "to_daemons"), by=to_daemons):
        yield


@mutant
def ends_that_are_never_acknowledged() -> Patches:
    """An agent reports the end of a claim without end."""

    real = connections.SiteSessions.send

    def send(self: Any, site: Any, message: Any) -> None:
        if not isinstance(message, Acknowledge):
            real(self, site, message)

    with replaced((connections.SiteSessions, "send"), by=send):
        yield


@mutant
def inventories_that_are_half_taken() -> Patches:
    """Only the first report of an inventory counts."""
    real = reports.registration_events

    def registration_events(registration: Any, inventory: Any, *others: Any) -> Any:
        return real(registration, inventory[:1], *others)

    with replaced((reports, "registration_events"), by=registration_events):
        yield


# The agent ----------------------------------------------------------------------------------------


@mutant
def gone_before_the_local_manager_says_so() -> Patches:
    """A withdrawn claim is gone at once, before the local manager confirms it."""

    def withdraw(self: Any, claim: Any, end: Any) -> None:
        self._emit(Withdraw(claim=claim.id))
        self._finish(claim, end)

    with replaced((claims.ClaimTable, "_withdraw"), by=withdraw):
        yield


@mutant
def a_nonce_that_is_not_checked() -> Patches:
    """A placeholder that the batch system starts again replaces the first."""
    real = claims.ClaimTable._check_in

    def check_in(self: Any, event: Any) -> None:
        claim = self.claims.get(event.claim)
        if claim is not None and isinstance(claim.state, Granted | Armed | Passed):
            state = Granted(nonce=event.nonce)
            self._store(claim, state)
        real(self, event)

    with replaced((claims.ClaimTable, "_check_in"), by=check_in):
        yield


@mutant
def spoilt_copies_that_are_kept() -> Patches:
    """The checksum of a copy is ignored."""
    real = transfer.Transfer.compare

    def compare(self: Any, _checksum: str, now: float) -> Any:
        promised = getattr(self.state, "promised", "")
        return real(self, promised, now)

    with replaced((transfer.Transfer, "compare"), by=compare):
        yield


@mutant
def a_check_in_after_the_withdrawal() -> Patches:
    """A starter that checks in while its claim is being withdrawn is accepted."""
    real = claims.ClaimTable._check_in

    def check_in(self: Any, event: Any) -> None:
        claim = self.claims.get(event.claim)
        if claim is not None and isinstance(claim.state, Withdrawing):
            self._put(structs.replace(claim, state=Asked(grace_until=self._now)))
        real(self, event)

    with replaced((claims.ClaimTable, "_check_in"), by=check_in):
        yield


@mutant
def a_refusal_after_silence_is_the_end() -> Patches:
    """A refusal of a repeated submission counts as proof that no job exists."""
    real = claims.ClaimTable._submit_failed

    def submit_failed(self: Any, claim: Any, state: Any, event: Any) -> None:
        real(self, claim, structs.replace(state, trouble=""), event)

    with replaced((claims.ClaimTable, "_submit_failed"), by=submit_failed):
        yield


@mutant
def bindings_that_are_not_stored() -> Patches:
    """The binding of a claim to its starter is kept in memory only."""
    real = claims.ClaimTable._store

    def put(self: Any, claim: Any, state: Any = None) -> Any:
        written = len(self._out)
        claim = real(self, claim, state)
        if isinstance(state, Granted):
            del self._out[written:]
        return claim

    with replaced((claims.ClaimTable, "_store"), by=put):
        yield


@mutant
def ends_by_the_site_are_the_programs() -> Patches:
    """A placeholder that the site's staff ended counts as a program that ended."""
    real = claim_ends.bound_end

    def bound_end(event: Any, claim: Any) -> Any:
        end = real(event, claim)
        return replace(end, kind=EndKind.EXITED, statuses=(1,))

    with replaced((claim_ends, "bound_end"), by=bound_end):
        yield


# The starter --------------------------------------------------------------------------------------


@mutant
def a_lease_from_the_answer() -> Patches:
    """The lease counts from the arrival of the answer, not from the sending of the ping."""
    real = state_machine.StarterMachine._pong

    def pong(self: Any, answer: PingAnswered) -> None:
        real(self, answer)
        self._leases.answered_at = self._now

    with replaced((state_machine.StarterMachine, "_pong"), by=pong):
        yield


@mutant
def a_check_in_that_is_a_start() -> Patches:
    """A starter without a barrier passes on check-in, without the daemon's consent."""
    real = state_machine.StarterMachine._adopt

    def adopt(self: Any, message: Any) -> None:
        self._barrier.is_wanted = True
        real(self, message)

    with replaced((state_machine.StarterMachine, "_adopt"), by=adopt):
        yield


@mutant
def a_lease_that_does_not_end() -> Patches:
    """A program runs on after its lease."""

    real = state_machine.StarterMachine.lease_until

    def lease_until(self: Any) -> float:
        return float(real(self)) if self.passed_at is None else float("inf")

    with replaced((state_machine.StarterMachine, "lease_until"), by=lease_until):
        yield


@mutant
def a_start_after_d() -> Patches:
    """A starter with a Release ignores the limit D."""

    real = state_machine.StarterMachine._arm

    def arm(self: Any, message: Any, *rest: Any) -> None:
        barrier = self._barrier
        before = barrier.arming
        real(self, message, *rest)
        if barrier.arming is not before and barrier.arming.is_promised:
            object.__setattr__(barrier.arming, "until", barrier.arming.until + 1e6)
            barrier.promised_until += 1e6

    with replaced((state_machine.StarterMachine, "_arm"), by=arm):
        yield


@mutant
def a_start_without_release() -> Patches:
    """A starter that has promised passes at T, without a Release."""
    real = state_machine.StarterMachine._arm

    def arm(self: Any, message: Any, *rest: Any) -> None:
        real(self, message, *rest)
        arming = self._barrier.arming
        if isinstance(self.phase, Holding) and arming is not None and arming.is_promised:
            at = message.release_at - self.clock.offset_s(self._now)
            self._barrier.open_at = min(at, arming.until - 0.01)

    with replaced((state_machine.StarterMachine, "_arm"), by=arm):
        yield


@mutant
def a_release_of_another_arm() -> Patches:
    """Any Release counts, not only the one that matches."""
    real = state_machine.StarterMachine._release

    def release(self: Any, message: Any) -> None:
        arming = self._barrier.arming
        if arming is not None:
            message = ReleaseOrder(number=arming.number, release_at=message.release_at)
        real(self, message)

    with replaced((state_machine.StarterMachine, "_release"), by=release):
        yield


@mutant
def a_hold_without_an_end() -> Patches:
    """A starter waits at the barrier without limit as long as it gets answers."""
    real = state_machine.StarterMachine._tick_holding

    def tick_holding(self: Any) -> None:
        self._barrier.hold_until = float("inf")
        real(self)

    with replaced((state_machine.StarterMachine, "_tick_holding"), by=tick_holding):
        yield


@mutant
def an_end_before_the_program_is_dead() -> Patches:
    """A starter that sent TERM assumes that its program is dead."""
    real = state_machine.StarterMachine._processes_counted

    def looked(self: Any, event: Any) -> None:
        phase = self.phase
        if getattr(phase, "kill_at", None) is not None:
            event = type(event)(left=0, cpu_s=event.cpu_s, memory_bytes=event.memory_bytes)
        real(self, event)

    with replaced((state_machine.StarterMachine, "_processes_counted"), by=looked):
        yield


@mutant
def a_program_that_stays_held() -> Patches:
    """A program whose time share is used up is not resumed to end."""
    with replaced((pacing.Pacing, "end"), by=lambda self: []):
        yield


@mutant
def a_restarted_agent_forgets_resizes() -> Patches:
    """A resize is passed on and not kept, so a starter that was away never learns of it."""

    def resize(self: Any, claim: Any, order: Any) -> None:
        if isinstance(claim.state, Granted | Armed | Passed):
            self._to_starter(claim.id, claim.state.nonce, order)

    with replaced((claims.ClaimTable, "_resize"), by=resize):
        yield


@mutant
def a_resize_that_is_passed_on_again() -> Patches:
    """A starter passes on to its program each order of the same number."""
    real = state_machine.StarterMachine._resize

    def resize(self: Any, order: Any) -> None:
        self._resized = order.number - 1
        real(self, order)

    with replaced((state_machine.StarterMachine, "_resize"), by=resize):
        yield
