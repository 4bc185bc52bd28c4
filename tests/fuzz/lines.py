"""The lines between starter and agent, both ends, and those of helpers and programs.

What a starter says is the most dangerous: a program can read its claim's secret and speak as its
starter, and what the agent believes of it goes to the daemon in the name of the whole site.
"""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

from koala_agent.claims.events import BatchEnded, BatchUnlisted, StarterLost
from koala_agent.lrm.local_manager import EndCause
from koala_agent.starter.events import (
    Connected,
    Disconnected,
    Ready,
    Received,
    Send,
    Settings,
    ValueRequested,
    Woken,
)
from koala_agent.starter.node.state_machine import NodeMachine
from koala_agent.starter.state_machine.starter import StarterMachine
from koala_agent.starter_link import listener as starters
from koala_agent.starter_link.codec import record_of
from tests.agent.claims.table_script import CLAIM
from tests.fuzz.hostile_values import spoilt_line, spoilt_object
from tests.fuzz.tables import NONCE, a_table, require_storable
from tests.fuzz.target import Target

END = {"kind": "exited", "reason": "", "statuses": [0], "cpu_s": 1.0, "memory_bytes": 5,
       "ended_at": 9.0}  # fmt: skip
TO_AGENT: tuple[dict[str, Any], ...] = (
    {"kind": "ping", "sent_at": 1.0},
    {"kind": "armed", "number": [1, 1]},
    {"kind": "tried", "problem": ""},
    {"kind": "progress", "cycle": 1, "work": 2.0, "is_told": True, "can_pace": True},
    {"kind": "passed", "passed_at": 5.0},
    {"kind": "ended", "end": END},
    {"kind": "put", "request": 1, "name": "a", "value": "b"},
    {"kind": "get", "request": 2, "name": "a", "wait_s": 1.0},
)
HELLO = {"kind": "hello", "claim": CLAIM, "nonce": NONCE, "secret": "s", "hosts": [["n1", 4]],
         "armed": [1, 1], "passed_at": 4.0, "end": END}  # fmt: skip
TO_STARTER: tuple[dict[str, Any], ...] = (
    {"kind": "adopted", "hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0},
    {"kind": "pong", "sent_at": 0.1, "now": 1.0},
    {"kind": "paths", "label": "a", "address": "h", "listens": [1024], "limit_s": 5.0,
     "targets": [["b", "h", 1025, "j1/1/1/1"]]},
    {"kind": "arm", "number": [1, 1], "release_at": 2.0, "late_s": 3.0, "bundle": {"x": 1}},
    {"kind": "release", "number": [1, 1], "release_at": 2.0},
    {"kind": "answer", "request": 1, "ok": True, "value": "v", "error": ""},
    {"kind": "pace", "share": 0.5},
    {"kind": "stop"},
    {"kind": "dismissed", "reason": "r"},
    {"kind": "noted"},
)  # fmt: skip
TO_HELPER: tuple[dict[str, Any], ...] = (
    {"kind": "begin", "mains": [0], "kill_s": 5.0, "spec": {}, "machine": 1, "hosts": []},
    {"kind": "pong", "sent_at": 0.1, "now": 1.0, "lease_until": 60.0},
    {"kind": "fork"},
    {"kind": "prepare", "bundle": {}},
    {"kind": "go", "not_after": 5.0},
    {"kind": "signal", "number": 15},
    {"kind": "answer", "question": 1, "answer": {}},
    {"kind": "deliver", "is_whole": True},
    {"kind": "bye"},
)


def _lines(random: Random, good: tuple[dict[str, Any], ...]) -> list[bytes]:
    """Good ones in any order, for nobody need keep to one, and spoilt ones; now and then many."""
    count = random.choice((1, 1, 2, 4, 8)) if random.randrange(50) else 300
    return [_line(random, random.choice(good)) for _ in range(count)]


def _line(random: Random, good: dict[str, Any]) -> bytes:
    return spoilt_line(random, good) if random.randrange(2) else json.dumps(good).encode()


# From a starter to its agent ----------------------------------------------------------------------


def a_starter_case(random: Random) -> list[bytes]:
    return [_line(random, HELLO), *_lines(random, (*TO_AGENT, HELLO))]


class _Peer:
    """The agent's side of one connection, as `Starters` drives it."""

    def __init__(self) -> None:
        self.table = a_table(is_bound=False)
        self._starters = starters.StarterListener(emit=self._told, secret=self.table.machine.secret)
        self.connection = self._starters.accept()
        self._starters.later = lambda _delay_s, _call: _Never()

    def _told(self, event: Any) -> None:
        require_storable(self.table.tell(event))


class _Never:
    def cancel(self) -> None:
        """Nothing comes."""


class _Transport:
    """Takes what is written, and can be hung up."""

    def __init__(self) -> None:
        self.is_over = False

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        self.is_over = True

    close = abort

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return ("10.0.0.1", 1)

    def pause_reading(self) -> None:
        """Nothing comes by itself here."""

    resume_reading = pause_reading


def check_starter(case: list[bytes]) -> None:
    """A line is believed, and then table, store and daemon can hold it; or it is refused."""
    peer = _Peer()
    peer.connection._transport = _Transport()  # type: ignore[assignment]
    for line in case:
        peer.connection.data_received(line + b"\n")
    peer.table.tell(StarterLost(claim=CLAIM, nonce=NONCE))


# What a starter, or a program in its place, wrote down --------------------------------------------


def a_record_case(random: Random) -> tuple[Any, Any]:
    passed = {"nonce": NONCE, "passed_at": 4.0}
    ended = {"nonce": NONCE, "end": spoilt_object(random, END)}
    return (
        random.choice((None, passed, spoilt_object(random, passed))),
        random.choice((None, ended, spoilt_object(random, ended))),
    )


def check_record(case: tuple[Any, Any]) -> None:
    record = record_of(*case)
    for cause in (EndCause.EXITED, EndCause.LOST):
        table = a_table()
        ended = BatchEnded(claim=CLAIM, cause=cause, exit_status=0, record=record)
        require_storable(table.tell(ended))
    require_storable(a_table().tell(BatchUnlisted(claim=CLAIM, record=record)))


# From the agent to its starter, and from the starter to its helpers -------------------------------


def an_agent_case(random: Random) -> list[bytes]:
    return _lines(random, TO_STARTER)


def check_agent(case: list[bytes]) -> None:
    """The starter goes on, whatever it hears; what it cannot mean is an error that is caught."""
    settings = Settings(
        claim=CLAIM, secret="s", nonce=NONCE, processes=1, hold_s=300.0, hold_lease_s=60.0,
        run_lease_s=600.0, kill_s=5.0,
    )  # fmt: skip
    machine = StarterMachine(settings, now=0.0, wall_offset_s=0.0)
    machine.handle(Connected(), 0.1)
    machine.handle(Received(message=dict(TO_STARTER[0])), 0.1)
    machine.handle(Ready(), 0.1)
    machine.handle(ValueRequested(question=1, name="a", wait_s=1.0), 0.1)
    _hear_all(machine, case)
    wake_at = machine.wake_at
    assert wake_at is None or not math.isnan(wake_at)


def a_helper_case(random: Random) -> list[bytes]:
    return _lines(random, TO_HELPER)


def check_helper(case: list[bytes]) -> None:
    machine = NodeMachine(secret="s", machine=1, now=0.0)
    machine.handle(Connected(), 0.1)
    _hear_all(machine, case)


def _hear_all(machine: StarterMachine | NodeMachine, lines: list[bytes]) -> None:
    now = 0.2
    for line in lines:
        now += 0.1
        message = _read(line)
        if message is not None:
            _hear(machine, message, now)
    machine.handle(Disconnected(), now)
    machine.handle(Woken(), now + 1.0)


def _read(line: bytes) -> dict[str, object] | None:
    """As `StreamFactory` reads a line."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _hear(machine: StarterMachine | NodeMachine, message: dict[str, object], now: float) -> None:
    """As `Driver` tells a machine; what it sends must have a line."""
    try:
        actions = machine.handle(Received(message=message), now)
    except ValueError:
        return
    for action in actions:
        if isinstance(action, Send):
            json.dumps(action.message)


TARGETS = (
    Target(name="starter-line", make=a_starter_case, check=check_starter),
    Target(name="starter-record", make=a_record_case, check=check_record),
    Target(name="agent-line", make=an_agent_case, check=check_agent),
    Target(name="helper-line", make=a_helper_case, check=check_helper),
)
