"""Simulated node with the real starter on it: its machine, with a simulated driver (the connection
to the agent, the blocked program, the small files in its folder, the clock).

The program is a duration and an exit status. The node's files outlive starter and agent, and are
read by the agent's own code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from koala.core.model.values import ClaimId, Instant, Seconds, SiteName
from koala.lab.sim.engine import Engine, Entry
from koala_agent.claims.folder import StarterRecord
from koala_agent.starter.compat import read_fields
from koala_agent.starter.driver import settings_of
from koala_agent.starter.events import (
    ClosePaths,
    Connected,
    CountProcesses,
    Dial,
    Disconnected,
    Exit,
    Fork,
    MeasureProgress,
    Open,
    Opened,
    PathsProbed,
    PauseProgram,
    PortsMoved,
    Prepare,
    ProbePaths,
    ProcessEnded,
    ProcessesCounted,
    ProgressMeasured,
    Ready,
    Received,
    Resize,
    ResumeProgram,
    Send,
    Signal,
    SiteSignalled,
    TooLate,
    Unexecutable,
    Woken,
    WriteEnd,
)
from koala_agent.starter.mailbox.client import Mailbox, MailboxClient
from koala_agent.starter.mailbox.layout import POLL_S
from koala_agent.starter.messages import PathsOrder
from koala_agent.starter.program import Specification
from koala_agent.starter.state_machine.starter import StarterMachine
from koala_agent.starter_link import codec as starter_codec
from tests.swarm.system.faults import FaultPlan
from tests.swarm.system.machines import Machine, Process, Timer
from tests.swarm.system.mailboxes import NodesMailbox, SharedFolder
from tests.swarm.system.network import End

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

KILL = 9
TERM = 15


@dataclass(slots=True)
class Folder:
    """Files of a claim's starter: JSON texts."""

    passed: str = ""
    end: str = ""

    def record(self) -> StarterRecord | None:
        """Return the record as the agent reads it."""
        passed, ended = (_read(text) for text in (self.passed, self.end))
        return starter_codec.record_of(passed, ended)


def _read(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class Witness(Protocol):
    """Observer of the starters' true events, at their instants."""

    def began(self, site: SiteName, starter: Starter) -> None:
        """Receive the start of a starter."""

    def armed(self, site: SiteName, starter: Starter) -> None:
        """Receive a starter's promise."""

    def froze(self, site: SiteName, starter: Starter, late_at: Instant) -> None:
        """Receive the stop of a starter that has armed and may pass until `late_at`."""

    def passed(self, site: SiteName, starter: Starter) -> None:
        """Receive a pass of the barrier: the program runs."""

    def asked_to_leave(self, starter: Starter) -> None:
        """Receive that a program was asked to end."""

    def stopped(self, starter: Starter) -> None:
        """Receive the death of a program; the starter may still report its end."""

    def ended(self, site: SiteName, starter: Starter) -> None:
        """Receive the end of a starter and all its processes."""


@dataclass(slots=True, kw_only=True)
class Node:
    """Node of a starter. `dial` returns the end of a new connection, None without an answer;
    `exited` is called when its last process has ended by itself. With a `shared` folder it dials
    nobody."""

    site: SiteName
    machine: Machine
    folder: Folder
    pause_max_s: Seconds
    program: tuple[Seconds, int]
    dial: Callable[[Starter], End[bytes] | None]
    exited: Callable[[], None]
    witness: Witness
    shared: SharedFolder | None = None
    said: list[bytes] = field(default_factory=list)


class Watch:
    """Independent check of one starter: the permissions it received, and their ends, in its
    machine's time. It does not know how the starter decides."""

    def __init__(self, spec: dict[str, Any], now: Instant) -> None:
        self._lease_from = now
        self._hold_until = now + float(spec["hold_s"])
        self._hold_lease_s = float(spec["hold_lease_s"])
        self._run_lease_s = float(spec["run_lease_s"])
        self._kill_s = float(spec["kill_s"])
        self._late_at: dict[tuple[int, int], Instant] = {}  # D of each Arm
        self._promised: list[tuple[int, int]] = []

    def heard(self, message: dict[str, Any], now: Instant) -> None:
        """Receive a message of the agent."""
        kind = message["kind"]
        if kind == "pong" and message["sent_at"] <= now:
            self._lease_from = max(self._lease_from, message["sent_at"])
        elif kind == "adopted":
            self._hold_lease_s = max(self._hold_lease_s, message["hold_lease_s"])
            self._run_lease_s = max(self._run_lease_s, message["run_lease_s"])
            self._kill_s = max(self._kill_s, message["kill_s"])
        elif kind == "arm":
            epoch, counter = message["number"]
            self._late_at[(epoch, counter)] = now + message["late_s"]

    def require_may_pass(self, starter: Starter, at: Instant) -> None:
        """Require that neither D nor the lease has run out."""
        lease_until = self._lease_from + self._hold_lease_s
        assert at <= lease_until, f"promise 3: {starter.nonce} passes after its lease"
        if not starter.is_free:
            assert starter.armed is not None, f"promise 3: {starter.nonce} passes and never armed"
            late_at = self._late_at[starter.armed]
            assert at <= late_at, f"promise 3: {starter.nonce} passes {at - late_at:g} s after D"

    def late_at(self, number: tuple[int, int]) -> Instant:
        """Return D of an Arm."""
        return self._late_at[number]

    def promised(self, number: tuple[int, int]) -> None:
        """Record that it has armed."""
        self._promised.append(number)

    def require_may_hold(self, starter: Starter, at: Instant, pause_max_s: Seconds) -> None:
        """Require that waiting at the barrier ends with the hold and the hold lease, or at D after
        a promise; plus TERM, KILL, and the longest stop."""
        until = min(self._lease_from + self._hold_lease_s, self._hold_until)
        until = max(until, *(self._late_at[number] for number in self._promised), until)
        over_s = at - until - self._kill_s - pause_max_s - 0.3
        assert over_s <= 0, f"promise 5: {starter.nonce} holds {over_s:g} s too long"

    def require_may_run(self, starter: Starter, at: Instant, pause_max_s: Seconds) -> None:
        """Require that its program ends with the lease; plus TERM, KILL, and the longest stop."""
        slack_s = self._kill_s + pause_max_s + 0.3
        over_s = at - self._lease_from - self._run_lease_s - slack_s
        assert over_s <= 0, f"promise 5: {starter.nonce} runs {over_s:g} s after its lease"


class Starter(Process):
    """One placeholder that the local manager started."""

    crash_kind = "crash_starter"

    def __init__(
        self,
        engine: Engine,
        plan: FaultPlan,
        node: Node,
        *,
        spec: dict[str, Any],
        nonce: str,
        processors: int,
    ) -> None:
        super().__init__(engine, plan, node.machine)
        self.claim = ClaimId(str(spec["claim"]))
        self.nonce = nonce
        self.processors = processors
        self.is_free = bool(spec["no_barrier"])
        self.asked_paths = False
        self.tried: str | None = None
        self.tried_ports: dict[tuple[str, int], str] = {}  # problem by claim and port
        self.ports: list[Any] = []  # of its newest bundle
        self.armed: tuple[int, int] | None = None
        self.named: tuple[int, ...] = ()  # components in its newest bundle
        self.resized = 0  # the newest number of its malleable job's members
        self.passed_at: Instant | None = None  # in true time
        self.has_ended_itself = False  # its program, of its own accord
        self.began_at: Instant = engine.now
        self.hold_s: Seconds = float(spec["hold_s"])
        self.is_held = False
        self.held_s = 0.0
        self.was_frozen = False
        self._held_at: Instant = 0.0
        self._node = node
        self._spec = spec
        self._blocked = 0
        self._runs = False
        self._is_over = False
        self._program_end: Entry | None = None
        self._end: End[bytes] | None = None
        self._client: MailboxClient | None = None
        self._box: NodesMailbox | None = None
        self._sessions = 0
        self._unread = b""
        self._timer = Timer(self, self._woken)
        self._last_pause_at: Instant = float("-inf")

    # --- life ---

    def begin(self) -> None:
        """Start, as the local manager does."""
        self.begin_life()
        self._machine = StarterMachine(
            settings_of(read_fields(Specification, self._spec), self.nonce, processes=1),
            now=self.machine.boot(),
            wall_offset_s=self.machine.wall() - self.machine.boot(),
        )
        self._watch = Watch(self._spec, self.machine.boot())
        self._node.witness.began(self._node.site, self)
        self.run(lambda: self._handle(Woken()))

    def crash(self) -> None:
        """Kill it with its processes, as the batch system does; the report comes when nothing is
        left."""
        if self.is_up:
            self._die()
            self.engine.after(self.plan.stream("reap").random(), self._gone)

    def _gone(self) -> None:
        if not self._is_over:
            self._over()
            self._node.exited()

    def killed(self) -> None:
        """Receive the batch system's KILL: all processes die at once."""
        self._die()
        if not self._is_over:
            self._over()

    def signalled(self) -> None:
        """Receive the batch system's TERM."""
        if self.is_up:
            self.run(lambda: self._handle(SiteSignalled(reason="TERM from the site")))

    def _die(self) -> None:
        self._unblock()
        self.is_up = False
        self.life += 1
        self._hang_up()

    def _over(self) -> None:
        self._is_over = True
        self._stop_program()
        self._node.witness.ended(self._node.site, self)

    def _hang_up(self) -> None:
        if self._end is not None:
            self._end.reset()
            self._end = None
        if self.is_up:
            self._end_session()
        self._client = self._box = None  # a killed one leaves its files

    # --- the machine, driven (koala_agent.starter.Carrier) ---

    def _woken(self) -> None:
        pause_s = 0.0
        rest_s = 3 * self._node.pause_max_s + 10.0
        if self.engine.now - self._last_pause_at > rest_s:
            pause_s = self.plan.pause_s(self.engine.now)
        if pause_s > 0:
            self._last_pause_at = self.engine.now
            self.stopped_until = self.engine.now + pause_s
            self.engine.at(self.stopped_until, self.guarded(self._woken))
            return
        self._handle(Woken())

    def _handle(self, event: Event) -> None:
        events = [event]
        while events and self.is_up:
            event = events.pop(0)
            for action in self._machine.handle(event, self.machine.boot()):
                followed = self._carry_out(action)
                events += followed
                if not self.is_up or any(isinstance(one, Unexecutable) for one in followed):
                    break
        if self.is_up:
            self._timer.set(self._machine.wake_at)

    def _carry_out(self, action: Action) -> list[Event]:  # noqa: C901 - a line a kind
        if isinstance(action, Send):
            self._send(action.message)
        elif isinstance(action, Dial):
            self._dial()
        elif isinstance(action, Fork):
            return self._fork()
        elif isinstance(action, Prepare):
            members: Any = action.bundle.get("members", ())
            self.named = tuple(member["component"] for member in members)
            self.ports = action.bundle.get("ports", [])  # type: ignore[assignment]
        elif isinstance(action, ProbePaths):
            self._try_paths(action.order)
        elif isinstance(action, Open):
            return self._open(action.not_after)
        elif isinstance(action, Signal):
            assert not self.is_held, f"{self.claim}: a program that is held does not hear TERM"
            self._signal(action.number)
        elif isinstance(action, Resize):
            self._resize(action)
        elif isinstance(action, MeasureProgress):
            return [self._measure()]
        elif isinstance(action, PauseProgram | ResumeProgram):
            self._hold(is_held=isinstance(action, PauseProgram))
        elif isinstance(action, CountProcesses):
            left = int(self._runs) + self._blocked
            counted = ProcessesCounted(left=left, cpu_s=1.0, forwarded_bytes=100)
            return [*self._port_use(), counted]
        elif isinstance(action, WriteEnd):
            self._write_end(action.end)
        elif isinstance(action, Exit):
            self._exit()
        else:
            assert isinstance(action, ClosePaths), action
        return []

    def _port_use(self) -> list[Event]:
        """Tell what went through the grid, for each port of another claim that is reached so."""
        others = [one for one in self.ports if one["claim"] != self.claim and one["is_forwarded"]]
        rows = tuple((one["name"], one["claim"], 1, 100, 1.0, 0.01, 0, "") for one in others)
        return [PortsMoved(ports=rows)] if rows else []

    # --- its progress ---

    def _measure(self) -> ProgressMeasured:
        """Draw the program's speed; it makes no progress while it is held."""
        assert self.passed_at is not None
        held_s = self.held_s + (self.engine.now - self._held_at if self.is_held else 0.0)
        speed = 0.2 + sum(map(ord, self.claim)) % 5 / 5
        work = max(0.0, self.engine.now - self.passed_at - held_s) * speed
        return ProgressMeasured(work=work, is_told=False, can_pace=True)

    def _hold(self, *, is_held: bool) -> None:
        assert self.is_held != is_held, f"{self.claim}: held or let go twice"
        if not is_held:
            self.held_s += self.engine.now - self._held_at
        self.is_held = is_held
        self._held_at = self.engine.now

    def _exit(self) -> None:
        assert not self._runs, f"promise 5: {self.nonce} ends and leaves its program"
        assert not self.is_held, f"{self.claim}: left held"
        self._die()
        self._gone()

    # --- its files ---

    def _write_end(self, end: dict[str, object]) -> None:
        self.point()
        if not self.plan.strikes("spool_error", self.engine.now):
            self._node.folder.end = json.dumps({"nonce": self.nonce, "end": end})
        self.point()

    # --- its program ---

    def _fork(self) -> list[Event]:
        if self.plan.strikes("fork_error", self.engine.now):
            return [Unexecutable(reason="cannot prepare its processes: EAGAIN")]
        if self.passed_at is None:
            self._blocked = 1
        if not self.plan.strikes("unready", self.engine.now):
            return [Ready()]
        ready_s = self.plan.stream("ready").choice((0.05, 1.0, 5.0))
        self.after(ready_s, lambda: self._handle(Ready()))
        return []

    def _open(self, not_after: float) -> list[Event]:
        """Read the clock once and open the barrier; it may be stopped right after."""
        at = self.machine.boot()
        if at > not_after:
            return [TooLate()]
        self._watch.require_may_pass(self, at)
        passed_at = self._machine.to_daemons(at)
        self.point()
        self._node.folder.passed = json.dumps({"nonce": self.nonce, "passed_at": passed_at})
        self.point()
        self._blocked = 0
        self._runs = True
        self.passed_at = self.engine.now
        self._node.witness.passed(self._node.site, self)
        run_s, status = self._node.program
        self._program_end = self.engine.after(
            run_s, lambda: self._program_ends(status, by_itself=True)
        )
        return [Opened(at=at)]

    def _unblock(self) -> None:
        """Record that the program blocked at the barrier is dead."""
        if self._blocked:
            self._watch.require_may_hold(self, self.machine.boot(), self._node.pause_max_s)
            self._blocked = 0

    def _signal(self, number: int) -> None:
        self._unblock()
        if not self._runs:
            return
        if number == KILL:
            self._ends_in(0.0, -KILL)
        else:
            kill_s = float(self._spec["kill_s"])
            self._ends_in(self.plan.kill_s(kill_s, self.engine.now), -TERM)

    def _resize(self, order: Resize) -> None:
        """Let the program learn of its job's members. One that is asked to end does so within the
        time or later, well or not, or never."""
        members: Any = order.bundle["members"]
        components = [member["component"] for member in members]
        assert order.number > self.resized, f"{self.claim}: members {order.number} are told again"
        assert int(self.claim.split("/")[2]) in components, f"{self.claim}: not among {components}"
        self.resized = order.number
        if order.leave_s is not None and self._runs:
            self._node.witness.asked_to_leave(self)
            random = self.plan.stream("give way")
            share = random.choice((0.0, 0.3, 0.95, 1.05, 3.0, None))
            status = random.choice((0, 0, 1))
            if share is not None:
                self._ends_in(order.leave_s * share, status, by_itself=True)

    def _ends_in(self, duration_s: Seconds, status: int, *, by_itself: bool = False) -> None:
        """Return the longest time to its end; a program that ends by itself ends before."""
        now = self.engine.now
        if self._program_end is not None and self._program_end.at <= now + duration_s:
            return
        if self._program_end is not None:
            self._program_end.cancel()
        self._program_end = self.engine.after(
            duration_s, lambda: self._program_ends(status, by_itself=by_itself)
        )

    def _program_ends(self, status: int, *, by_itself: bool = False) -> None:
        if self._runs:
            self.has_ended_itself = by_itself
            self._watch.require_may_run(self, self.machine.boot(), self._node.pause_max_s)
            self._stop_program()
            self.run(lambda: self._handle(ProcessEnded(index=0, status=status)))

    def _stop_program(self) -> None:
        self._runs = False
        self._node.witness.stopped(self)

    def _try_paths(self, order: PathsOrder) -> None:
        self.asked_paths = True
        needed = order.listens or not all(target[4] for target in order.targets)
        took_s, problem = self.plan.paths(self.engine.now, order.limit_s) if needed else (0.01, "")
        named = [(claim, port) for _, _, port, claim, may_fail in order.targets if may_fail]
        self.tried_ports = {port: self.plan.port(self.engine.now) for port in named}

        def tried() -> None:
            self.tried = problem
            ports = tuple((*port, 0.01, why) for port, why in self.tried_ports.items())
            self._handle(PathsProbed(problem=problem, ports=ports))

        self.after(took_s, tried)

    # --- the line to its agent ---

    def _dial(self) -> None:
        self._hang_up()
        if self._node.shared is not None:
            self._open_files(self._node.shared)
            return
        end = self._node.dial(self)
        if end is None:
            self.after(0.01, lambda: self._handle(Disconnected()))
            return
        self._end = end
        self._unread = b""
        end.take = lambda data: self.run(lambda: self._receive(end, data))
        end.lost = lambda: self.run(lambda: self._lost(end))

    def _open_files(self, shared: SharedFolder) -> None:
        """Begin a session, as a client does when it starts."""
        self._sessions += 1
        session = f"{self.nonce.replace('/', '-').replace('#', '.')}x{self._sessions}"
        mailbox = NodesMailbox(shared, str(self._spec["mailbox"]), session)
        secret = str(self._spec["secret"])
        client = MailboxClient(
            cast("Mailbox", mailbox), session, secret, warn=lambda _problem: None
        )
        try:
            mailbox.begin()
        except OSError:
            self.after(0.01, lambda: self._handle(Disconnected()))
            return
        self._client, self._box, self._unread = client, mailbox, b""
        self.after(0.0, lambda: self._handle(Connected()))
        self.after(POLL_S, lambda: self._look(client))

    def _look(self, client: MailboxClient) -> None:
        """Let the client take a turn."""
        if self._client is not client:
            return
        try:
            client.deliver()
            data = client.collect()
        except OSError:
            client.is_over, data = True, b""
        self._take(data)
        if self._client is not client:
            return
        if client.is_over:
            self._end_session()
            self._handle(Disconnected())
        else:
            self.after(POLL_S, lambda: self._look(client))

    def _end_session(self) -> None:
        if self._box is not None:
            with suppress(OSError):
                self._box.end()
        self._client = self._box = None

    def reached(self, end: End[bytes]) -> None:
        """Handle the agent's acceptance of the connection."""
        if self._end is end:
            self.run(lambda: self._handle(Connected()))

    def _lost(self, end: End[bytes]) -> None:
        if self._end is end:
            self._end = None
            self._handle(Disconnected())

    def _receive(self, end: End[bytes], data: bytes) -> None:
        if self._end is end:
            self._take(data)

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if self.is_up:
                message = json.loads(line)
                self._watch.heard(message, self.machine.boot())
                self._handle(Received(message=message))

    def _send(self, message: dict[str, object]) -> None:
        if message["kind"] == "armed":
            number: Any = message["number"]
            if self.armed != tuple(number):
                self.armed = (number[0], number[1])
                self._watch.promised(self.armed)
                self._node.witness.armed(self._node.site, self)
                self._freeze(number)
            self.point()
        line = json.dumps(message).encode() + b"\n"
        if self._end is not None:
            self._end.send(line)
        if self._client is not None:
            self._client.post(line)
            with suppress(OSError):  # found at the next turn
                self._client.deliver()

    def _freeze(self, number: Any) -> None:
        """Be stopped after this call, or not: the answer to the Arm is on its way."""
        freeze_s = self.plan.freeze_s(self.engine.now)
        if freeze_s > 0:
            self.was_frozen = True
            self.stopped_until = self.engine.now + freeze_s
            late_at = self._watch.late_at(tuple(number))
            self._node.witness.froze(self._node.site, self, self.machine.when(late_at))

    # --- what happens to it ---

    def cut(self) -> None:
        """Handle a broken connection."""
        if self._end is not None:
            self._end.break_pipe()

    def kill(self) -> None:
        """Kill the starter alone."""
        self.crash()
