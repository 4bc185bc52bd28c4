"""The claim table of a site, a pure state machine.

    Asked ──check-in──> Granted ──> Armed ──> Passed ──> Ended ──> (Collecting) ──> Gone
      └─grace, Stop──> Withdrawing ────────────────────────────────────────────────> Gone
                       Granted, Armed, Passed ──Stop, the site──> Stopping ────────> Gone

Events in, outputs out; no I/O, clock or randomness. Guarantees:

- Every order is idempotent by claim.
- Write before report: `StoreClaim` and `Forget` are carried out, durably, before all other outputs
  of one batch. So the first *written* wins between check-in and withdrawal.
- A claim is bound for good to its first nonce; any other starter is dismissed.
- Gone is reported only after the local manager confirmed that nothing is left. The report is
  repeated until it is acknowledged; then the claim is forgotten but for its name.
- The agent ends claims on its own only by its site's rules. The grace time of a ticket is a day
  from the last time that the daemon asked for it.
- The start of a booking is fixed: the same Hold with another one moves nothing.
- The gate that the daemon wants for a ticket is stored, and set again until the local manager has
  taken it, also after a restart. A bound claim has none.
- While files of an ended program are collected, no starter is left to ping. The agent pings in its
  place, so that a large output does not look like silence (Ended, Collecting).

Arms are not stored: an Arm that finds no starter is lost, and the daemon arms again. Releases and
the end of a Stop are stored, because both are final, and so is the newest Resize, because the
daemon may be away when its starter connects again. Instants are of this machine's CLOCK_BOOTTIME;
they are reset when a table is restored, because the machine may have restarted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

import msgspec

from koala.common.protocol.messages import (
    STARTER_ENDS,
    Acknowledge,
    Arm,
    ArmNumber,
    ClaimEnd,
    EndKind,
    Hold,
    KvAnswer,
    KvGet,
    KvPut,
    Pace,
    Ping,
    Pong,
    Program,
    Release,
    Report,
    ReportState,
    Resize,
    Stop,
    ToDaemon,
    TryPaths,
)
from koala.common.protocol.names import ClaimId, is_claim_id
from koala_agent.claims import ends as claim_ends
from koala_agent.claims import events as ev
from koala_agent.claims import refusals
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.pending_requests import PendingRequests
from koala_agent.claims.settings import LeaseTimes, Limits
from koala_agent.claims.states import (
    BOUND,
    Armed,
    Asked,
    Claim,
    Collecting,
    Ended,
    Gone,
    Granted,
    Passed,
    State,
    Stopping,
    Withdrawing,
    due_at_of,
    inventory_of,
    passed_at_of,
    report_of,
    waits_of,
)
from koala_agent.lrm.local_manager import CANCELLED, EndCause
from koala_agent.starter.state_machine.clock_offset import ClockOffset
from koala_agent.starter.state_machine.keepalive import PING_MAX_S, PINGS_A_LEASE

FORGOTTEN_MAX = 10_000
"""Names of forgotten claims that are kept. Only a daemon that has lost its journal could ask again
for an older one."""

TOLD_ENDS = (*STARTER_ENDS, EndKind.STOPPED, EndKind.HOLD, EndKind.LATE)
"""Ends of which a starter knows all."""

CLOCK_RATE_ERROR = 0.001
PAUSE_MAX_S = 5.0
"""Margins added to the end of a lease: clock drift, and a machine that was suspended."""

RETRY_S = 1.0
TICKET_RETRY_MAX_S = 60.0
"""Pauses before a command is repeated that failed: the first, and the longest for a ticket. A claim
with a grace time has no time for longer ones."""

TICKET_S = 86_400.0
"""Time after which a ticket is withdrawn that its daemon has not asked for again."""

PINGED_MAX = 1_000
"""Pings of which the answers are awaited to measure the daemon's clock."""

VALUES_MAX = 1_000
"""Key-value pairs that one claim may put."""

REFUSED_TOLD_S = 3600.0
"""How long the refusal of a ticket is told."""


RESTARTED = "submitted again after a restart of the agent"


class ClaimTable:
    """State machine over all claims of a site. One for each run of an agent; `restored` are the
    claims from before the restart."""

    def __init__(
        self,
        *,
        limits: Limits,
        leases: LeaseTimes,
        now: float,
        boot: str = "",
        restored: Iterable[Claim] = (),
        forgotten: Iterable[ClaimId] = (),
    ) -> None:
        self._limits = limits
        self._leases = leases
        self._out: list[ev.Output] = []
        self._now = now
        self._pending = PendingRequests()
        self._connected: dict[ClaimId, str] = {}
        self._ping_at = now
        self._boot = boot
        self._clock = ClockOffset(0.0)
        self._pinged: dict[tuple[ClaimId, str, float], float] = {}  # when pings came through here
        self._paths: dict[ClaimId, TryPaths] = {}  # to be tried; the daemon repeats them
        self._paces: dict[ClaimId, Pace] = {}  # for a starter that connects; repeated, too
        self._refused = (-math.inf, "")  # the last refusal of a ticket
        self._forgotten: dict[ClaimId, None] = dict.fromkeys(forgotten)
        self.claims: dict[ClaimId, Claim] = {}
        self._dues: dict[ClaimId, float] = {}  # of the claims that have a timer
        self._collected_claims: set[ClaimId] = set()  # for which the agent pings
        for claim in restored:
            self._put(self._restored(claim))

    def handle(self, event: ev.Event, now: float) -> list[ev.Output]:
        """Handle one event; return its outputs in order: the driver carries out writes first."""
        self._now = now
        self._out = []
        self._dispatch(event)
        return self._out

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is due."""
        due = min(self._dues.values(), default=None)
        if not self._collected_claims:
            return due
        return self._ping_at if due is None else min(due, self._ping_at)

    @property
    def trouble(self) -> str:
        """Words for the site's administrator about tickets that the local queue does not take, or
        that were refused a while ago; empty for none. What cannot be booked for an instant is no
        trouble of the site."""
        at, reason = self._refused
        is_told = bool(reason) and self._now - at < REFUSED_TOLD_S
        refused = f"a claim that was to wait here was refused: {reason}" if is_told else ""
        holds = [claim for claim in self.claims.values() if claim.hold.waits]
        failing = waits_of(claim for claim in holds if not claim.hold.begins_at)
        if failing:
            return f"{len(failing)} claims cannot be queued now: {failing[0].reason}"
        return refused

    def inventory(self) -> list[Report | KvPut]:
        """Return all reports and all stored values, for the start of a session."""
        return inventory_of(self.claims.values())

    def secret(self, claim: ClaimId) -> str | None:
        """Return the secret that a starter of this claim must prove; None for an unknown claim."""
        known = self.claims.get(claim)
        return None if known is None else known.secret

    # Which event goes where ------------------------------------------------------------------

    def _dispatch(self, event: ev.Event) -> None:  # noqa: C901 - a line a kind
        match event:
            case ev.HoldOrdered():
                self._hold(event)
            case TryPaths() | Arm() | Release() | Resize() | Pace() | Stop() | Acknowledge():
                self._on_order(event)
            case ev.WantedComplete(claims=claims):
                self._stop_unnamed(claims)
            case ev.LeasesSet(leases=leases):
                self._set_leases(leases)
            case ev.CheckedIn():
                self._check_in(event)
            case ev.StarterArmed() | ev.StarterPassed() | ev.StarterEnded() | ev.StarterLost():
                self._on_starter(event)
            case ev.StarterSaid():
                self._forward_to_daemon(event)
            case Pong() | KvAnswer():
                self._forward_to_starter(event)
            case (
                ev.SubmitFailed()
                | ev.GateFailed()
                | ev.BatchUnlisted()
                | ev.BatchFound()
                | ev.BatchEnded()
                | ev.Collected()
            ):
                self._on_site(event)
            case ev.Woken():
                self._wake_all()

    def _stop_unnamed(self, named: frozenset[str]) -> None:
        for claim in list(self.claims.values()):
            if claim.id not in named and not isinstance(claim.state, Gone):
                self._stop(claim, claim_ends.stopped_end("the daemon did not name it"))

    def _on_order(
        self, order: TryPaths | Arm | Release | Resize | Pace | Stop | Acknowledge
    ) -> None:
        claim = self.claims.get(order.claim)
        match order:
            case Acknowledge():
                if claim is not None and isinstance(claim.state, Gone):
                    self._forget(claim)
            case _ if claim is None:
                self._report_unknown(order.claim)
            case TryPaths():
                self._try_paths(claim, order)
            case Arm():
                self._arm(claim, order)
            case Release():
                self._release(claim, order)
            case Resize():
                self._resize(claim, order)
            case Pace():
                self._pace(claim, order)
            case Stop():
                self._stop(claim, claim_ends.stopped_end(""))

    # Orders ----------------------------------------------------------------------------------

    def _hold(self, order: ev.HoldOrdered) -> None:
        hold = order.hold
        claim = self.claims.get(hold.claim)
        if claim is not None:
            if isinstance(claim.state, Asked):
                claim = self._ask_again(claim, claim.state, hold)
            self._report(claim)
        elif hold.is_granted or hold.claim in self._forgotten:
            self._report_unknown(hold.claim)
        elif reason := self._refusal(order) or order.shortage:
            self._note_refused(hold, reason)
            end = ClaimEnd(kind=EndKind.REFUSED, reason=reason)
            self._to_daemon(_gone(hold.claim, end))
        else:
            state = Asked(grace_until=self._now + self._grace_s(hold))
            claim = self._store(Claim(hold=hold, secret=order.secret, state=state))
            self._emit(ev.Submit(claim=claim))

    def _change_gate(self, claim: Claim, state: Asked, *, is_gated: bool) -> Claim:
        claim = msgspec.structs.replace(claim, hold=replace(claim.hold, is_gated=is_gated))
        # Failures of earlier orders must not delay this one.
        claim = self._store(claim, msgspec.structs.replace(state, gate_at=None, failures=0))
        self._set_gate(claim)
        return claim

    def _set_gate(self, claim: Claim) -> None:
        self._emit(ev.SetGate(claim=claim.id, is_gated=claim.hold.is_gated))

    def _ask_again(self, claim: Claim, state: Asked, hold: Hold) -> Claim:
        """Renew the time of a ticket; change the gate of a claim if the daemon does."""
        if hold.waits or hold.begins_at:
            state = msgspec.structs.replace(state, grace_until=self._now + self._grace_s(hold))
        if hold.is_gated == claim.hold.is_gated:
            return self._replace_state(claim, state)
        return self._change_gate(claim, state, is_gated=hold.is_gated)

    def _grace_s(self, hold: Hold) -> float:
        """Return the grace time of a claim: that of its site, longer when it preempts other jobs or
        machines have to be powered up. A ticket or a booking waits until its daemon has not asked
        for it for a day."""
        if hold.waits or hold.begins_at:
            return TICKET_S
        preemption_s = self._leases.kill_s if hold.is_preempting else 0.0
        return self._limits.grace_s + hold.wake_s + preemption_s

    def _refusal(self, order: ev.HoldOrdered) -> str:
        claims = self.claims.values()
        return refusals.refusal(order.hold, order.begins_in_s, claims, self._limits)

    def _try_paths(self, claim: Claim, order: TryPaths) -> None:
        match claim.state:
            case Granted(nonce=nonce):
                self._paths[claim.id] = order
                self._to_starter(claim.id, nonce, order)
            case Gone() | Passed():
                self._report(claim)
            case Asked() | Withdrawing() | Armed() | Stopping() | Ended() | Collecting():
                pass

    def _resize(self, claim: Claim, order: Resize) -> None:
        """Keep the newest resize before it is passed on; one of the same number is repeated, with
        what is left of the time to give way."""
        if not isinstance(claim.state, (Asked, *BOUND)):
            return
        if claim.resize is not None and order.number < claim.resize.number:
            return
        if order != claim.resize:
            self._store(msgspec.structs.replace(claim, resize=order))
        if isinstance(claim.state, BOUND):
            self._to_starter(claim.id, claim.state.nonce, order)

    def _pace(self, claim: Claim, order: Pace) -> None:
        if isinstance(claim.state, BOUND):
            self._paces[claim.id] = order
            self._to_starter(claim.id, claim.state.nonce, order)

    def _arm(self, claim: Claim, arm: Arm) -> None:
        match claim.state:
            case Granted(nonce=nonce) | Armed(nonce=nonce):
                if any(peer.claim == claim.id for peer in arm.peers):
                    self._to_starter(claim.id, nonce, arm)
            case Gone() | Passed():
                self._report(claim)
            case Asked() | Withdrawing() | Stopping() | Ended() | Collecting():
                pass

    def _release(self, claim: Claim, release: Release) -> None:
        match claim.state:
            case Granted(nonce=nonce) | Armed(nonce=nonce):
                # Kept before it is passed on: a starter that connects later gets it from here.
                self._store(msgspec.structs.replace(claim, release=release))
                self._to_starter(claim.id, nonce, release)
            case Gone() | Passed():
                self._report(claim)
            case Asked() | Withdrawing() | Stopping() | Ended() | Collecting():
                pass

    def _stop(self, claim: Claim, end: ClaimEnd) -> None:
        again_at = self._now + self._limits.again_s
        match claim.state:
            case Asked():
                self._withdraw(claim, end)
            case Granted(nonce=nonce) | Armed(nonce=nonce) | Passed(nonce=nonce):
                passed_at = passed_at_of(claim.state)
                is_connected = self._connected.get(claim.id) == nonce
                due_at = self._now + self._leases.kill_s + self._limits.again_s
                state = Stopping(
                    nonce=nonce,
                    passed_at=passed_at,
                    end=end,
                    due_at=due_at if is_connected else again_at,
                )
                self._store(claim, state)
                self._to_starter(claim.id, nonce, Stop(claim=claim.id))
                if not is_connected:
                    self._emit(ev.Withdraw(claim=claim.id))
            case Ended(collects=True, end=own) as ended if not own.succeeded:
                self._store(claim, msgspec.structs.replace(ended, collects=False))
            case Collecting(end=own) if not own.succeeded:
                self._finish(claim, own)
            case Gone():
                self._report(claim)
            case Withdrawing() | Stopping() | Ended() | Collecting():
                pass  # what ended well may have been the last of a job that is done

    def _withdraw(self, claim: Claim, end: ClaimEnd) -> None:
        self._store(claim, Withdrawing(end=end, due_at=self._now + self._limits.again_s))
        self._emit(ev.Withdraw(claim=claim.id))

    def _forget(self, claim: Claim) -> None:
        del self.claims[claim.id]
        self._dues.pop(claim.id, None)
        self._collected_claims.discard(claim.id)
        self._connected.pop(claim.id, None)
        self._paces.pop(claim.id, None)
        self._forgotten[claim.id] = None
        while len(self._forgotten) > FORGOTTEN_MAX:
            del self._forgotten[next(iter(self._forgotten))]
        self._emit(ev.Forget(claim=claim.id))

    @property
    def _ping_s(self) -> float:
        """Interval of the agent's own pings, the same as of starters."""
        return min(PING_MAX_S, self._leases.run_lease_s / PINGS_A_LEASE)

    def _ping(self) -> None:
        """Ping in place of starters that have exited while their claims are still collected."""
        self._ping_at = self._now + self._ping_s
        for claim in self.claims.values():
            if _is_collected(claim.state):
                self._to_daemon(Ping(claim=claim.id, nonce=claim.state.nonce, sent_at=self._now))

    def _set_leases(self, leases: LeaseTimes) -> None:
        self._ping_at = self._now
        for pending in self._pending:
            self._to_daemon(pending)
        if leases == self._leases:
            return
        self._leases = leases
        for claim, nonce in self._connected.items():
            self._to_starter(claim, nonce, self._adopted())

    # Starters --------------------------------------------------------------------------------

    def _check_in(self, event: ev.CheckedIn) -> None:
        claim = self.claims.get(event.claim)
        if claim is None:
            self._dismiss(event.claim, event.nonce, "this claim is not known here")
            return
        match claim.state:
            case Asked() if reason := refusals.hold_refusal(
                claim, self.claims.values(), self._limits
            ):
                self._dismiss(event.claim, event.nonce, reason)
                self._refuse(claim, reason)
            case Asked():
                self._connected[claim.id] = event.nonce
                checked_in = msgspec.structs.replace(
                    claim, address=event.address, hosts=event.hosts, began_at=event.began_at
                )
                claim = self._store(checked_in, Granted(nonce=event.nonce))
                self._report(claim)
                self._adopt(claim, event)
            case Granted(nonce=nonce) | Armed(nonce=nonce) | Passed(nonce=nonce):
                if nonce == event.nonce:
                    self._connected[claim.id] = nonce
                    self._adopt(claim, event)
                else:
                    self._dismiss(event.claim, event.nonce, "this claim has another starter")
            case Stopping(nonce=event.nonce):
                self._connected[claim.id] = event.nonce
                self._apply_hello(claim, event)
                self._to_starter(claim.id, event.nonce, Stop(claim=claim.id))
            case Ended(nonce=event.nonce) | Collecting(nonce=event.nonce) | Gone(nonce=event.nonce):
                self._to_starter(claim.id, event.nonce, ev.EndNoted())
            case Withdrawing() | Stopping() | Ended() | Collecting() | Gone():
                self._dismiss(event.claim, event.nonce, "this claim is withdrawn")

    def _adopt(self, claim: Claim, event: ev.CheckedIn) -> None:
        self._to_starter(claim.id, event.nonce, self._adopted())
        self._apply_hello(claim, event)
        now = self.claims[claim.id]
        paths = self._paths.get(claim.id)
        if paths is not None and isinstance(now.state, Granted):
            self._to_starter(claim.id, event.nonce, paths)
        if now.resize is not None and isinstance(now.state, BOUND):
            self._to_starter(claim.id, event.nonce, now.resize)
        if claim.id in self._paces:
            self._to_starter(claim.id, event.nonce, self._paces[claim.id])
        if now.release is not None and isinstance(now.state, Granted | Armed):
            self._to_starter(claim.id, event.nonce, now.release)

    def _adopted(self) -> ev.Adopted:
        """Make the message that binds a starter, with what its bursts of pings would measure."""
        return ev.Adopted(leases=self._leases, clock=self._clock.best(self._now), boot=self._boot)

    def _apply_hello(self, claim: Claim, event: ev.CheckedIn) -> None:
        """Apply the state that a connecting starter reports, as a sequence of single reports."""
        if event.passed_at is not None:
            self._passed(claim, event.nonce, event.passed_at)
        elif event.armed is not None:
            self._armed(claim, event.nonce, event.armed)
        if event.end is not None:
            self._ended(self.claims[claim.id], event.nonce, event.end)

    def _on_starter(
        self, event: ev.StarterArmed | ev.StarterPassed | ev.StarterEnded | ev.StarterLost
    ) -> None:
        claim = self.claims.get(event.claim)
        if isinstance(event, ev.StarterLost):
            if self._connected.get(event.claim) == event.nonce:
                del self._connected[event.claim]
                self._hung_up(claim)
            return
        if claim is None or getattr(claim.state, "nonce", "") != event.nonce:
            self._dismiss(event.claim, event.nonce, "this claim has another starter or none")
            return
        match event:
            case ev.StarterArmed(nonce=nonce, number=number):
                self._armed(claim, nonce, number)
            case ev.StarterPassed(nonce=nonce, passed_at=passed_at):
                self._passed(claim, nonce, passed_at)
            case ev.StarterEnded(nonce=nonce, end=end):
                self._ended(claim, nonce, end)

    def _hung_up(self, claim: Claim | None) -> None:
        """Let the local manager know of an end that its starter has told; of one by the signals of
        batch systems, or of a lost machine, it knows more."""
        if claim is None or not isinstance(claim.state, Ended):
            return
        if claim.state.end.kind in TOLD_ENDS and not claim_ends.was_killed(claim.state.end):
            self._emit(ev.Left(claim=claim.id, is_gone=len(claim.hosts) <= 1))

    def _armed(self, claim: Claim, nonce: str, number: ArmNumber) -> None:
        match claim.state:
            case Granted():
                self._report(self._store(claim, Armed(nonce=nonce, number=number)))
            case Armed(number=earlier) if earlier <= number:
                self._report(self._store(claim, Armed(nonce=nonce, number=number)))
            case _:
                pass

    def _passed(self, claim: Claim, nonce: str, passed_at: float) -> None:
        match claim.state:
            case Granted() | Armed():
                self._report(self._store(claim, Passed(nonce=nonce, passed_at=passed_at)))
            case Stopping(passed_at=None) as stopping:
                # The Stop came too late to prevent the pass: both are reported.
                state = msgspec.structs.replace(stopping, passed_at=passed_at)
                self._report(self._store(claim, state))
            case _:
                pass

    def _ended(self, claim: Claim, nonce: str, end: ClaimEnd) -> None:
        due_at = self._now + self._limits.linger_s
        match claim.state:
            case Granted() | Armed() | Passed():
                passed_at = passed_at_of(claim.state)
                state = Ended(
                    nonce=nonce,
                    passed_at=passed_at,
                    end=end,
                    due_at=due_at,
                    collects=passed_at is not None and end.kind in STARTER_ENDS,
                )
                self._store(claim, state)
            case Stopping() as stopping:
                end = claim_ends.merge_ends(stopping.end, end)
                passed_at = stopping.passed_at
                state = Ended(
                    nonce=nonce,
                    passed_at=passed_at,
                    end=end,
                    due_at=due_at,
                    collects=passed_at is not None and end.succeeded,
                )
                self._store(claim, state)
            case _:
                pass
        if self._ping_at <= self._now:
            self._ping_at = self._now + self._ping_s  # its starter has just done so
        self._to_starter(claim.id, nonce, ev.EndNoted())

    def _dismiss(self, claim: ClaimId, nonce: str, reason: str) -> None:
        self._to_starter(claim, nonce, ev.Dismissed(reason=reason))

    # Pings and values ------------------------------------------------------------------------

    def _forward_to_starter(self, event: Pong | KvAnswer) -> None:
        match event:
            case KvAnswer():
                self._answer_request(event)
            case Pong(claim=claim_id, nonce=nonce):
                pinged_at = self._pinged.pop((claim_id, nonce, event.sent_at), None)
                if pinged_at is not None:
                    self._clock.sample(sent_at=pinged_at, answered_at=event.now, now=self._now)
                self._to_starter(claim_id, nonce, event)

    def _forward_to_daemon(self, event: ev.StarterSaid) -> None:
        claim = self.claims.get(event.claim)
        if claim is None or not isinstance(claim.state, BOUND) or claim.state.nonce != event.nonce:
            return
        match event.message:
            case KvPut() | KvGet() as asked:
                self._request(claim, event.nonce, asked)
            case message:
                if isinstance(message, Ping):
                    self._note_ping(message)
                self._to_daemon(message)

    def _note_ping(self, ping: Ping) -> None:
        """Note when a ping went on: its answer measures the daemon's clock for all starters. What
        the starter says of its own clock is not used, since programs can speak as their starters.
        """
        self._pinged[ping.claim, ping.nonce, ping.sent_at] = self._now
        while len(self._pinged) > PINGED_MAX:
            del self._pinged[next(iter(self._pinged))]

    def _request(self, claim: Claim, nonce: str, asked: KvPut | KvGet) -> None:
        if self._pending.is_pending(nonce, asked):
            return
        new: dict[str, str] = {}
        if isinstance(asked, KvPut) and asked.name not in claim.values:
            new = {asked.name: asked.value}
        reason = self._pending.refusal(claim.id)
        if not reason and len(claim.values) + len(new) > VALUES_MAX:
            reason = f"this claim has put too many values (expected at most {VALUES_MAX})"
        if reason:
            refusal = KvAnswer(claim=claim.id, request=asked.request, ok=False, error=reason)
            self._to_starter(claim.id, nonce, refusal)
            return
        if new:
            self._store(msgspec.structs.replace(claim, values={**claim.values, **new}))
        self._to_daemon(self._pending.add(nonce, asked))

    def _answer_request(self, answer: KvAnswer) -> None:
        pending = self._pending.pop(answer)
        if pending is None:
            return
        claim = self.claims.get(answer.claim)
        asked = pending.message
        if claim is not None and isinstance(asked, KvPut) and not answer.ok:
            self._drop_value(claim, asked)
        message = replace(answer, request=pending.request)
        self._to_starter(answer.claim, pending.nonce, message)

    def _drop_value(self, claim: Claim, put: KvPut) -> None:
        """Drop a value that the daemon refused; an earlier value of this name is kept."""
        if claim.values.get(put.name) == put.value:
            values = {name: value for name, value in claim.values.items() if name != put.name}
            self._store(msgspec.structs.replace(claim, values=values))

    # The local manager -----------------------------------------------------------------------

    def _on_site(
        self,
        event: ev.SubmitFailed
        | ev.GateFailed
        | ev.BatchUnlisted
        | ev.BatchFound
        | ev.BatchEnded
        | ev.Collected,
    ) -> None:
        claim = self.claims.get(event.claim)
        if claim is None:
            if isinstance(event, ev.BatchFound) and is_claim_id(event.claim):
                self._withdraw_stray(event.claim)
            return
        match event, claim.state:
            case ev.SubmitFailed(), Asked() as state:
                self._submit_failed(claim, state, event)
            case ev.GateFailed(), Asked() as state:
                self._gate_failed(claim, state)
            case ev.BatchFound(), Asked() if claim.hold.waits:
                # The agent may have ended after the store and before the order was given.
                self._set_gate(claim)
            case ev.BatchUnlisted(record=record), _:
                self._unlisted(claim, record)
            case ev.BatchEnded(), _:
                self._batch_ended(claim, event)
            case ev.Collected(reason=reason), Collecting() as state:
                self._collected(claim, state, reason)
            case _:
                pass  # too late

    def _unlisted(self, claim: Claim, record: StarterRecord | None) -> None:
        if isinstance(claim.state, Asked):
            if record is None:
                # The agent ended after the store and before the submission, or its command is on
                # its way yet: if this one is refused, the first may have got through.
                again = msgspec.structs.replace(claim.state, trouble=RESTARTED)
                self._emit(ev.Submit(claim=self._store(claim, again)))
            else:
                # It was submitted, and its starter has reported an end: do not start a second.
                reason = "the starter ended before it checked in"
                why = f"{reason}: {record.end.reason}" if record.end is not None else reason
                self._withdraw(claim, ClaimEnd(kind=EndKind.FAILED, reason=why))
            return
        reason = "the local manager does not know it any more"
        lost = ev.BatchEnded(claim=claim.id, cause=EndCause.LOST, reason=reason, record=record)
        self._batch_ended(claim, lost)

    def _submit_failed(self, claim: Claim, state: Asked, event: ev.SubmitFailed) -> None:
        if not event.is_transient:
            end = ClaimEnd(kind=event.kind, reason=event.reason)
            self._note_refused(claim.hold, event.reason)
            if state.trouble:
                self._withdraw(claim, end)  # an earlier submission may have got through
            else:
                self._finish(claim, end)
            return
        retry_at = max(self._retry_at(claim, state), self._now + event.again_s)
        failed = msgspec.structs.replace(
            state, submit_at=retry_at, trouble=event.reason, failures=state.failures + 1
        )
        self._store(claim, failed)

    def _gate_failed(self, claim: Claim, state: Asked) -> None:
        retry_at = self._retry_at(claim, state)
        failed = msgspec.structs.replace(state, gate_at=retry_at, failures=state.failures + 1)
        self._replace_state(claim, failed)

    def _refuse(self, claim: Claim, reason: str) -> None:
        self._note_refused(claim.hold, reason)
        self._withdraw(claim, ClaimEnd(kind=EndKind.REFUSED, reason=reason))

    def _note_refused(self, hold: Hold, reason: str) -> None:
        """Note the refusal of a ticket for the site's administrator; that of a booking is none, nor
        is one in a reservation."""
        if hold.waits and not hold.begins_at and not hold.program.reservation:
            self._refused = (self._now, reason)

    def _retry_at(self, claim: Claim, state: Asked) -> float:
        """Return when a command that failed once more is tried again."""
        pause_s = min(RETRY_S, self._limits.again_s)
        if claim.hold.waits:
            # The exponent is bounded: 2.0 ** failures of a long absence would overflow.
            pause_s = min(TICKET_RETRY_MAX_S, pause_s * 2.0 ** min(state.failures, 30))
        return self._now + pause_s

    def _withdraw_stray(self, claim_id: ClaimId) -> None:
        """End a batch job of ours that this table lacks, whatever the daemon knows of it."""
        program = Program(executable="")
        hold = Hold(claim=claim_id, processors=0, hold_s=0.0, program=program, port=0)
        end = claim_ends.stopped_end("found in the local manager only")
        state = Withdrawing(end=end, due_at=self._now)
        self._withdraw(Claim(hold=hold, secret="", state=state), end)

    def _batch_ended(self, claim: Claim, event: ev.BatchEnded) -> None:
        match claim.state:
            case Asked():
                self._unbound_ended(claim, claim_ends.unbound_end(event), event.record)
            case Withdrawing(end=end):
                self._unbound_ended(claim, claim_ends.withdrawn_end(end, event), event.record)
            case Granted() | Armed() | Passed() | Stopping():
                self._bound_batch_ended(claim, claim.state.nonce, event)
            case Ended(end=end) if event.cause in CANCELLED and claim_ends.was_killed(end):
                self._finish(claim, replace(end, kind=EndKind.SITE, reason=event.reason))
            case Ended(end=end, passed_at=float()) if (
                event.cause is EndCause.TIME_LIMIT and end.kind is EndKind.SITE
            ):
                cut = claim_ends.time_limit_end(event, claim)
                end = replace(end, kind=cut.kind, reason=cut.reason)
                cut_short = msgspec.structs.replace(claim.state, end=end, collects=True)
                self._batch_ended(self._store(claim, cut_short), event)
            case Ended(end=end, collects=True, nonce=nonce, passed_at=passed_at):
                due_at = self._now + self._limits.collect_max_s
                state = Collecting(nonce=nonce, passed_at=passed_at, end=end, due_at=due_at)
                self._emit(ev.Collect(claim=self._replace_state(claim, state)))
            case Ended(end=end):
                self._finish(claim, end)
            case Collecting() | Gone():
                pass

    def _unbound_ended(self, claim: Claim, end: ClaimEnd, record: StarterRecord | None) -> None:
        """Handle the end of a batch job whose starter never checked in, as while the agent was
        away: its record says how long it had processors."""
        if record is not None and record.end is not None:
            claim = msgspec.structs.replace(claim, began_at=record.began_at)
            end = replace(end, ended_at=record.end.ended_at)
        self._finish(claim, end)

    def _bound_batch_ended(self, claim: Claim, nonce: str, event: ev.BatchEnded) -> None:
        """Handle the end of a bound claim's batch job without an end report: the starter's record
        counts."""
        record = event.record
        if record is not None and record.nonce == nonce:
            if record.passed_at is not None:
                self._passed(claim, nonce, record.passed_at)
            if record.end is not None:
                self._ended(self.claims[claim.id], nonce, record.end)
                self._batch_ended(self.claims[claim.id], event)
                return
        claim = self.claims[claim.id]
        state = claim.state
        end = state.end if isinstance(state, Stopping) else claim_ends.bound_end(event, claim)
        self._end_without_record(claim, nonce, end, event)

    def _end_without_record(
        self, claim: Claim, nonce: str, end: ClaimEnd, event: ev.BatchEnded
    ) -> None:
        """Handle the end of a batch job whose starter left no record.

        A connected starter is still alive, and one on an unreachable machine may be. (Programs may
        outlive the batch system's daemon there, so two attempts of a job could be alive at once.)
        Such a starter is told to stop. The claim is gone

        - when the starter reports its end,
        - when a batch system that can know repeats the end after the connection was lost, or
        - when the starter's lease has expired.
        """
        is_connected = self._connected.get(claim.id) == nonce
        is_silent = event.cause is EndCause.UNREACHABLE
        state = claim.state
        known = state.fence_at if isinstance(state, Stopping) else None
        fence_at = self._now + self._lease_s(claim) if known is None else known
        if self._now >= fence_at or not (is_connected or is_silent):
            self._finish(claim, end)
            return
        stopping = Stopping(
            nonce=nonce,
            passed_at=passed_at_of(state),
            end=end,
            due_at=self._now + self._limits.again_s,
            fence_at=fence_at,
        )
        if known is None:
            self._store(claim, stopping)
        if is_connected:
            self._to_starter(claim.id, nonce, Stop(claim=claim.id))

    def _lease_s(self, claim: Claim) -> float:
        """Return the seconds after which a starter that gets no answer has certainly ended
        itself."""
        may_run = claim.release is not None or passed_at_of(claim.state) is not None
        lease_s = self._leases.run_lease_s if may_run else self._leases.hold_lease_s
        return lease_s * (1 + CLOCK_RATE_ERROR) + self._leases.kill_s + PAUSE_MAX_S

    def _collected(self, claim: Claim, state: Collecting, reason: str) -> None:
        end = state.end
        if reason and end.succeeded:
            end = replace(end, kind=EndKind.OUTPUT, reason=reason)
        self._finish(claim, end)

    # Time ------------------------------------------------------------------------------------

    def _wake_all(self) -> None:
        for claim_id in [name for name, due_at in self._dues.items() if due_at <= self._now]:
            self._wake(self.claims[claim_id])
        if self._now >= self._ping_at:
            self._ping()

    def _wake(self, claim: Claim) -> None:
        due_at = due_at_of(claim.state)
        if due_at is None or self._now < due_at:
            return
        again_at = self._now + self._limits.again_s
        match claim.state:
            case Asked(grace_until=grace_until, trouble=trouble) if self._now >= grace_until:
                reason = f"not started within {self._grace_s(claim.hold):g} s"
                why = f"{reason}: {trouble}" if trouble else reason
                self._withdraw(claim, ClaimEnd(kind=EndKind.REFUSED, reason=why))
            case Asked() as state:
                self._retry(claim, state)
            case Withdrawing() | Stopping() | Ended() as state:
                self._replace_state(claim, msgspec.structs.replace(state, due_at=again_at))
                self._emit(ev.Withdraw(claim=claim.id))
            case Collecting() as state:
                reason = f"not brought back within {self._limits.collect_max_s:g} s"
                self._collected(claim, state, reason)
            case Gone() as state:
                self._replace_state(claim, msgspec.structs.replace(state, due_at=again_at))
                self._report(claim)
            case Granted() | Armed() | Passed():
                pass

    def _retry(self, claim: Claim, state: Asked) -> None:
        """Repeat the commands that failed and are due."""
        if state.gate_at is not None and self._now >= state.gate_at:
            state = msgspec.structs.replace(state, gate_at=None)
            claim = self._replace_state(claim, state)
            self._set_gate(claim)
        if state.submit_at is not None and self._now >= state.submit_at:
            state = msgspec.structs.replace(state, submit_at=None)
            self._emit(ev.Submit(claim=self._store(claim, state)))

    def _replace_state(self, claim: Claim, state: State) -> Claim:
        """Replace a state without a write, by one that a restored table would have, too: it resets
        all timers."""
        claim = msgspec.structs.replace(claim, state=state)
        self._put(claim)
        return claim

    def _restored(self, claim: Claim) -> Claim:
        """Reset the timers of a claim from before a restart of the agent or of its computer."""
        again_at = self._now + self._limits.again_s
        state = claim.state
        match state:
            case Asked():
                grace_until = self._now + self._grace_s(claim.hold)
                state = Asked(grace_until=grace_until, trouble=state.trouble)
            case Stopping(fence_at=float()):
                fence_at = self._now + self._lease_s(claim)
                state = msgspec.structs.replace(state, due_at=again_at, fence_at=fence_at)
            case Withdrawing() | Stopping() | Ended() | Gone():
                state = msgspec.structs.replace(state, due_at=again_at)
            case Collecting(nonce=nonce, passed_at=passed_at, end=end):
                # The collection died with the agent; a repeated end of the batch job restarts it.
                state = Ended(
                    nonce=nonce, passed_at=passed_at, end=end, due_at=again_at, collects=True
                )
            case Granted() | Armed() | Passed():
                pass
        return msgspec.structs.replace(claim, state=state)

    # Small things ----------------------------------------------------------------------------

    def _store(self, claim: Claim, state: State | None = None) -> Claim:
        if state is not None:
            claim = msgspec.structs.replace(claim, state=state)
        self._put(claim)
        self._emit(ev.StoreClaim(claim=claim))
        return claim

    def _put(self, claim: Claim) -> None:
        """Put a claim into the table in place of its former self, without a write."""
        self.claims[claim.id] = claim
        due_at = due_at_of(claim.state)
        if due_at is None:
            self._dues.pop(claim.id, None)
        else:
            self._dues[claim.id] = due_at
        if _is_collected(claim.state):
            self._collected_claims.add(claim.id)
        else:
            self._collected_claims.discard(claim.id)

    def _finish(self, claim: Claim, end: ClaimEnd) -> None:
        passed_at, clock = passed_at_of(claim.state), self._clock.best(self._now)
        if passed_at is not None and end.ended_at is None and clock is not None:
            # No starter told when. The daemon may learn of it much later, and charge until then.
            end = replace(end, ended_at=max(passed_at, self._now + clock[2]))
        state = Gone(
            end=end,
            due_at=self._now + self._limits.again_s,
            nonce=getattr(claim.state, "nonce", ""),
            passed_at=passed_at,
        )
        self._connected.pop(claim.id, None)
        self._paths.pop(claim.id, None)
        self._pending.drop(claim.id)
        self._report(self._store(claim, state))

    def _report(self, claim: Claim) -> None:
        self._to_daemon(report_of(claim))

    def _report_unknown(self, claim: ClaimId) -> None:
        self._to_daemon(_gone(claim, ClaimEnd(kind=EndKind.UNKNOWN)))

    def _to_daemon(self, message: ToDaemon) -> None:
        self._emit(ev.SendToDaemon(message=message))

    def _to_starter(self, claim: ClaimId, nonce: str, message: ev.ToStarter) -> None:
        self._emit(ev.SendToStarter(claim=claim, nonce=nonce, message=message))

    def _emit(self, output: ev.Output) -> None:
        self._out.append(output)


def _is_collected(state: State) -> TypeGuard[Ended | Collecting]:
    """Test for a state in which outputs are being collected or will be."""
    return isinstance(state, Collecting) or (isinstance(state, Ended) and state.collects)


def _gone(claim: ClaimId, end: ClaimEnd) -> Report:
    return Report(claim=claim, state=ReportState.GONE, end=end)
