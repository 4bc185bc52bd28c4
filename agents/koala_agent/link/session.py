"""The agent's end of the link, a pure state machine.

    disconnected -> dialling -> registering -> taking inventory -> live
         ^______________________|______________|__________________|      cut, silent, Goodbye

No I/O, no clock, no global randomness; `handle(event, now)` returns outputs, which the driver
(`session_driver`) carries out in order before it passes the next event. `wake_at` is the one timer.
`link.proto` has the order of a session. Guarantees:

- No message is acted on before the daemon's epoch is known, is not lower than the highest epoch
  ever stored, and is stored itself (`StoreEpoch` comes first among the outputs).
- A session begins with the whole inventory. Nothing is reported before it, because the inventory
  includes it. After it every report is sent at once, so nothing is ever queued without a link.
  Messages of the daemon wait for our inventory, so that answers come after it.
- Claims and transfers are dropped only by a complete set: all that was named between Welcome and
  WantedEnd of one session. A cut in between changes nothing.
- Messages of an earlier connection are ignored: events carry their connection's number.
- The newest watermark of the daemon's journal is kept, and shown at the next registration. So the
  agents that acted on lost rows of a journal detect the loss.

Absent on purpose: what orders mean. To this machine they are values with a claim or a transfer.
Instants are of the agent's own clock, seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from koala.common.protocol import messages
from koala.common.protocol.versions import PROTOCOL
from koala_agent.link import session_events as ev

EARLY_MAX = 100_000
"""Messages that may wait for our inventory, which takes as long as the local manager's answer."""

# States ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Disconnected:
    """Nothing is open; the next try is due at `dial_at`."""

    dial_at: float


@dataclass(frozen=True, slots=True)
class Dialling:
    """A connection is being made."""


@dataclass(frozen=True, slots=True)
class Registering:
    """Register was sent `at` an instant; the Welcome, if it is there, waits for our inventory."""

    at: float


@dataclass(frozen=True, slots=True)
class TakingInventory:
    """Welcome has arrived; the daemon names what it wants. Dicts keep the order."""

    claims: dict[str, None] = field(default_factory=dict)
    transfers: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Live:
    """Both sides know the whole state; differences go both ways."""


@dataclass(frozen=True, slots=True)
class Over:
    """Ended for good."""


State: TypeAlias = Disconnected | Dialling | Registering | TakingInventory | Live | Over
OPEN = (Registering, TakingInventory, Live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations of the link: back-off from `dial_min_s` doubled up to `dial_max_s`, each with up to
    `jitter` of itself more or less; `silence_s` without a message ends a connection."""

    silence_s: float = 15.0
    dial_min_s: float = 0.1
    dial_max_s: float = 1.0
    jitter: float = 0.2
    site_report_s: float = 0.02


class Session:
    """State machine of the link. One for each run of the agent; `epoch` is the highest stored one,
    `mark` the last watermark."""

    def __init__(
        self,
        *,
        epoch: int,
        timing: Timing,
        random: Random,
        now: float,
        mark: messages.Watermark | None = None,
    ) -> None:
        self.state: State = Disconnected(now)
        self.epoch = epoch
        self.mark = mark
        self.connection = 0
        self._timing = timing
        self._random = random
        self._failures = 0
        self._received_at = now
        self._welcome_at = math.inf  # when it arrived
        self._is_inventory_sent = False  # this session has our inventory
        self._early: list[ev.Received] = []  # what came before that
        self._figures: messages.SiteFigures | None = None
        self._figures_sent: messages.SiteFigures | None = None  # in this session
        self._is_due = False
        self._site_at = float("-inf")  # when the last site report went out

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is due."""
        match self.state:
            case Disconnected(dial_at):
                return dial_at
            case Over():
                return None
            case _:
                overdue_at = self._received_at + self._timing.silence_s
                report_at = self._site_report_at
                return overdue_at if report_at is None else min(overdue_at, report_at)

    @property
    def is_live(self) -> bool:
        """True when the daemon has named all that it wants in this session."""
        return isinstance(self.state, Live)

    def handle(self, event: ev.Event, now: float) -> list[ev.Output]:
        """Handle one event and return its outputs in order."""
        if isinstance(self.state, Over):
            return []
        match event:
            case ev.Dialled() | ev.InventoryTaken() | ev.Received() | ev.Cut():
                if event.connection != self.connection:
                    return []  # an earlier connection's
                return self._on_connection(event, now)
            case ev.Reported(report):
                return [ev.Send(report)] if self._is_inventory_sent else []
            case ev.SiteChanged(figures, is_due):
                self._figures = figures
                self._is_due = self._is_due or is_due
                return self._site_report(now)
            case ev.Closed(reason):
                return self._close(reason)
            case ev.Woken():
                return self._wake(now)

    def _on_connection(
        self, event: ev.Dialled | ev.InventoryTaken | ev.Received | ev.Cut, now: float
    ) -> list[ev.Output]:
        match event:
            case ev.Dialled(session=session, idle=idle):
                if not isinstance(self.state, Dialling):
                    return []
                self.state = Registering(at=now)
                self._received_at, self._welcome_at = now, math.inf
                register = messages.Register(
                    protocol=PROTOCOL,
                    session=session,
                    epoch_seen=self.epoch,
                    idle=idle,
                    mark=self.mark,
                )
                return [ev.Send(register), ev.TakeInventory(self.connection)]
            case ev.InventoryTaken(reports=reports):
                if not isinstance(self.state, OPEN) or self._is_inventory_sent:
                    return []
                self._is_inventory_sent = True
                self._is_due = True  # Register had no `through`
                sends: list[ev.Output] = [ev.Send(report) for report in reports]
                sends += [ev.Send(messages.InventoryEnd()), *self._site_report(now)]
                return sends + self._process_early(now)
            case ev.Received():
                if not isinstance(self.state, OPEN):
                    return []
                self._received_at = now
                return self._receive(event, now)
            case ev.Cut():
                if isinstance(self.state, Disconnected):
                    return []
                self._disconnect(now)
                return []

    def _process_early(self, now: float) -> list[ev.Output]:
        """Process the messages that arrived before our inventory."""
        early, self._early = self._early, []
        outputs: list[ev.Output] = []
        for received in early:
            # One of them may end the session, and the others with it.
            outputs += self.handle(received, now)
        return outputs

    def _receive(self, received: ev.Received, now: float) -> list[ev.Output]:
        message = received.message
        if isinstance(message, messages.Welcome) and isinstance(self.state, Registering):
            self._welcome_at = min(now, self._welcome_at)
        if isinstance(message, messages.Beat):
            return [*self._keep_watermark(received.mark), ev.Send(message)]
        if not self._is_inventory_sent and not isinstance(
            message, messages.Reject | messages.Goodbye
        ):
            self._early.append(received)
            if len(self._early) > EARLY_MAX:
                return self._hang_up(f"over {EARLY_MAX} messages before our inventory", now)
            return []
        outputs = self._handle_message(message, now)
        kept = self._keep_watermark(received.mark)
        # The effects of a message are stored together with its watermark, but no watermark is
        # stored before its daemon's epoch.
        return [*outputs, *kept] if isinstance(message, messages.Welcome) else [*kept, *outputs]

    def _keep_watermark(self, mark: messages.Watermark | None) -> list[ev.Output]:
        """Keep a new watermark, only of a daemon that is obeyed."""
        if mark is None or mark == self.mark or not isinstance(self.state, TakingInventory | Live):
            return []
        self.mark = mark
        return [ev.KeepWatermark(mark)]

    def _handle_message(self, message: ev.FromDaemon, now: float) -> list[ev.Output]:
        match message:
            case messages.Beat():
                return [ev.Send(message)]
            case messages.Welcome():
                return self._accept_welcome(message, now)
            case messages.Reject(reason=reason, is_final=is_final):
                if is_final:
                    self.state = Over()
                    return [
                        ev.HangUp(self.connection, reason),
                        ev.Finish(reason=reason, is_refused=True),
                    ]
                return self._hang_up(f"refused: {reason}", now)
            case messages.Goodbye(reason=reason):
                return self._hang_up(f"the daemon said goodbye: {reason}", now)
            case messages.WantedEnd():
                return self._end_wanted(now)
            case ev.Order():
                return self._handle_order(message, now)

    def _accept_welcome(self, welcome: messages.Welcome, now: float) -> list[ev.Output]:
        if not isinstance(registering := self.state, Registering):
            return self._hang_up("a second Welcome in one session", now)
        if welcome.protocol != PROTOCOL:
            why = (
                f"the daemon speaks protocol {welcome.protocol}, this agent {PROTOCOL}: install the"
                " same version of Koala at both"
            )
            return self._hang_up(why, now)
        if welcome.epoch < self.epoch:
            why = f"the daemon has epoch {welcome.epoch}, a later one of {self.epoch} was here"
            return [
                ev.Send(messages.Goodbye(reason=why)),
                *self._hang_up(why, now, is_orderly=True),
            ]
        age_s = (now - self._welcome_at, now - registering.at)
        begin = ev.BeginSession(welcome, age_s)
        self.state = TakingInventory()
        if welcome.epoch == self.epoch:
            return [begin]
        self.epoch = welcome.epoch
        return [ev.StoreEpoch(welcome.epoch), begin]

    def _handle_order(self, order: ev.Order, now: float) -> list[ev.Output]:
        match self.state:
            case TakingInventory(claims, transfers):
                if order.claim is not None:
                    claims[order.claim] = None
                if order.transfer is not None:
                    transfers[order.transfer] = None
                return [ev.Apply(order)]
            case Live():
                return [ev.Apply(order)]
            case _:
                return self._hang_up("an order before Welcome", now)

    def _end_wanted(self, now: float) -> list[ev.Output]:
        if not isinstance(self.state, TakingInventory):
            return self._hang_up("WantedEnd at a wrong place", now)
        named = ev.StopOthers(
            claims=frozenset(self.state.claims), transfers=frozenset(self.state.transfers)
        )
        self.state = Live()
        self._failures = 0
        return [named]

    # Connections --------------------------------------------------------------------------------

    def _wake(self, now: float) -> list[ev.Output]:
        match self.state:
            case Disconnected(dial_at):
                if now < dial_at:
                    return []
                self.state = Dialling()
                self.connection += 1
                self._received_at = now
                return [ev.Dial(self.connection)]
            case _:
                if now >= self._received_at + self._timing.silence_s:
                    return self._hang_up(f"silent for {self._timing.silence_s:g} s", now)
                return self._site_report(now)

    def _close(self, reason: str) -> list[ev.Output]:
        was_open = isinstance(self.state, OPEN)
        is_idle = isinstance(self.state, Disconnected)
        self.state = Over()
        finish = ev.Finish(reason=reason, is_refused=False)
        if was_open:
            last = ev.Send(messages.Goodbye(reason=reason))
            return [last, ev.HangUp(self.connection, reason, is_orderly=True), finish]
        return [finish] if is_idle else [ev.HangUp(self.connection, reason), finish]

    def _hang_up(self, reason: str, now: float, *, is_orderly: bool = False) -> list[ev.Output]:
        connection = self.connection
        self._disconnect(now)
        return [ev.HangUp(connection, reason, is_orderly=is_orderly)]

    def _disconnect(self, now: float) -> None:
        timing = self._timing
        # The exponent is bounded: 2.0 ** failures of a long absence would overflow.
        backoff_s = min(timing.dial_max_s, timing.dial_min_s * 2.0 ** min(self._failures, 30))
        spread = 1 + timing.jitter * (2 * self._random.random() - 1)
        self._failures += 1
        self.state = Disconnected(now + backoff_s * spread)
        self._is_inventory_sent = False
        self._early = []
        self._figures_sent = None

    # Site reports -------------------------------------------------------------------------------

    @property
    def _site_report_at(self) -> float | None:
        """Instant at which a site report is due; None when there is nothing new."""
        if not self._is_inventory_sent or self._figures is None:
            return None
        if self._figures == self._figures_sent and not self._is_due:
            return None
        return self._site_at + self._timing.site_report_s

    def _site_report(self, now: float) -> list[ev.Output]:
        due_at = self._site_report_at
        if due_at is None or now < due_at:
            return []
        assert self._figures is not None
        self._site_at = now
        self._figures_sent = self._figures
        self._is_due = False
        return [ev.Send(self._figures)]
