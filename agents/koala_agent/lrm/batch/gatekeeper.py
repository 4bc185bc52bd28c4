"""Gates the waiting claims of a batch manager, and opens them again.

What is wanted is in the claim's row before the batch system hears of it, with the gate that is
used: after a crash at any instant the row tells how to open the job. One command is for all claims
that want the same at the time. A gate that the batch system refuses, or under which the site
cancels jobs, is not used again until its configuration makes other gates; the next one that keeps a
job's place is used instead.

Each poll compares: a job that is not as it is wanted (somebody else has changed it, a command got
lost) gets the command once more, ever less often. A claim that was never gated is left alone, so
that a hold of its user or administrator stays.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection

from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.batch.guarded_dialect import guarded
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.dialect import Gate, JobState, Order
from koala_agent.lrm.gate_probe_result import (
    GateTrial,
    describe_trial,
    is_wanted,
    names_of,
    read_trial,
    usable_gates,
)
from koala_agent.lrm.local_manager import EndCause, RequestRefusedError

SUBMITTED = "submission"
"""Gate of a row whose job was submitted for a gated claim, and which no command has changed yet."""
GATES_S = 600.0
"""How often is asked which gates there are: configurations change, and nodes are added."""
UNKNOWN_S = 30.0
"""The same after an answer that could not be had."""
AGAIN_S, AGAIN_MAX_S = 10.0, 600.0
"""Time after a command before a job that is not as wanted gets it again, doubled each time."""
STUBBORN = 3
"""Commands without an effect after which the site's administrator is told."""
PURGED = 2
"""Jobs that a site cancels while they are gated, before that gate is given up."""
AT_ONCE = 100
"""Jobs of one command."""

log = get_logger()


class Gatekeeper(ManagerPart):
    """Sends the orders of gates."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._trial: GateTrial | None = None
        self._refusal = ""  # of the last order
        self._stubborn = ""  # jobs that are not as they are wanted, in spite of all orders
        self._gates: tuple[Gate, ...] = ()
        self._refused: dict[str, str] = {}  # gates that are not used any more, and why
        self._cancelled: dict[str, str] = {}  # gates under which the site cancelled claims
        self._ask_at = -math.inf
        self._lock = asyncio.Lock()
        self._learning = asyncio.Lock()

    @property
    def name(self) -> str:
        """Name of the gate in force; empty for none, and as long as it is unknown."""
        return next((gate.name for gate in self._usable()), "")

    @property
    def tried(self) -> str:
        """Result of the last probe, for people; empty where there are no gates."""
        if not self._gates:
            return ""
        return describe_trial(self._trial, self._gates, is_automatic=self._settings.is_gate_probed)

    @property
    def to_try(self) -> tuple[Gate, ...]:
        """All gates, where the agent is to probe them now; else none."""
        is_due = self._settings.is_gate_probed and is_wanted(self._trial, self._gates)
        return self._gates if is_due else ()

    def note_probe(self) -> None:
        """Read the result of the last probe."""
        self._trial = read_trial(self._settings.state_directory)

    @property
    def trouble(self) -> str:
        """Words for the administrator: why claims are not gated or opened; empty for none."""
        given_up = [
            f"waiting claims are not gated by {gate}: {reason}"
            for gate, reason in self._refused.items()
        ]
        return "; ".join(filter(None, [self._refusal or self._stubborn, *given_up]))

    async def learn(self) -> None:
        """Ask which gates there are, when it is time. Raises LocalManagerError."""
        async with self._learning:  # also for those who need what is being learned
            if self._clock() < self._ask_at:
                return
            self._ask_at = self._clock() + UNKNOWN_S
            commands = self._dialect.gates()
            answers = tuple([await self._breaker.ask(command, "") for command in commands])
            known = names_of(self._gates)
            self._gates = tuple(guarded(gate) for gate in self._dialect.read_gates(answers))
            if names_of(self._gates) != known:
                self._refused.clear()
                self._cancelled = dict.fromkeys(self._cancelled, "")
            self.note_probe()
            self._ask_at = self._clock() + GATES_S

    async def check(self) -> None:
        """Check that there is a gate for a claim that is to be submitted. Raises
        LocalManagerError."""
        if not self._gates:
            self._ask_at = -math.inf
            await self.learn()
        if not self.name:
            raise RequestRefusedError("the batch system has no gate that keeps a job's place")

    async def set(self, tracked: TrackedClaim, *, is_gated: bool) -> None:
        """Gate or open a claim that has not started. Raises LocalManagerError; the next poll tries
        it again."""
        row = tracked.row
        if not _may_change(tracked):
            return
        if row.is_gated != is_gated:
            self._claims.change(tracked, is_gated=is_gated)
            tracked.gate_tries = 0
        elif tracked.gate_error is None:
            return  # as it is, or the polls see to it
        if row.number:
            tracked.is_gate_due = True
            await self._carry_out(tracked)

    async def settle(self, tracked: TrackedClaim) -> None:
        """Bring a job that was just submitted to what is wanted by now; what fails is left to the
        next poll."""
        if tracked.row.gate or tracked.row.is_gated:
            tracked.is_gate_due = True
            try:
                await self._carry_out(tracked)
            except LocalManagerError as error:
                log.warning("gate.not_settled", claim=tracked.row.claim, reason=str(error))

    async def poll(self) -> None:
        """Ask for the gates when it is time (without an answer they stay as they are), and order
        once more what the last listing has otherwise than it is wanted."""
        try:
            await self.learn()
        except LocalManagerError as error:
            log.warning("gate.unknown", reason=str(error))
        self._note_cancelled()
        now = self._clock()
        wrong = [one for one in self._claims.open() if _is_wrong(one, now, set(self._refused))]
        for tracked in wrong:
            tracked.is_gate_due = True
        waiting = [one for one in self._claims.open() if one.is_waiting()]
        stubborn = [one.row.number for one in waiting if one.gate_tries >= STUBBORN]
        self._stubborn = ""
        if stubborn:
            jobs = ", ".join(stubborn[:STUBBORN])
            self._stubborn = f"gates of waiting claims have no effect: jobs {jobs}"
        async with self._lock:
            await self._send_due()

    def _note_cancelled(self) -> None:
        """Give up a gate under which the site cancels jobs, as one that purges what cannot run.
        Those in a reservation may end with that."""
        for tracked in self._claims.all():
            row = tracked.row
            is_cancelled = row.end is not None and row.end[0] is EndCause.CANCELLED_BY_SITE
            if is_cancelled and row.is_gated and tracked.is_listed and not row.reservation:
                self._cancelled.setdefault(row.claim, row.gate)
        under = list(self._cancelled.values())
        for gate in self._usable():
            if under.count(gate.name) >= PURGED:
                self._refused[gate.name] = "the site cancels jobs that are gated so"
                log.warning("gate.given_up", gate=gate.name, reason=self._refused[gate.name])

    async def _carry_out(self, tracked: TrackedClaim) -> None:
        async with self._lock:
            if tracked.is_gate_due:  # else sent with another claim's
                await self._send_due()
        if tracked.gate_error is not None:
            raise tracked.gate_error

    async def _send_due(self) -> None:
        due: dict[tuple[str, bool, str, str], list[TrackedClaim]] = {}
        for tracked in self._claims.open():
            tracked.is_gate_due = tracked.is_gate_due and _may_change(tracked)
            if tracked.is_gate_due:
                row = tracked.row
                key = (row.account, row.is_gated, row.gate, row.native)
                due.setdefault(key, []).append(tracked)
        for claims in due.values():
            for start in range(0, len(claims), AT_ONCE):
                await self._send(claims[start : start + AT_ONCE])

    async def _send(self, claims: list[TrackedClaim]) -> None:
        """Send what these claims of one account want, which have the same gate; note the result."""
        error: LocalManagerError | None = None
        try:
            if self._clock() >= self._ask_at or not self._gates:
                await self.learn()
            await (self._shut(claims) if claims[0].row.is_gated else self._open(claims))
            self._refusal = ""
        except RequestRefusedError as refusal:
            if len(claims) > 1:  # of which of them does it speak?
                for tracked in claims:
                    await self._send([tracked])
                return
            verb = "gated" if claims[0].row.is_gated else "opened"
            self._refusal = f"waiting claims cannot be {verb}: {refusal}"
            error = refusal
        except LocalManagerError as failure:
            error = failure
        if error is not None:
            log.warning("gate.failed", claims=len(claims), reason=str(error))
        for tracked in claims:
            tracked.is_gate_due = False
            tracked.gate_error = error
            tracked.gate_tries += 1
            tracked.gate_again_at = self._clock() + min(
                AGAIN_MAX_S, AGAIN_S * 2 ** min(10, tracked.gate_tries - 1)
            )

    async def _shut(self, claims: list[TrackedClaim]) -> None:
        is_fresh = claims[0].row.gate == SUBMITTED
        is_given_up = claims[0].row.gate in self._refused
        refusal = RequestRefusedError("the batch system has no gate that keeps a job's place")
        for gate in self._usable():
            try:
                if is_given_up:
                    await self._open(claims)  # else it would stay shut beside the other
                await self._order(gate, _shutting(gate, is_fresh=is_fresh), claims)
            except RequestRefusedError as error:
                if len(claims) > 1:
                    raise
                log.warning("gate.refused", gate=gate.name, reason=str(error))
                self._refused[gate.name] = str(error)
                if is_fresh:
                    self._claims.change(claims[0], gate=SUBMITTED)
                refusal = error
            else:
                for tracked in claims:
                    tracked.gate_renew_at = self._clock() + gate.renew_s
                return
        raise refusal

    async def _open(self, claims: list[TrackedClaim]) -> None:
        name = claims[0].row.gate
        native = [gate for gate in self._gates if gate.is_native]
        named = [gate for gate in self._gates if gate.name == name]
        for gate in (*named, *native, *self._gates):
            own, open_native = claims[0].row.native, gate.open_native
            order = open_native(own) if own and open_native is not None else gate.open
            await self._order(gate, order, claims)
            return

    async def _order(self, gate: Gate, order: Order | None, claims: list[TrackedClaim]) -> None:
        """Send an order of a gate, whose name is in the rows before."""
        for tracked in claims:
            if tracked.row.gate != gate.name:
                self._claims.change(tracked, gate=gate.name)
        if order is not None:
            command = order([tracked.row.number for tracked in claims])
            gate.read(await self._breaker.act(command, claims[0].row.account))

    def _usable(self) -> list[Gate]:
        gates = usable_gates(self._trial, self._gates)
        return [gate for gate in gates if gate.name not in self._refused]


def _shutting(gate: Gate, *, is_fresh: bool) -> Order | None:
    """Return the order that shuts a gate; None where the submission did it."""
    if not is_fresh:
        return gate.shut
    return None if gate.is_native else gate.settle or gate.shut


def _may_change(tracked: TrackedClaim) -> bool:
    """Test for a wanted claim that has not started, as far as is known."""
    row = tracked.row
    has_started = tracked.is_listed and tracked.state is not JobState.QUEUED
    return row.end is None and not row.is_unwanted and not has_started


def _is_wrong(tracked: TrackedClaim, now: float, given_up: Collection[str]) -> bool:
    """Test for a listed job that is not as it is wanted, or must be gated again by now."""
    row = tracked.row
    if tracked.is_submitting or not tracked.is_waiting() or not (row.gate or row.is_gated):
        return False
    is_old = row.is_gated and (
        row.gate == SUBMITTED or row.gate in given_up or now >= tracked.gate_renew_at
    )
    if tracked.is_gated == row.is_gated and not is_old:
        tracked.gate_tries = 0
        return False
    return now >= tracked.gate_again_at
