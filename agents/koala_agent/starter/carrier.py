"""The world around the starter's machine: sockets, processes, signals, files and the clock."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import time

from koala_agent.starter.events import (
    Answer,
    ClosePaths,
    Dial,
    Exit,
    Fork,
    Look,
    Looked,
    Open,
    Opened,
    Prepare,
    ProcessEnded,
    Ready,
    Received,
    Send,
    Settings,
    Signal,
    SiteSignalled,
    TooLate,
    TryPaths,
    Unexecutable,
    Woken,
    WriteEnd,
)
from koala_agent.starter.exchange import Exchange
from koala_agent.starter.line import Line, Watch
from koala_agent.starter.machine import StarterMachine
from koala_agent.starter.plain import boot_now, log, to_count, to_list, to_number
from koala_agent.starter.processes import SITE_SIGNALS, Processes
from koala_agent.starter.program import Program, rendezvous
from koala_agent.starter.trees import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event
    from koala_agent.starter.paths import Paths


class Carrier:
    """The world around the machine: carries its actions out and tells it what comes of them."""

    def __init__(self, spec: dict[str, object], nonce: str) -> None:
        now = boot_now()
        self._nonce = nonce
        self._claim = str(spec["claim"])
        self._program = Program(spec)
        self._machine = StarterMachine(
            _settings(spec, nonce, self._program), now=now, wall_offset_s=time.time() - now
        )
        self._watch = Watch()
        agents = [to_list(agent) for agent in to_list(spec["agents"])]
        addresses = [(str(host), to_count(port)) for host, port in agents]
        self._line = Line(addresses, self._watch)
        self._program.environment[MARK] = nonce
        self._processes = Processes(self._program, nonce)
        self._exchange: Exchange | None = None
        self._paths: Paths | None = None
        self._passing = -1
        self._events: list[Event] = []
        self._is_over = False

    def run(self) -> None:
        """Until nothing is left to do."""
        self._catch_signals()
        problem = self._program.problem()
        if problem:
            self._handle(Unexecutable(reason=problem))
        else:
            self._handle(Woken())
        while not self._is_over:
            wake_at = self._machine.wake_at
            if self._paths is not None and self._paths.wake_at is not None:
                wake_at = min(wake_at or math.inf, self._paths.wake_at)
            self._watch.wait(None if wake_at is None else wake_at - boot_now())
            self._take_events()
        self._line.close()
        if self._exchange is not None:
            self._exchange.close()

    def _take_events(self) -> None:
        """All that happened meanwhile, and the timer."""
        if self._exchange is not None:
            self._events += self._exchange.asked
            self._exchange.asked.clear()
        if self._paths is not None:
            self._paths.tick()
            self._events += self._paths.events
            self._paths.events.clear()
        self._events += self._line.events
        self._line.events.clear()
        events, self._events = self._events, []
        for event in [*events, Woken()]:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        """One event and what follows from it, and from that, before the next."""
        events = [event]
        while events:
            event = events.pop(0)
            try:
                actions = self._machine.handle(event, boot_now())
            except ValueError as error:
                assert isinstance(event, Received), event
                log(f"the agent said what cannot be meant: {error}")
                continue
            for action in actions:
                followed = self._carry_out(action)
                events += followed
                if any(isinstance(one, Unexecutable) for one in followed):
                    break  # what this turn wanted of the processes cannot be had any more

    def _carry_out(self, action: Action) -> list[Event]:
        if isinstance(action, Send):
            self._line.send(action.message)
        elif isinstance(action, Dial):
            self._line.dial()
        elif isinstance(action, Answer):
            if self._exchange is not None:
                self._exchange.answer(action.question, action.answer)
        elif isinstance(action, TryPaths):
            from koala_agent.starter.paths import Paths  # noqa: PLC0415 - late: few jobs need it

            self._paths = Paths(action, self._claim, self._watch)
        elif isinstance(action, ClosePaths):
            if self._paths is not None:
                self._paths.close()
            self._paths = None
        elif isinstance(action, Exit):
            self._is_over = True
        elif isinstance(action, WriteEnd):
            log(f"ended: {json.dumps(action.end)}")
            self._write("end.json", {"nonce": self._nonce, "end": action.end})
        else:
            return self._carry_out_on_processes(action)
        return []

    def _carry_out_on_processes(self, action: Action) -> list[Event]:
        if isinstance(action, Fork):
            return self._fork()
        if isinstance(action, Prepare):
            self._prepare(action.bundle or self._program.solo)
        elif isinstance(action, Open):
            return self._open(action.not_after)
        elif isinstance(action, Signal):
            self._processes.signal(action.number)
        elif isinstance(action, Look):
            used = self._processes
            # First: what ends between the two is then counted as left, and looked for again.
            left = len(used.left())
            events = self._reap()
            looked = Looked(left=left, cpu_s=used.cpu_s, memory_bytes=used.memory_bytes)
            return [*events, looked]
        return []

    def _fork(self) -> list[Event]:
        try:
            if self._exchange is None:
                self._exchange = Exchange(self._program.state_folder, self._nonce, self._watch)
                self._watch.add(self._processes.trouble, select.POLLIN, self._troubled)
            self._processes.fork()
        except OSError as error:
            return [Unexecutable(reason=f"cannot prepare its processes: {error}")]
        return [Ready()]

    def _prepare(self, bundle: dict[str, object]) -> None:
        path = self._write("bundle.json", bundle)
        assert self._exchange is not None
        shared = {"KOALA_BUNDLE": path, "KOALA_KV": self._exchange.path}
        environments = [
            {**rendezvous(bundle, self._program.process_of(main)), **shared}
            for main in range(self._program.mains)
        ]
        if self._program.helpers:
            self._prepare_helpers()
        self._processes.prepare(environments)
        if self._passing < 0:
            path = os.path.join(self._program.state_folder, "passed.json")
            self._passing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def _prepare_helpers(self) -> None:
        """What helpers on other machines cannot have from our environment."""
        assert self._exchange is not None
        launch: dict[str, object] = {
            "environment": self._program.environment,
            "path": os.environ.get("PATH", os.defpath),
            "kv": self._exchange.path,
            "host": socket.gethostname(),
        }
        self._write("launch.json", launch)

    def _open(self, not_after: float) -> list[Event]:
        """The one look at the clock, the word in the file, and the barrier opens."""
        at = boot_now()
        if at > not_after:
            return [TooLate()]
        passed = {"nonce": self._nonce, "passed_at": self._machine.to_daemons(at)}
        os.write(self._passing, json.dumps(passed).encode())
        self._processes.go()
        os.fsync(self._passing)  # outlives this process already; now the machine, too
        return [Opened(at=at)]

    def _write(self, name: str, content: dict[str, object]) -> str:
        """A small file, whole or not at all; answers its path."""
        path = os.path.join(self._program.state_folder, name)
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(f"{path}.new", path)
        except OSError as error:
            log(f"{path} cannot be written: {error}")  # the agent is told all the same
        return path

    # Signals -------------------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for name in (*SITE_SIGNALS, "SIGCHLD"):
            signal.signal(getattr(signal, name), lambda _number, _frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._watch.add(reading, select.POLLIN, lambda _events: self._signalled(reading))

    def _signalled(self, reading: int) -> None:
        for number in os.read(reading, 4096):
            if number == signal.SIGCHLD:
                self._events += self._reap()
            else:
                name = signal.Signals(number).name
                self._events.append(SiteSignalled(reason=f"{name} from the site"))

    def _troubled(self, _events: int) -> None:
        self._events += [Unexecutable(reason=text) for text in self._processes.troubles()]

    def _reap(self) -> list[Event]:
        """Ends of processes; what a process said before it ended comes first."""
        ended = self._processes.reap()
        self._troubled(0)
        events, self._events = self._events, []
        return events + [ProcessEnded(index=index, status=status) for index, status in ended]


def _settings(spec: dict[str, object], nonce: str, program: Program) -> Settings:
    return Settings(
        claim=str(spec["claim"]),
        secret=str(spec["secret"]),
        nonce=nonce,
        processes=program.mains,
        hosts=program.hosts,
        hold_s=to_number(spec, "hold_s"),
        hold_lease_s=to_number(spec, "hold_lease_s"),
        run_lease_s=to_number(spec, "run_lease_s"),
        kill_s=to_number(spec, "kill_s"),
        wall_time_s=to_number(spec, "wall_time_s"),
        no_barrier=bool(spec["no_barrier"]),
    )


def main(arguments: list[str]) -> int:
    """`starter.py SPEC` runs the starter of one claim (the exit status says nothing, the end does),
    `starter.py VERB STATE ...` one of its helpers."""
    if len(arguments) > 2:
        from koala_agent.starter import runners  # noqa: PLC0415 - late: no starter waits for it

        return runners.main(arguments)
    with open(arguments[1], "rb") as file:
        spec = json.load(file)
    Carrier(spec, os.urandom(12).hex()).run()
    return 0
