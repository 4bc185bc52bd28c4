"""What a claim submits to the local manager: checks in, waits at the barrier, runs the program.

One file, standard library only, because it is sent alone to compute nodes: `python starter.py
SPEC.json`. It is slow where it may be (imports that are late) and quick until it has checked in.
The machine, `StarterMachine`, is pure: events in, actions out; `Carrier` has sockets, processes
and the clock. The rules are those of the design ("Attempts, barrier and fence"):

- It is bound to one claim, and to itself by a nonce drawn here; it never starts its program twice.
- Its lease counts from the *sending* of the newest ping that was answered. At the end of the lease,
  and at the hold deadline before the barrier, it stops all that it runs and exits.
- Armed promises: no abort until D, unless by D or because the daemon says Stop or the site signals.
- It passes if and only if it holds the Release that matches its latest Arm, which it had answered,
  and neither D nor its lease has run out at a look at the clock just before the program goes.
- It stays the program's parent. When one process fails, the others of the component are ended, too
  (TERM, then KILL after `kill_s`; their statuses say -15 or -9). What outlives the main processes,
  daemons that left their session included, is ended in the same way.
- Its end is written down in its folder, told until it is noted, and then it exits, always with 0.

A component on several machines, or with jobType=mpi, has helpers as its main processes
(`runners.py`, beside this file); all that is said here of processes is then true of those.

The programs of all processes are forked at check-in and wait on a pipe each, so that opening the
barrier is one write a process. All instants are CLOCK_BOOTTIME but those in the daemon's time
(`release_at`, `passed_at`, `ended_at`); durations are seconds.
"""
# Without pathlib: it takes as long to import as all the rest.
# ruff: noqa: PTH100, PTH102, PTH105, PTH106, PTH108, PTH112, PTH113, PTH118, PTH123, PTH208

from __future__ import annotations

import errno
import json
import math
import os
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import dataclass
    from typing import NoReturn, TypeAlias
else:

    def dataclass(**_options: object) -> object:
        """The little of `dataclasses` that is needed here; importing that takes 10 ms."""

        def decorate(cls: type) -> type:
            names = tuple(getattr(cls, "__annotations__", ()))
            defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}

            def init(self: object, **given: object) -> None:
                unknown = set(given) - set(names)
                if unknown:
                    raise TypeError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
                for name in names:
                    if name not in given and name not in defaults:
                        raise TypeError(f"{cls.__name__} needs {name}")
                    setattr(self, name, given.get(name, defaults.get(name)))

            cls.__init__ = init
            cls.__eq__ = lambda self, other: type(self) is type(other) and vars(self) == vars(other)
            cls.__hash__ = None
            cls.__repr__ = lambda self: f"{cls.__name__}({vars(self)})"
            return cls

        return decorate


PING_MAX_S = 60.0
"""The longest time between two pings, whatever the lease."""
PINGS_A_LEASE = 8
BURST = 5
"""Pings one after the other when it is adopted, to measure the daemon's clock."""
SAMPLES_MAX = 16
DRIFT = 1e-4
"""How fast a clock sample is taken to lose its worth, in seconds of error a second."""
DIAL_MIN_S, DIAL_MAX_S = 0.1, 2.0
DIAL_LIMIT_S = 3.0
LOOK_S = 0.05
PATH_AGAIN_S = 0.1
"""How soon a TCP path that was closed is tried again."""
LINGER_S = 60.0
"""How long an end is told to nobody before the starter exits; it is written down anyway."""
LEASE_LINGER_S = 1.0
"""The same after a lease: who answered nothing for all of it will hardly hear the end."""
VALUE_MAX_BYTES = 4096
NAME_MAX_BYTES = 256
QUESTIONS_MAX = 1024
PUT_LIMIT_S = 60.0
ANSWER_SLACK_S = 1.0
LINE_MAX_BYTES = 4 * 1024 * 1024
REFORKS_MAX = 3
FOREIGN_SIGNALS = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGXCPU)
FOREIGN_S = 0.25
"""A site that ends a batch job signals all its processes: the program's death may be seen before
the starter's own signal, which is waited for so long before the death counts as the program's."""
MARK = "KOALA_STARTER"
"""The variable that every process of the program has: the starter's nonce."""

# What it works with ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the machine must know of its claim; a time of 0 for `wall_time_s` means no limit."""

    claim: str
    secret: str
    nonce: str
    processes: int
    hold_s: float
    hold_lease_s: float
    run_lease_s: float
    kill_s: float
    wall_time_s: float = 0.0
    no_barrier: bool = False
    hosts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Arming:
    """The latest Arm. `until` is D after its receipt; `is_promised` when it was answered."""

    number: tuple[int, int]
    release_at: float
    late_s: float
    until: float
    is_promised: bool


# Events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Connected:
    """The agent is reached."""


@dataclass(frozen=True, kw_only=True)
class Disconnected:
    """The agent is gone, or could not be reached."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message of the agent."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Unexecutable:
    """The program cannot be started: found before the check-in, or by a process of it."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class ProcessEnded:
    """A main process has ended: exit status, or minus the signal."""

    index: int
    status: int


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The barrier was opened at this instant."""

    at: float


@dataclass(frozen=True, kw_only=True)
class TooLate:
    """A last look at the clock forbade to open the barrier."""


@dataclass(frozen=True, kw_only=True)
class SiteSignalled:
    """The site wants this batch job to end."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Looked:
    """How many processes are left of all that was started, and what they used together so far."""

    left: int
    cpu_s: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A process puts a value (`value` is one) or asks for one."""

    question: int
    name: str
    value: str | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The TCP paths were tried: what is in the way, empty when all are open."""

    problem: str


@dataclass(frozen=True, kw_only=True)
class Woken:
    """`wake_at` has come."""


# Actions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dial:
    """Give up the connection there is, and connect to the agent."""


@dataclass(frozen=True, kw_only=True)
class Send:
    """Say this to the agent."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Have every process forked and blocked; those that are stay."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Write the bundle and hand the environment to the blocked processes."""

    bundle: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class TryPaths:
    """Listen on these ports, reach each target within `limit_s`, and answer Tried. A target is
    (label, address, port, claim)."""

    label: str
    address: str
    listens: list[int]
    targets: list[tuple[str, str, int, str]]
    limit_s: float


@dataclass(frozen=True, kw_only=True)
class ClosePaths:
    """Listen no more: the ports are the program's from here on."""


@dataclass(frozen=True, kw_only=True)
class Open:
    """Look at the clock; if it is not past `not_after`, open the barrier and answer Opened."""

    not_after: float


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Send this signal to all that was started and is left."""

    number: int


@dataclass(frozen=True, kw_only=True)
class Look:
    """Answer Looked."""


@dataclass(frozen=True, kw_only=True)
class WriteEnd:
    """Write the end down, durably."""

    end: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer a question of a process."""

    question: int
    answer: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Exit:
    """Nothing is left to do."""


# Phases ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Before the barrier; bound once the agent has said so."""

    is_adopted: bool = False


@dataclass(frozen=True, kw_only=True)
class Running:
    """Passed; the program runs until `wall_until` at most."""

    wall_until: float


@dataclass(frozen=True, kw_only=True)
class Ending:
    """All that was started is being ended; by KILL at `kill_at`, None before TERM was sent."""

    kind: str
    reason: str
    kill_at: float | None
    look_at: float
    is_dismissed: bool = False


@dataclass(frozen=True, kw_only=True)
class Over:
    """Nothing runs; the end is told until it is noted."""

    until: float


@dataclass(frozen=True, kw_only=True)
class Exited:
    """For good."""


if TYPE_CHECKING:
    Phase: TypeAlias = "Holding | Running | Ending | Over | Exited"
    Event: TypeAlias = (
        "Connected | Disconnected | Received | Unexecutable | ProcessEnded | Opened | TooLate"
        " | SiteSignalled | Looked | Asked | Tried | Woken"
    )
    Action: TypeAlias = (
        "Dial | Send | Fork | Prepare | TryPaths | ClosePaths | Open | Signal | Look | WriteEnd"
        " | Answer | Exit"
    )


class _Question:
    """A put or get under way; answered here when no answer came until `until`."""

    def __init__(self, message: dict[str, object], until: float) -> None:
        self.message = message
        self.until = until


class DaemonClock:
    """The daemon's time less ours, from answered pings: the one with the least error counts.

    Its error is half the round trip and grows with its age. Before any answer the offset of this
    machine's wall clock stands in: it decides how even a start is, never whether it happens.
    """

    def __init__(self, wall_offset_s: float) -> None:
        self._wall_offset_s = wall_offset_s
        self._samples: list[tuple[float, float, float]] = []

    def sample(self, *, sent_at: float, answered_at: float, now: float) -> None:
        """A ping left at `sent_at`, was answered at `answered_at` (daemon's), and is back."""
        middle = (sent_at + now) / 2
        self._samples = [*self._samples, (now, (now - sent_at) / 2, answered_at - middle)]
        self._samples = self._samples[-SAMPLES_MAX:]

    def offset_s(self, now: float) -> float:
        """The daemon's time less ours."""
        if not self._samples:
            return self._wall_offset_s
        return min(self._samples, key=lambda s: s[1] + DRIFT * (now - s[0]))[2]


class StarterMachine:
    """The machine. Made when the starter begins; that is what its lease counts from at first."""

    def __init__(self, settings: Settings, *, now: float, wall_offset_s: float) -> None:
        self.phase: Phase = Holding()
        self.arming: Arming | None = None
        self.passed_at: float | None = None
        self.clock = DaemonClock(wall_offset_s)
        self._settings = settings
        self._now = now
        self._actions: list[Action] = []
        self._hold_until = now + settings.hold_s
        self._hold_lease_s = settings.hold_lease_s
        self._run_lease_s = settings.run_lease_s
        self._kill_s = settings.kill_s
        self._answered_at = now
        self._is_connected = False
        self._dial_at = now
        self._failures = 0
        self._ping_at = now
        self._burst = 0
        self._promised_until: float | None = None
        self._is_listening = False
        self._tried: str | None = None
        self._open_at: float | None = None
        self._is_open_due = True
        self._problem = ""
        self._reforks = 0
        self._statuses: dict[int, int] = {}
        self._settled_at = now
        self._end: dict[str, object] | None = None
        self._ended_at = now
        self._questions: dict[int, _Question] = {}

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do about it, in order."""
        self._now = now
        self._actions = []
        if isinstance(self.phase, Exited):
            return []
        if isinstance(event, (Connected, Disconnected, Received, Asked)):
            self._on_message(event)
        elif not isinstance(event, Woken):
            self._on_process(event)
        self._tick()
        return self._actions

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is wanted."""
        if isinstance(self.phase, Exited):
            return None
        dues = [question.until for question in self._questions.values()]
        dues.append(self._ping_at if self._is_connected else self._dial_at)
        dues += self._phase_dues()
        return min(dues)

    def lease_until(self) -> float:
        """The end of the lease that counts now."""
        is_held = self.passed_at is None
        return self._answered_at + (self._hold_lease_s if is_held else self._run_lease_s)

    def to_daemons(self, instant: float) -> float:
        """An instant of ours in the daemon's time."""
        return instant + self.clock.offset_s(self._now)

    # Messages ------------------------------------------------------------------------------------

    def _on_message(self, event: Connected | Disconnected | Received | Asked) -> None:
        if isinstance(event, Received):
            self._receive(event.message)
        elif isinstance(event, Asked):
            self._ask(event)
        elif isinstance(event, Connected):
            self._is_connected = True
            self._failures = 0
            self._say(Send(message=self._hello()))
            self._ping()
        else:
            self._is_connected = False
            wait_s = min(DIAL_MAX_S, DIAL_MIN_S * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._dial_at = self._now + wait_s

    def _hello(self) -> dict[str, object]:
        """The check-in, and after a reconnection all that it knows of itself."""
        arming = self.arming
        is_armed = arming is not None and arming.is_promised
        return {
            "kind": "hello",
            "claim": self._settings.claim,
            "secret": self._settings.secret,
            "nonce": self._settings.nonce,
            "hosts": [list(host) for host in self._settings.hosts],
            "armed": list(arming.number) if arming is not None and is_armed else None,
            "passed_at": None if self.passed_at is None else self.to_daemons(self.passed_at),
            "end": self._told_end() if isinstance(self.phase, Over) else None,
        }

    def _receive(self, message: dict[str, object]) -> None:  # noqa: C901 - a line a kind
        kind = message.get("kind")
        if kind == "pong":
            self._pong(_number(message, "sent_at"), _number(message, "now"))
        elif kind == "adopted":
            self._adopt(message)
        elif kind == "paths":
            self._try_paths(message)
        elif kind == "arm":
            self._arm(message)
        elif kind == "release":
            self._release(_arm_number(message))
        elif kind == "answer":
            self._answer(int(_number(message, "request")), message)
        elif kind == "stop":
            if isinstance(self.phase, (Holding, Running)):
                self._begin_end("stopped", "")
        elif kind == "dismissed":
            self._dismiss(str(message.get("reason", "")))
        elif kind == "noted" and isinstance(self.phase, Over):
            self._exit()

    def _pong(self, sent_at: float, answered_at: float) -> None:
        if sent_at > self._now:
            return  # not a ping of ours
        self._answered_at = max(self._answered_at, sent_at)
        self.clock.sample(sent_at=sent_at, answered_at=answered_at, now=self._now)
        if self._burst > 0:
            self._burst -= 1
            self._ping()

    def _adopt(self, message: dict[str, object]) -> None:
        self._hold_lease_s = _number(message, "hold_lease_s")
        self._run_lease_s = _number(message, "run_lease_s")
        self._kill_s = _number(message, "kill_s")
        self._burst = BURST - 1
        for question in self._questions.values():
            self._say(Send(message=question.message))
        if not isinstance(self.phase, Holding) or self.phase.is_adopted:
            return
        self.phase = Holding(is_adopted=True)
        self._say(Fork())
        if self._settings.no_barrier:
            self._say(Prepare(bundle={}))
            self._open_at = self._now

    def _try_paths(self, message: dict[str, object]) -> None:
        """Once; whoever asks again gets the same answer."""
        if not isinstance(self.phase, Holding) or not self.phase.is_adopted or self.arming:
            return
        if self._tried is not None:
            self._tell({"kind": "tried", "problem": self._tried})
        elif not self._is_listening:
            order = _paths(message)
            self._is_listening = True
            self._say(order)

    def _close_paths(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._say(ClosePaths())

    def _arm(self, message: dict[str, object]) -> None:
        """Promises when lease and hold deadline both outlast D from now."""
        number = _arm_number(message)
        if not isinstance(self.phase, Holding) or not self.phase.is_adopted:
            return
        arming = self.arming
        if arming is not None and number < arming.number:
            return
        if arming is not None and number == arming.number and arming.is_promised:
            self._say(Send(message={"kind": "armed", "number": list(number)}))
            return
        self._close_paths()
        late_s = _number(message, "late_s")
        until = self._now + late_s
        is_promised = min(self.lease_until(), self._hold_until) > until
        self.arming = Arming(
            number=number,
            release_at=_number(message, "release_at"),
            late_s=late_s,
            until=until,
            is_promised=is_promised,
        )
        self._open_at = None
        if is_promised:
            self._promised_until = max(until, self._promised_until or until)
            bundle = message.get("bundle")
            self._say(Prepare(bundle=bundle if isinstance(bundle, dict) else {}))
            self._say(Send(message={"kind": "armed", "number": list(number)}))
        self._burst = max(self._burst, 2)
        self._ping()

    def _release(self, number: tuple[int, int]) -> None:
        if self.passed_at is not None and self.arming is not None:
            if number == self.arming.number:
                self._tell_passed()
            return
        arming = self.arming
        if not isinstance(self.phase, Holding) or arming is None or not arming.is_promised:
            return
        if number == arming.number:
            # T on our clock; an offset that is wrong must not carry it past D.
            at = arming.release_at - self.clock.offset_s(self._now)
            self._open_at = min(at, arming.until - min(1.0, arming.late_s / 2))

    def _dismiss(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, Over):
            self._exit()
        elif isinstance(phase, Ending):
            self.phase = Ending(
                kind=phase.kind,
                reason=phase.reason,
                kill_at=phase.kill_at,
                look_at=phase.look_at,
                is_dismissed=True,
            )
        elif isinstance(phase, (Holding, Running)):
            self._begin_end("stopped", reason, is_dismissed=True)

    # Values --------------------------------------------------------------------------------------

    def _ask(self, event: Asked) -> None:
        refusal = _refusal(event, len(self._questions))
        if refusal:
            self._reply(event.question, {"ok": False, "error": refusal})
            return
        message: dict[str, object] = {"request": event.question, "name": event.name}
        if event.value is None:
            message.update(kind="get", wait_s=event.wait_s)
            limit_s = event.wait_s + ANSWER_SLACK_S
        else:
            message.update(kind="put", value=event.value)
            limit_s = PUT_LIMIT_S
        self._questions[event.question] = _Question(message, self._now + limit_s)
        if self._is_connected:
            self._say(Send(message=message))

    def _answer(self, number: int, message: dict[str, object]) -> None:
        question = self._questions.pop(number, None)
        if question is None:
            return
        if not message.get("ok"):
            self._reply(number, {"ok": False, "error": str(message.get("error", ""))})
        elif question.message["kind"] == "get":
            self._reply(number, {"ok": True, "value": str(message.get("value", ""))})
        else:
            self._reply(number, {"ok": True})

    def _give_up(self, number: int) -> None:
        message = self._questions.pop(number).message
        name = message["name"]
        if message["kind"] == "get":
            error = f"no value for {name!r} after {message['wait_s']:g} s"
        else:
            error = f"no answer to the put of {name!r} within {PUT_LIMIT_S:g} s"
        self._reply(number, {"ok": False, "error": error})

    def _reply(self, question: int, answer: dict[str, object]) -> None:
        self._say(Answer(question=question, answer=answer))

    # Processes -----------------------------------------------------------------------------------

    def _on_process(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._opened(event.at)
        elif isinstance(event, TooLate):
            if isinstance(self.phase, Holding):
                self._begin_end("late", "the barrier could not be opened in time")
        elif isinstance(event, Unexecutable):
            self._unexecutable(event.reason)
        elif isinstance(event, ProcessEnded):
            self._process_ended(event)
        elif isinstance(event, SiteSignalled):
            self._signalled_by_site(event.reason)
        elif isinstance(event, Looked):
            self._looked(event)
        elif isinstance(event, Tried):
            self._tried = event.problem
            self._tell({"kind": "tried", "problem": event.problem})

    def _signalled_by_site(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, (Holding, Running)):
            self._begin_end("site", reason)
        elif isinstance(phase, Ending) and self._now < self._settled_at:
            self._begin_end("site", reason, is_dismissed=phase.is_dismissed)

    def _opened(self, at: float) -> None:
        assert isinstance(self.phase, Holding), self.phase
        assert self.passed_at is None, "the barrier opens once"
        self.passed_at = at
        wall_time_s = self._settings.wall_time_s
        self.phase = Running(wall_until=at + wall_time_s if wall_time_s > 0 else float("inf"))
        self._tell_passed()
        if self._problem:
            self._begin_end("unexecutable", self._problem)

    def _tell_passed(self) -> None:
        assert self.passed_at is not None
        passed_at = self.to_daemons(self.passed_at)
        self._tell({"kind": "passed", "passed_at": passed_at})

    def _unexecutable(self, reason: str) -> None:
        if isinstance(self.phase, Holding) and self._is_promising():
            self._problem = self._problem or reason  # it may not abort now
        elif isinstance(self.phase, (Holding, Running)):
            self._begin_end("unexecutable", reason)
        elif isinstance(self.phase, Ending) and self.phase.kind == "exited":
            # Its exit status was seen before its word.
            phase = self.phase
            self.phase = Ending(
                kind="unexecutable", reason=reason, kill_at=phase.kill_at, look_at=phase.look_at
            )

    def _process_ended(self, event: ProcessEnded) -> None:
        phase = self.phase
        if isinstance(phase, Holding):
            # Blocked ones end by nobody's will but a stranger's: another one takes the place.
            self._statuses[event.index] = event.status
            self._reforks += 1
            if self._reforks > REFORKS_MAX * self._settings.processes:
                self._unexecutable("the blocked processes end again and again")
            elif not self._problem:
                del self._statuses[event.index]
                self._say(Fork())
            return
        self._statuses[event.index] = event.status
        if isinstance(phase, Ending):
            self._say(Look())
        elif isinstance(phase, Running):
            if event.status in FOREIGN_SIGNALS:
                self._settled_at = self._now + FOREIGN_S
            if event.status != 0 and self._settings.processes > 1:
                reason = f"process {event.index} ended with {_status_text(event.status)}"
                self._begin_end("exited", reason)
            elif len(self._statuses) == self._settings.processes:
                self.phase = Ending(kind="exited", reason="", kill_at=None, look_at=self._now)

    def _looked(self, event: Looked) -> None:
        phase = self.phase
        if not isinstance(phase, Ending):
            return
        if event.left == 0:
            if self._now >= self._settled_at:
                self._over(phase, event)
        elif phase.kill_at is None:
            self._begin_end(phase.kind, phase.reason, is_dismissed=phase.is_dismissed)
        elif self._now >= phase.kill_at:
            self._say(Signal(number=signal.SIGKILL))

    # The end -------------------------------------------------------------------------------------

    def _begin_end(self, kind: str, reason: str, *, is_dismissed: bool = False) -> None:
        self._close_paths()
        self._say(Signal(number=signal.SIGTERM))
        self.phase = Ending(
            kind=kind,
            reason=reason,
            kill_at=self._now + self._kill_s,
            look_at=self._now,
            is_dismissed=is_dismissed,
        )

    def _over(self, phase: Ending, used: Looked) -> None:
        statuses = []
        if self.passed_at is not None:
            processes = range(self._settings.processes)
            statuses = [self._statuses.get(index, -signal.SIGKILL) for index in processes]
        self._ended_at = self._now
        self._end = {
            "kind": phase.kind,
            "reason": phase.reason,
            "statuses": statuses,
            "cpu_s": used.cpu_s,
            "memory_bytes": used.memory_bytes,
        }
        for number in list(self._questions):
            self._give_up(number)
        self._say(WriteEnd(end=self._told_end()))
        is_by_lease = phase.kind == "lease"
        if phase.is_dismissed or (is_by_lease and not self._is_connected):
            self._exit()  # the next agent reads what was written
            return
        self.phase = Over(until=self._now + (LEASE_LINGER_S if is_by_lease else LINGER_S))
        self._tell({"kind": "ended", "end": self._told_end()})

    def _told_end(self) -> dict[str, object]:
        assert self._end is not None
        return {**self._end, "ended_at": self.to_daemons(self._ended_at)}

    def _exit(self) -> None:
        self.phase = Exited()
        self._say(Exit())

    # Time ----------------------------------------------------------------------------------------

    def _is_promising(self) -> bool:
        return self._promised_until is not None and self._now < self._promised_until

    def _phase_dues(self) -> list[float]:
        phase = self.phase
        if isinstance(phase, Holding):
            dues = [min(self.lease_until(), self._hold_until)]
            if self._promised_until is not None:
                dues = [self._promised_until]
            if self._open_at is not None:
                dues.append(self._open_at)
            return dues
        if isinstance(phase, Running):
            return [phase.wall_until, self.lease_until()]
        if isinstance(phase, Ending):
            return [phase.look_at]
        return [phase.until] if isinstance(phase, Over) else []

    def _tick(self) -> None:
        """All that is due by now; called after every event."""
        self._tick_connection()
        phase = self.phase
        if isinstance(phase, Holding):
            self._tick_holding()
        elif isinstance(phase, Running):
            self._tick_running(phase)
        elif isinstance(phase, Over) and self._now >= phase.until:
            self._exit()
        if isinstance(self.phase, Ending) and self._now >= self.phase.look_at:
            self._look_again(self.phase)

    def _tick_connection(self) -> None:
        for number in [n for n, q in self._questions.items() if q.until <= self._now]:
            self._give_up(number)
        if self._is_connected and self._now >= self._ping_at:
            self._ping()
        elif not self._is_connected and self._now >= self._dial_at:
            self._dial_at = self._now + DIAL_LIMIT_S
            self._say(Dial())

    def _tick_running(self, phase: Running) -> None:
        if self._now >= self.lease_until():
            self._begin_end("lease", "no ping was answered within the run lease")
        elif self._now >= phase.wall_until:
            limit_s = self._settings.wall_time_s
            self._begin_end("wall-time", f"the job's limit of {limit_s:g} s")

    def _tick_holding(self) -> None:
        now = self._now
        arming = self.arming
        if self._promised_until is not None and arming is not None:
            if now >= self._promised_until:
                self._begin_end("late", "armed, and no Release came in time")
            elif self._open_at is not None and now >= self._open_at:
                self._open(arming.until)
        elif now >= self.lease_until():
            self._begin_end("lease", "no ping was answered within the hold lease")
        elif now >= self._hold_until:
            self._begin_end("hold", f"held for {self._settings.hold_s:g} s")
        elif self._open_at is not None and now >= self._open_at:
            self._open(self._hold_until)

    def _open(self, not_after: float) -> None:
        """The one place that opens the barrier; whatever comes of it, it is not tried again."""
        if self._is_open_due:
            self._is_open_due = False
            self._open_at = None
            self._say(Open(not_after=min(not_after, self.lease_until())))

    def _look_again(self, phase: Ending) -> None:
        self.phase = Ending(
            kind=phase.kind,
            reason=phase.reason,
            kill_at=phase.kill_at,
            look_at=self._now + LOOK_S,
            is_dismissed=phase.is_dismissed,
        )
        self._say(Look())

    def _ping(self) -> None:
        lease_s = self._hold_lease_s if self.passed_at is None else self._run_lease_s
        self._ping_at = self._now + min(PING_MAX_S, lease_s / PINGS_A_LEASE)
        if self._is_connected:
            self._say(Send(message={"kind": "ping", "sent_at": self._now}))

    def _tell(self, message: dict[str, object]) -> None:
        """What a hello would say as well is said only to an agent that is there."""
        if self._is_connected:
            self._say(Send(message=message))

    def _say(self, action: Action) -> None:
        self._actions.append(action)


def _refusal(event: Asked, questions: int) -> str:
    if questions >= QUESTIONS_MAX:
        return f"{questions} requests are under way: no more are taken"
    try:
        name_size, size = len(event.name.encode()), len((event.value or "").encode())
    except UnicodeEncodeError:  # JSON can say half a pair of surrogates, nothing after us can
        return f"the name or value of {event.name!r} is no text that UTF-8 can hold"
    if not 1 <= name_size <= NAME_MAX_BYTES:
        return f"a name has 1 to {NAME_MAX_BYTES} bytes"
    if size > VALUE_MAX_BYTES:
        return f"the value of {event.name!r} has {size} bytes: {VALUE_MAX_BYTES} are allowed"
    return ""


def _status_text(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"


def _number(message: dict[str, object], key: str) -> float:
    """Raises ValueError for anything but a number."""
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ValueError(f"{key} = {value!r} is no number")
    return value


def _arm_number(message: dict[str, object]) -> tuple[int, int]:
    """Raises ValueError for anything but [epoch, counter]."""
    value = message.get("number")
    if isinstance(value, list) and len(value) == 2:
        epoch, counter = value
        if isinstance(epoch, int) and isinstance(counter, int):
            return epoch, counter
    raise ValueError(f"number = {value!r} is not [epoch, counter]")


def _paths(message: dict[str, object]) -> TryPaths:
    """Raises ValueError for anything but ports and targets."""
    listens, targets = message.get("listens"), message.get("targets")
    if not isinstance(listens, list) or not isinstance(targets, list):
        raise ValueError(f"{listens!r} and {targets!r} are no lists")  # noqa: TRY004 - as all here
    for port in [*listens, *(target[2] for target in targets if _is_target(target))]:
        if not isinstance(port, int) or not 1 <= port <= 65_535:
            raise ValueError(f"{port!r} is no port")
    if not all(_is_target(target) for target in targets):
        raise ValueError(f"targets = {targets!r}: allowed are [label, address, port, claim]")
    return TryPaths(
        label=str(message.get("label", "")),
        address=str(message.get("address", "")),
        listens=listens,
        targets=[(label, address, port, claim) for label, address, port, claim in targets],
        limit_s=_number(message, "limit_s"),
    )


def _is_target(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(isinstance(value[index], str) for index in (0, 1, 3))


# The carrier -------------------------------------------------------------------------------------

KV_LINE_MAX_BYTES = 64 * 1024
SOCKET_PATH_MAX_BYTES = 107
KV_CONNECTIONS_MAX = 512
WAIT_MAX_S = 3600.0
OUTBOX_MAX_BYTES = 4 * 1024 * 1024
PR_SET_CHILD_SUBREAPER = 36
STATE_FOLDER = ".koala"
SITE_SIGNALS = ("SIGTERM", "SIGINT", "SIGXCPU")


def boot_now() -> float:
    """Seconds since the machine started, suspends included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Program:
    """What to run, from the specification, and what must be true of it before the check-in."""

    def __init__(self, spec: dict[str, object]) -> None:
        self.folder = str(spec["folder"])
        self.state_folder = os.path.join(self.folder, STATE_FOLDER)
        self.directory = os.path.join(self.folder, str(spec["directory"]))
        self.arguments = _texts(spec["arguments"])
        self.processes = _count(spec["processes"])
        self.hosts = allocation(str(spec["manager"]), os.environ)
        self.helpers = helpers(spec, self.hosts)
        self.mains = len(self.helpers) or self.processes
        self.cpu_time_s = _number(spec, "cpu_time_s")
        self.memory_max_mb = _number(spec, "memory_max_mb")
        self.environment = dict(os.environ)
        self.environment.update(_pairs(spec["environment"]))
        self.environment["KOALA_CLAIM"] = str(spec["claim"])
        self.solo = _object(spec["bundle"])
        if self.hosts:  # nobody tells it when it meets nobody
            for member in _list(self.solo["members"]):
                names, counts = ([host[i] for host in self.hosts] for i in (0, 1))
                _object(member).update(hosts=names, slots=counts)
        self.open_files = 1024
        self._executable = str(spec["executable"])
        self._streams = [str(spec[name]) for name in ("stdin", "stdout", "stderr")]
        if spec["input"]:
            self.environment["KOALA_INPUT"] = str(spec["input"])
        self.path = self._find()

    def problem(self) -> str:
        """Why the program cannot be started here; empty when nothing is known against it."""
        stdin = self.stream(0, 0)
        if not os.path.isdir(self.directory):
            return f"{self.directory}: no such directory"
        if not self.path:
            where = self.environment.get("PATH", "")
            return f"{self._executable}: not found in PATH={where}"
        if not os.path.isfile(self.path):
            return f"{self.path}: {os.strerror(errno.ENOENT)}"
        if not os.access(self.path, os.X_OK):
            return f"{self.path}: {os.strerror(errno.EACCES)}"
        if not os.access(stdin, os.R_OK):
            return f"standard input {stdin} cannot be read"
        return ""

    def command(self, main: int) -> list[str]:
        """What a main process becomes."""
        if self.helpers and self.helpers[main]:
            return [*_runners(), self.helpers[main][0], self.state_folder, *self.helpers[main][1:]]
        return [self.path, *self.arguments]

    def process_of(self, main: int) -> int:
        """Whose environment and files a main process has."""
        return main if self.mains == self.processes else 0

    def stream(self, number: int, process: int) -> str:
        """The file of a process's standard input (0), output (1) or error (2)."""
        name = self._streams[number]
        if number == 0:
            return os.path.join(self.directory, name) if name else os.devnull
        if not name:
            kind = "stdout" if number == 1 else "stderr"
            return os.path.join(self.folder, f"{kind}.{process}")
        path = os.path.join(self.directory, name)
        return path if self.processes == 1 else f"{path}.{process}"

    def _find(self) -> str:
        name = self._executable
        if "/" in name:
            return os.path.join(self.directory, name)
        for folder in self.environment.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(self.directory, folder or ".", name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return ""


def allocation(manager: str, environment: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """The machines of this batch job, ours first, each with its processors; none where the manager
    does not tell. An emulated one may itself run inside somebody's batch job: it tells nothing."""
    if manager == "slurm":
        try:
            names = expand_names(environment.get("SLURM_JOB_NODELIST", ""))
            counts = expand_counts(environment.get("SLURM_TASKS_PER_NODE", ""))
        except ValueError as error:  # words of a version to come: all runs here, as it can
            _log(f"the machines of this batch job cannot be read: {error}")
            return ()
        return tuple(zip(names, counts, strict=True)) if len(names) == len(counts) else ()
    if manager == "gridengine":
        rows = _read_quietly(environment.get("PE_HOSTFILE", "")).decode("utf-8", "replace")
        fields = [row.split() for row in rows.splitlines()]
        return tuple((row[0], int(row[1])) for row in fields if len(row) > 1 and row[1].isdigit())
    return ()


def expand_names(text: str) -> list[str]:
    """Slurm's short form of names: `a[1-3,07],b` are a1, a2, a3, a07 and b."""
    words = [""]
    depth = 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    names: list[str] = []
    for word in words:
        start, bracket, rest = word.partition("[")
        ranges, _bracket, end = rest.partition("]")
        if not bracket:
            names += [word] if word else []
            continue
        for part in ranges.split(","):
            low, _dash, high = part.partition("-")
            numbers = range(int(low), int(high or low) + 1)
            for number in numbers:
                names += expand_names(f"{start}{number:0{len(low)}d}{end}")
    return names


def expand_counts(text: str) -> list[int]:
    """Slurm's short form of numbers: `4(x2),3` are 4, 4 and 3."""
    counts: list[int] = []
    for word in text.split(",") if text else []:
        count, _bracket, times = word.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts


def helpers(spec: dict[str, object], hosts: tuple[tuple[str, int], ...]) -> list[tuple[str, ...]]:
    """What runs as main processes instead of the program: verbs of `runners.py`, empty ones being
    the program after all. None where all processes are forked here.

    One `srun` starts all ranks of a component; Grid Engine starts one process at a time.
    """
    processes = _count(spec["processes"])
    if spec["job_type"] == "mpi":
        nodes = len(hosts) or 1
        return [("lead",), *(("node", str(node)) for node in range(nodes))]
    if processes == 1 or len(hosts) < 2:
        return []
    if spec["manager"] == "slurm":
        return [("spread",)]
    here = min(processes, hosts[0][1])
    return [()] * here + [("remote", str(process)) for process in range(here, processes)]


def machines(member: dict[str, object]) -> list[int]:
    """How many processes of a member run on each machine that has any, filled one by one."""
    left = _count(member["processes"])
    counts = []
    for slots in _list(member["slots"]):
        count = min(left, _count(slots))
        if count > 0:
            counts.append(count)
        left -= count
    if left:  # more processes than processors: the last machine has them
        counts = [*counts[:-1], (counts[-1] if counts else 0) + left]
    return counts


def rendezvous(bundle: dict[str, object], process: int) -> dict[str, str]:
    """What a process learns of the bundle from its environment. A node is a machine that runs
    processes of the job."""
    members = [_object(member) for member in _list(bundle["members"])]
    index = _count(bundle["index"])
    master = _object(bundle["master"])
    first = sum(_count(member["processes"]) for member in members[:index])
    nodes = [machines(member) for member in members]
    local, node = process, 0
    while node + 1 < len(nodes[index]) and local >= nodes[index][node]:
        local -= nodes[index][node]
        node += 1
    return {
        "KOALA_JOB": str(bundle["job"]),
        "KOALA_ATTEMPT": str(bundle["attempt"]),
        "KOALA_COMPONENT": str(members[index]["component"]),
        "KOALA_LABEL": str(bundle["label"]),
        "KOALA_PROCESS": str(process),
        "MASTER_ADDR": str(master["address"]),
        "MASTER_PORT": str(master["port"]),
        "NNODES": str(sum(len(counts) for counts in nodes)),
        "NODE_RANK": str(sum(len(counts) for counts in nodes[:index]) + node),
        "WORLD_SIZE": str(bundle["world_size"]),
        "RANK": str(first + process),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(nodes[index][node]),
    }


class Processes:
    """The program's processes: forked, blocked on a pipe each, let go, watched, ended.

    The blocked ones are forks of this interpreter that wait for lines: an environment to add, any
    number of times, and "go". When this process dies they read the end of the pipe, and exit.
    """

    def __init__(self, program: Program, nonce: str) -> None:
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self._program = program
        self._nonce = nonce
        self._pids: dict[int, int] = {}
        self._go: dict[int, int] = {}
        self._environments: dict[int, dict[str, str]] = {}
        self._is_subreaper = False
        self.trouble, self._trouble_in = os.pipe()
        os.set_blocking(self.trouble, False)

    def fork(self) -> None:
        """Forks what is missing. Raises OSError when the machine has no room for a process."""
        if not self._is_subreaper:
            self._is_subreaper = become_subreaper()
            self._program.open_files = _raise_open_files(2 * self._program.mains + 1024)
        for index in range(self._program.mains):
            if index in self._go:
                continue
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                _child(self._program, index, reading, self._trouble_in)
            os.close(reading)
            self._pids[pid] = index
            self._go[index] = writing
            if index in self._environments:
                self._write(index, {"environment": self._environments[index]})

    def prepare(self, environments: list[dict[str, str]]) -> None:
        """Hands every blocked process what to add to its environment."""
        for index, environment in enumerate(environments):
            self._environments[index] = environment
            if index in self._go:
                self._write(index, {"environment": environment})

    def go(self) -> None:
        """Lets all go."""
        for writing in self._go.values():
            _write_quietly(writing, b"go\n")
        for writing in self._go.values():
            os.close(writing)
        self._go.clear()

    def reap(self) -> list[tuple[int, int]]:
        """(index, status) of main processes that have ended; all others that ended are reaped."""
        ended = []
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self.cpu_s += used.ru_utime + used.ru_stime
            self.memory_bytes = max(self.memory_bytes, used.ru_maxrss * 1024)
            index = self._pids.pop(pid, None)
            if index is not None:
                writing = self._go.pop(index, None)
                if writing is not None:
                    os.close(writing)
                ended.append((index, os.waitstatus_to_exitcode(status)))
        return ended

    def troubles(self) -> list[str]:
        """What processes said that could not become the program."""
        try:
            return os.read(self.trouble, 65536).decode("utf-8", "replace").splitlines()
        except BlockingIOError:
            return []

    def left(self) -> list[int]:
        """All living processes that were started here, however they left the tree."""
        if self._is_subreaper and not self._program.helpers and _has_no_child():
            return []  # what a batch system started for helpers is nobody's child here
        return _find_tree(self._nonce)

    def signal(self, number: int) -> None:
        """Sends a signal to all that is left."""
        for pid in self.left():
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone already; or set-uid, which only the site can end

    def _write(self, index: int, message: dict[str, object]) -> None:
        _write_quietly(self._go[index], json.dumps(message).encode() + b"\n")


def _child(program: Program, index: int, reading: int, trouble: int) -> NoReturn:
    """The forked process: gets ready, waits for "go", becomes the program. Never returns."""
    what = "fork"
    try:
        signal.set_wakeup_fd(-1)
        for name in (*SITE_SIGNALS, "SIGCHLD", "SIGHUP", "SIGPIPE"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        reading, trouble = _keep_only(reading, trouble)
        what = program.directory
        os.chdir(what)
        for number, flags in ((0, os.O_RDONLY), (1, _OUTPUT), (2, _OUTPUT)):
            what = program.stream(number, program.process_of(index))
            opened = os.open(what, flags, 0o666)
            os.dup2(opened, number)
            os.close(opened)
        command = program.command(index)
        what = command[0]
        environment = dict(program.environment)
        if _wait_for_go(reading, environment):
            if what == program.path:
                limit(program)
            os.execve(what, command, environment)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        text = f"{what}: {why}".replace("\n", " ")
        os.write(trouble, text.encode("utf-8", "replace")[:1000] + b"\n")
    finally:
        os._exit(127)


_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def _keep_only(reading: int, trouble: int) -> tuple[int, int]:
    """Closes all that a fork inherits but these: siblings' pipes would keep siblings waiting."""
    top = max(reading, trouble, 64)
    low = [os.dup2(reading, top + 1, inheritable=False)]
    low += [os.dup2(trouble, top + 2, inheritable=False)]
    os.closerange(3, top + 1)
    os.closerange(top + 3, max(4096, top + 3))
    return low[0], low[1]


def _wait_for_go(reading: int, environment: dict[str, str]) -> bool:
    """Reads lines until "go"; False when the starter is gone."""
    buffer = b""
    while True:
        part = os.read(reading, 65536)
        if not part:
            return False
        buffer += part
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if line == b"go":
                return True
            environment.update(json.loads(line)["environment"])


def limit(program: Program) -> None:
    """Limits of a process, last thing before the program. Memory is what it may have for itself
    (RLIMIT_DATA): address space would forbid programs that only reserve it."""
    import resource  # noqa: PLC0415 - late: the check-in does not wait for it

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (program.open_files, hard))
    wanted = (
        (resource.RLIMIT_CPU, math.ceil(program.cpu_time_s)),
        (resource.RLIMIT_DATA, int(program.memory_max_mb * 1024 * 1024)),
    )
    for kind, limit in wanted:
        _soft, hard = resource.getrlimit(kind)
        if limit > 0:
            allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (allowed, hard))


def _raise_open_files(wanted: int) -> int:
    """Room for a pipe a process; answers the limit that programs are to have, the one before."""
    import resource  # noqa: PLC0415 - late: the check-in does not wait for it

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return soft


def become_subreaper() -> bool:
    """Orphans of our tree become our children; False where that is not to be had."""
    try:
        import ctypes  # noqa: PLC0415 - late: 5 ms, and the check-in does not wait for it

        libc = ctypes.CDLL(None)
        return bool(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _has_no_child() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _find_tree(nonce: str) -> list[int]:
    """Our descendants, and whoever carries our mark in its environment but our own ancestors.

    Not the claim: another daemon on this machine gives the same names to claims of its own.
    """
    parents = _parents()
    own = os.getpid()
    above = {own}
    pid = own
    while pid in parents and parents[pid] not in above:
        pid = parents[pid]
        above.add(pid)
    mark = f"{MARK}={nonce}\0".encode()
    others = [pid for pid in sorted(parents) if pid not in above]
    return [pid for pid in others if _descends(pid, own, parents) or _carries(pid, mark)]


def descendants() -> list[int]:
    """All living processes below this one."""
    parents, own = _parents(), os.getpid()
    return [pid for pid in sorted(parents) if pid != own and _descends(pid, own, parents)]


def _parents() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _read_quietly(f"/proc/{name}/stat")
            fields = stat[stat.rfind(b")") + 2 :].split()
            if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                parents[int(name)] = int(fields[1])
    return parents


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    for _ in range(len(parents)):
        if pid not in parents:
            return False
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _carries(pid: int, mark: bytes) -> bool:
    content = _read_quietly(f"/proc/{pid}/environ")
    return content.startswith(mark) or b"\0" + mark in content


def _read_quietly(path: str) -> bytes:
    """A file of /proc; empty when its process is gone or not ours to see."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _write_quietly(descriptor: int, data: bytes) -> None:
    """To a process that may have died: then its status says so."""
    try:
        os.write(descriptor, data)
    except BrokenPipeError:
        return


class Exchange:
    """The UNIX socket on which processes put and get values: one JSON line a request and answer."""

    def __init__(self, folder: str, nonce: str, watch: Watch) -> None:
        self._folder = ""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = self._bind(folder, nonce)
        self.asked: list[Asked] = []
        self._watch = watch
        self._callers: dict[int, _Caller] = {}
        self._numbers: dict[int, _Caller] = {}
        self._asked = 0
        self._socket.listen(64)
        self._socket.settimeout(0)
        watch.add(self._socket.fileno(), select.POLLIN, self._accept)

    def _bind(self, folder: str, nonce: str) -> str:
        """In the claim's folder if that is possible: the path has 107 bytes at most, and some file
        systems have no sockets. Raises OSError."""
        path = os.path.join(folder, "kv")
        if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
            try:
                self._socket.bind(path)
                return path
            except OSError as error:
                _log(f"{path}: {error.strerror}; a socket in /tmp instead")
        self._folder = f"/tmp/koala-{nonce}"
        os.mkdir(self._folder, 0o700)
        path = os.path.join(self._folder, "kv")
        self._socket.bind(path)
        return path

    def answer(self, question: int, answer: dict[str, object]) -> None:
        """Answers a question, and turns to the next line of the same caller."""
        caller = self._numbers.pop(question, None)
        if caller is not None:
            caller.is_waiting = False
            self._say(caller, answer)
            self._next(caller)

    def close(self) -> None:
        """Removes the socket and its folder."""
        self._socket.close()
        try:
            os.unlink(self.path)
            if self._folder:
                os.rmdir(self._folder)
        except OSError as error:
            _log(f"{self.path} cannot be removed: {error.strerror}")

    def _accept(self, _events: int) -> None:
        try:
            connection, _address = self._socket.accept()
        except OSError:
            return
        if len(self._callers) >= KV_CONNECTIONS_MAX:
            connection.close()
            return
        connection.settimeout(0)
        caller = _Caller(connection)
        self._callers[connection.fileno()] = caller
        self._watch.add(connection.fileno(), select.POLLIN, lambda _events: self._read(caller))

    def _read(self, caller: _Caller) -> None:
        try:
            part = caller.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part or len(caller.unread) > KV_LINE_MAX_BYTES:
            self._drop(caller)
            return
        caller.unread += part
        self._next(caller)

    def _next(self, caller: _Caller) -> None:
        """Takes the next line unless an answer is owed; answers keep the order of the requests."""
        while not caller.is_waiting and b"\n" in caller.unread:
            line, caller.unread = caller.unread.split(b"\n", 1)
            try:
                asked = self._parse(line)
            except (ValueError, RecursionError) as error:
                self._say(caller, {"ok": False, "error": str(error)})
                continue
            caller.is_waiting = True
            self._numbers[asked.question] = caller
            self.asked.append(asked)

    def _parse(self, line: bytes) -> Asked:
        """Raises ValueError that says what was wrong and what is allowed."""
        request = json.loads(line)
        if not isinstance(request, dict) or request.get("op") not in ("put", "get"):
            text = 'allowed is a JSON object with "op": "put" or "get"'
            raise ValueError(text)
        name = request.get("name")
        if not isinstance(name, str):
            raise ValueError(f"name = {name!r}: allowed is a text")  # noqa: TRY004 - one kind
        self._asked += 1
        if request["op"] == "put":
            value = request.get("value")
            if not isinstance(value, str):
                raise ValueError(f"value = {value!r}: allowed is a text")
            return Asked(question=self._asked, name=name, value=value)
        wait_s = _number(request, "wait_s") if "wait_s" in request else 30.0
        return Asked(question=self._asked, name=name, wait_s=max(0.0, min(wait_s, WAIT_MAX_S)))

    def _say(self, caller: _Caller, answer: dict[str, object]) -> None:
        try:
            caller.connection.send(json.dumps(answer).encode() + b"\n")
        except OSError:  # it does not read, or is gone
            self._drop(caller)

    def _drop(self, caller: _Caller) -> None:
        descriptor = caller.connection.fileno()
        if descriptor >= 0:
            self._watch.remove(descriptor)
            del self._callers[descriptor]
            caller.connection.close()
        caller.unread = b""


class _Caller:
    """A connection of a process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.unread = b""
        self.is_waiting = False


class Watch:
    """Which descriptors are waited for, and what is called."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def add(self, descriptor: int, events: int, call: Callable[[int], None]) -> None:
        """Waits for these events, instead of any waited for before."""
        self._calls[descriptor] = call
        self._poll.register(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Waits no more."""
        if self._calls.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def wait(self, wait_s: float | None) -> None:
        """Waits once and calls; poll knows milliseconds only, the rest is slept."""
        if wait_s is not None and 0 < wait_s < 0.001:
            time.sleep(wait_s)
            wait_s = 0.0
        ready = self._poll.poll(None if wait_s is None else int(max(0.0, wait_s) * 1000))
        for descriptor, events in ready:
            call = self._calls.get(descriptor)
            if call is not None:
                call(events)


class Line:
    """The TCP connection to the agent: one at a time, addresses in turn, nothing ever blocks."""

    def __init__(self, addresses: list[tuple[str, int]], watch: Watch) -> None:
        self.events: list[Event] = []
        self._addresses = addresses
        self._next = 0
        self._watch = watch
        self._socket: socket.socket | None = None
        self._unread = b""
        self._unsent = b""

    def dial(self) -> None:
        """Gives up what there is and connects to the next address."""
        self.close()
        host, port = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        try:
            family, kind, _proto, _name, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )[0]
            dialled = socket.socket(family, kind)
        except OSError as error:
            _log(f"agent at {host}:{port}: {error}")
            self.events.append(Disconnected())
            return
        dialled.settimeout(0)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialled.connect_ex(address)
        self._socket = dialled
        self._watch.add(dialled.fileno(), select.POLLOUT, self._connected)

    def send(self, message: dict[str, object]) -> None:
        """Queues a message; an agent that does not read is as good as gone."""
        if self._socket is None:
            return
        self._unsent += json.dumps(message).encode() + b"\n"
        if len(self._unsent) > OUTBOX_MAX_BYTES:
            self._lost("it does not read")
        else:
            self._flush()

    def close(self) -> None:
        """Hangs up, without an event."""
        if self._socket is not None:
            self._watch.remove(self._socket.fileno())
            self._socket.close()
        self._socket = None
        self._unread = self._unsent = b""

    def _connected(self, _events: int) -> None:
        assert self._socket is not None
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lost(os.strerror(error))
            return
        self._watch.add(self._socket.fileno(), select.POLLIN, self._ready)
        self.events.append(Connected())

    def _ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._flush()
        if self._socket is not None and events & ~select.POLLOUT:
            self._read(self._socket)

    def _read(self, connection: socket.socket) -> None:
        try:
            part = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error.strerror))
            return
        if not part:
            self._lost("it hung up")
            return
        *lines, self._unread = (self._unread + part).split(b"\n")
        if len(self._unread) > LINE_MAX_BYTES:
            self._lost("a line too long")
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                self.events.append(Received(message=message))
            else:
                _log("the agent said what is no JSON object")

    def _flush(self) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(self._unsent) if self._unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lost(str(error.strerror))
            return
        self._unsent = self._unsent[sent:]
        wanted = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._watch.add(self._socket.fileno(), wanted, self._ready)

    def _lost(self, reason: str) -> None:
        _log(f"agent lost: {reason}")
        self.close()
        self.events.append(Disconnected())


class Paths:
    """TCP paths that are tried: ports on which this component is to be reached, and others' ports.

    A listener says its claim as a line, so that nobody takes a stranger for it. A refusal is tried
    again until the limit, because the other end may not listen yet. Whoever dials hangs up first,
    and what is left is reset: else the program would find its port waiting for a closed connection.
    """

    def __init__(self, order: TryPaths, claim: str, watch: Watch) -> None:
        self.events: list[Event] = []
        self._order = order
        self._word = f"koala {claim}\n".encode()
        self._watch = watch
        self._until = boot_now() + order.limit_s
        self._again_at: dict[int, float] = {}  # by target, when it is dialled
        self._open = dict.fromkeys(range(len(order.targets)), f"no answer in {order.limit_s:g} s")
        self._sockets: dict[int, socket.socket] = {}
        self._is_over = False
        for port in order.listens:
            try:
                self._listen(port)
            except OSError as error:
                taken = error.errno == errno.EADDRINUSE
                why = "is taken" if taken else f"cannot be listened on: {error.strerror or error}"
                self._over(f"{order.label}: port {port} {why}")
                return
        for index in self._open:
            self._again_at[index] = 0.0
        self.tick()

    @property
    def wake_at(self) -> float | None:
        """When `tick` is wanted."""
        return min([self._until, *self._again_at.values()]) if self._open else None

    def tick(self) -> None:
        """Dials what is due; gives up at the limit."""
        now = boot_now()
        for index in [i for i, at in self._again_at.items() if at <= now]:
            del self._again_at[index]
            self._dial(index)
        if self._open and now >= self._until:
            self._over(self._reason(*next(iter(self._open.items()))))
        elif not self._open and not self._is_over:
            self._over("")

    def close(self) -> None:
        """Nothing is left of it."""
        for descriptor in list(self._sockets):
            self._hang_up(descriptor, is_reset=True)
        self._open.clear()
        self._again_at.clear()

    def _over(self, problem: str) -> None:
        """Tells what came of it, once; the ports of one whose paths are open stay open."""
        if problem:
            self.close()
        self._is_over = True
        self._open.clear()
        self._again_at.clear()
        self.events.append(Tried(problem=problem))

    def _reason(self, index: int, why: str) -> str:
        label, _address, port, _claim = self._order.targets[index]
        return f"{self._order.label} -> {label}:{port} {why}"

    # The ports of this component

    def _listen(self, port: int) -> None:
        listener = _listener(self._order.address, port)
        listener.settimeout(0)
        self._sockets[listener.fileno()] = listener
        self._watch.add(listener.fileno(), select.POLLIN, lambda _events: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        try:
            caller, _address = listener.accept()
            caller.settimeout(0)
            self._sockets[caller.fileno()] = caller
            caller.send(self._word)
        except OSError:  # it is gone already; or too many are here, and it will try again
            return
        self._watch.add(caller.fileno(), select.POLLIN, lambda _events: self._left(caller))

    def _left(self, caller: socket.socket) -> None:
        """It hung up; what it may have said means nothing."""
        self._hang_up(caller.fileno())

    # The ports of others

    def _dial(self, index: int) -> None:
        _label, host, port, _claim = self._order.targets[index]
        try:
            family, kind, _proto, _name, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )[0]
            dialled = socket.socket(family, kind)
        except OSError as error:
            self._missed(index, str(error.strerror or error))
            return
        dialled.settimeout(0)
        self._sockets[dialled.fileno()] = dialled
        dialled.connect_ex(address)
        self._watch.add(
            dialled.fileno(), select.POLLIN, lambda _events: self._answered(index, dialled)
        )

    def _answered(self, index: int, dialled: socket.socket) -> None:
        """A listener speaks first, so one word is all that there is to wait for."""
        try:
            said = dialled.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            refused = error.errno == errno.ECONNREFUSED
            self._hang_up(dialled.fileno())
            self._missed(index, "refused" if refused else str(error.strerror or error).lower())
            return
        self._hang_up(dialled.fileno())
        if not said:
            self._missed(index, "was hung up")
        elif said == f"koala {self._order.targets[index][3]}\n".encode():
            self._open.pop(index, None)
            self.tick()
        elif said.startswith(b"koala "):  # of an earlier attempt, perhaps, and about to go
            self._missed(index, "was answered by another component")
        else:
            self._over(self._reason(index, "was answered by somebody else"))

    def _missed(self, index: int, why: str) -> None:
        if index in self._open:
            self._open[index] = why
            self._again_at[index] = boot_now() + PATH_AGAIN_S

    def _hang_up(self, descriptor: int, *, is_reset: bool = False) -> None:
        connection = self._sockets.pop(descriptor)
        self._watch.remove(descriptor)
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()


def _listener(address: str, port: int) -> socket.socket:
    """At the component's own address where that is a number of this machine, as the program may be
    reached there beside others; else at all of them."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
            return socket.create_server((address, port), family=family)
        except OSError as error:
            if error.errno not in (None, errno.EADDRNOTAVAIL):
                raise
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


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
        agents = [_list(agent) for agent in _list(spec["agents"])]
        addresses = [(str(host), _count(port)) for host, port in agents]
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
                _log(f"the agent said what cannot be meant: {error}")
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
            self._paths = Paths(action, self._claim, self._watch)
        elif isinstance(action, ClosePaths):
            if self._paths is not None:
                self._paths.close()
            self._paths = None
        elif isinstance(action, Exit):
            self._is_over = True
        elif isinstance(action, WriteEnd):
            _log(f"ended: {json.dumps(action.end)}")
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
        return []

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
            _log(f"{path} cannot be written: {error}")  # the agent is told all the same
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
        hold_s=_number(spec, "hold_s"),
        hold_lease_s=_number(spec, "hold_lease_s"),
        run_lease_s=_number(spec, "run_lease_s"),
        kill_s=_number(spec, "kill_s"),
        wall_time_s=_number(spec, "wall_time_s"),
        no_barrier=bool(spec["no_barrier"]),
    )


def _runners() -> list[str]:
    """How the file beside this one is run: as this one was."""
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    return [sys.executable, "-I", "-S", os.path.join(folder, name.replace("starter", "runners"))]


def _object(value: object) -> dict[str, object]:
    assert isinstance(value, dict), value
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list), value
    return value


def _texts(value: object) -> list[str]:
    return [str(text) for text in _list(value)]


def _pairs(value: object) -> list[tuple[str, str]]:
    return [(name, text) for name, text in (_texts(pair) for pair in _list(value))]


def _count(value: object) -> int:
    assert isinstance(value, int), value
    return value


def _log(text: str) -> None:
    """Standard error goes to the batch job's own output file."""
    os.write(2, f"{boot_now():.3f} {text}\n".encode("utf-8", "replace"))


def main(arguments: list[str]) -> int:
    """Runs the starter of one claim; the exit status says nothing, the end does."""
    with open(arguments[1], "rb") as file:
        spec = json.load(file)
    Carrier(spec, os.urandom(12).hex()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
