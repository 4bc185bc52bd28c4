"""Pure state machine of a starter's helper on another node of its component.

It takes part in the starter's promises. Its processes go only at the starter's order, and only if
neither D nor the lease has run out at a last check of the clock here. Both are instants of the
starter's clock. The helper always knows an upper bound of that clock's lead (a pong was read after
its ping was sent), so that it errs on the side that does not start, and that ends.

It begins once and is never adopted again: without the connection to the starter it ends what it
runs. It reports the ends of its processes, those that are left, and a signal of the site, which may
go to this node alone; other signals come over the connection.
"""

from __future__ import annotations

import math

from koala_agent.starter import events as ev
from koala_agent.starter.compat import dataclass, to_count, to_list, to_number, to_object, to_whole
from koala_agent.starter.light import signal
from koala_agent.starter.state_machine.clock_offset import CLOCK_RATE_ERROR, ClockOffset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from koala_agent.starter.events import Action, Event

DIAL_AGAIN_S = 0.1
DIAL_LIMIT_S = 3.0
DIAL_S = 60.0
"""Time limit of the connection to the starter."""
PING_S = 5.0
BURST = 5
POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Dialling:
    """Connecting to the starter; no process exists yet."""

    until: float


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Blocked or running, by the starter's orders."""


@dataclass(frozen=True, kw_only=True)
class HelperEnding:
    """All that was started is being ended; by KILL at `kill_at`."""

    kill_at: float


@dataclass(frozen=True, kw_only=True)
class HelperExited:
    """The helper has exited; terminal."""


if TYPE_CHECKING:
    Phase: TypeAlias = "Dialling | Serving | HelperEnding | HelperExited"


class NodeMachine:
    """State machine of one helper."""

    def __init__(self, *, secret: str, machine: int, now: float) -> None:
        self.phase: Phase = Dialling(until=now + DIAL_S)
        self._secret = secret
        self._machine = machine
        self._now = now
        self._actions: list[Action] = []
        self._clock = ClockOffset(0.0)
        self._dial_at = now
        self._ping_at = math.inf
        self._burst = 0
        self._is_connected = False
        self._end_at = math.inf
        self._kill_s = 0.0
        self._running: set[int] = set()
        self._has_opened = False
        self._poll_at: float | None = None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle one event; return the actions to carry out, in order."""
        self._now = now
        self._actions = []
        if isinstance(self.phase, HelperExited):
            return []
        if isinstance(event, (ev.Connected, ev.Disconnected, ev.Received)):
            self._on_connection(event)
        else:
            self._on_process(event)
        self._tick()
        return self._actions

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is due."""
        if isinstance(self.phase, HelperExited):
            return None
        if isinstance(self.phase, Dialling):
            return min(self._dial_at, self.phase.until)
        dues = [self._ping_at, self._end_at]
        if self._poll_at is not None:
            dues.append(self._poll_at)
        return min(dues)

    # The connection ------------------------------------------------------------------------------

    def _on_connection(self, event: ev.Connected | ev.Disconnected | ev.Received) -> None:
        if isinstance(event, ev.Received):
            self._receive(event.message)
        elif isinstance(event, ev.Connected):
            self._is_connected = True
            self._ping_at = self._now + PING_S
            self._send("hello", secret=self._secret, machine=self._machine)
        else:
            self._is_connected = False
            if isinstance(self.phase, Dialling):
                self._dial_at = self._now + DIAL_AGAIN_S
            else:
                self._begin_end()
                self._poll_at = self._now

    def _receive(self, message: dict[str, object]) -> None:  # noqa: C901 - a line a kind
        kind = message.get("kind")
        if kind == "begin":
            if isinstance(self.phase, Dialling):
                self._begin(message)
        elif kind == "pong":
            self._pong(message)
        elif kind == "fork":
            self._emit(ev.Fork())
        elif kind == "prepare":
            self._emit(ev.Prepare(bundle=to_object(message.get("bundle"))))
        elif kind == "resize":
            self._emit(_resize_of(message))
        elif kind == "go":
            self._go(to_number(message, "not_after"))
        elif kind == "signal":
            self._signal(to_whole(message, "number"))
        elif kind == "answer":
            answer = to_object(message.get("answer"))
            self._emit(ev.Answer(question=to_whole(message, "question"), answer=answer))
        elif kind == "deliver":
            self._emit(ev.Deliver(is_whole=bool(message.get("is_whole"))))
        elif kind == "bye":
            self._exit()

    def _begin(self, message: dict[str, object]) -> None:
        """Begin to serve; the starter's clock and lease are unknown until the first pong."""
        self._end_at = self._now + DIAL_S
        self._kill_s = to_number(message, "kill_s")
        self._running = {to_count(index) for index in to_list(message.get("mains"))}
        self.phase = Serving()
        self._burst = BURST
        self._ping()
        self._emit(ev.Begin(order=message))
        self._emit(ev.Fork())

    def _pong(self, message: dict[str, object]) -> None:
        sent_at, answered_at = to_number(message, "sent_at"), to_number(message, "now")
        if sent_at > self._now:
            return
        self._clock.sample(sent_at=sent_at, answered_at=answered_at, now=self._now)
        self._end_at = math.inf
        if message.get("lease_until") is not None:
            self._end_at = self._own(to_number(message, "lease_until"))
        if self._burst > 0:
            self._burst -= 1
            self._ping()

    def _go(self, not_after: float) -> None:
        if not isinstance(self.phase, Serving) or self._has_opened:
            return
        self._has_opened = True
        self._emit(ev.Open(not_after=self._own(not_after)))

    def _signal(self, number: int) -> None:
        if number != signal.SIGKILL and isinstance(self.phase, Serving):
            self._begin_end()
        else:
            self._emit(ev.Signal(number=number))
            self._poll_at = self._now

    # Processes -----------------------------------------------------------------------------------

    def _on_process(self, event: Event) -> None:  # noqa: C901 - a line a kind
        if isinstance(event, ev.Ready):
            self._send("ready")
        elif isinstance(event, ev.ProcessEnded):
            self._process_ended(event)
        elif isinstance(event, ev.RankEnded):
            self._send("rank", rank=event.rank, status=event.status)
        elif isinstance(event, ev.Unexecutable):
            self._send("trouble", text=event.reason)
        elif isinstance(event, ev.Opened):
            self._send("opened", at=event.at + self._clock.offset_s(self._now))
        elif isinstance(event, ev.TooLate):
            self._send("late")
            self._begin_end()
        elif isinstance(event, ev.SiteSignalled):
            self._send("site", reason=event.reason)
            self._begin_end()
        elif isinstance(event, ev.ProcessesCounted):
            self._processes_counted(event)
        elif isinstance(event, ev.ValueRequested):
            self._ask(event)
        elif isinstance(event, ev.PortsMoved):
            self._send("ports", ports=[list(row) for row in event.ports])
        elif isinstance(event, ev.Delivered):
            self._send("delivered", problem=event.problem, is_lost=event.is_lost)

    def _process_ended(self, event: ev.ProcessEnded) -> None:
        self._send("ended", index=event.index, status=event.status)
        if self._has_opened or isinstance(self.phase, HelperEnding):
            self._running.discard(event.index)
            if not self._running or isinstance(self.phase, HelperEnding):
                self._poll_at = self._now

    def _processes_counted(self, event: ev.ProcessesCounted) -> None:
        """Report the processes left, each time: the starter decides their fate."""
        self._send("left", left=event.left, cpu_s=event.cpu_s, memory_bytes=event.memory_bytes)
        if event.left > 0:
            self._poll_at = self._now + POLL_S
        elif not self._is_connected:
            self._exit()

    def _ask(self, event: ev.ValueRequested) -> None:
        fields: dict[str, object] = {"question": event.question, "name": event.name}
        self._send("ask", **fields, value=event.value, wait_s=event.wait_s)

    # Ends and time -------------------------------------------------------------------------------

    def _begin_end(self) -> None:
        if isinstance(self.phase, Dialling):
            self._exit()
        elif isinstance(self.phase, Serving):
            self._emit(ev.Signal(number=signal.SIGTERM))
            self.phase = HelperEnding(kill_at=self._now + self._kill_s)
            self._poll_at = self._now

    def _tick(self) -> None:
        phase = self.phase
        if isinstance(phase, HelperExited):
            return
        if isinstance(phase, Dialling):
            self._tick_dialling(phase)
            return
        if self._is_connected and self._now >= self._ping_at:
            self._ping()
        elif not self._is_connected:
            self._ping_at = math.inf
        if self._now >= self._end_at:
            self._end_at = math.inf  # it has served its purpose
            self._begin_end()
        if self._poll_at is not None and self._now >= self._poll_at:
            self._poll_at = None
            if isinstance(self.phase, HelperEnding) and self._now >= self.phase.kill_at:
                self._emit(ev.Signal(number=signal.SIGKILL))
            self._emit(ev.CountProcesses())

    def _tick_dialling(self, phase: Dialling) -> None:
        if self._now >= phase.until:
            self._exit()
        elif not self._is_connected and self._now >= self._dial_at:
            self._dial_at = self._now + DIAL_LIMIT_S
            self._emit(ev.Dial())

    def _own(self, starters: float) -> float:
        """Convert an instant of the starter's clock to ours, erring early.

        It assumes the largest possible lead and rate. Before the first sample all instants are
        over.
        """
        left_s = starters - (self._now + self._clock.latest_s(self._now))
        return self._now + left_s * (1 - CLOCK_RATE_ERROR)

    def _ping(self) -> None:
        self._ping_at = self._now + PING_S
        self._send("ping", sent_at=self._now)

    def _exit(self) -> None:
        self.phase = HelperExited()
        self._emit(ev.Exit())

    def _send(self, kind: str, **fields: object) -> None:
        if self._is_connected:
            self._emit(ev.Send(message={"kind": kind, **fields}))

    def _emit(self, action: Action) -> None:
        self._actions.append(action)


def _resize_of(message: dict[str, object]) -> ev.Resize:
    """Read a resize. Raises ValueError."""
    return ev.Resize(
        number=to_whole(message, "number"),
        bundle=to_object(message.get("bundle")),
        leave_s=None if message.get("leave_s") is None else to_number(message, "leave_s"),
    )
