"""A helper on another machine: what it may do without the starter, which is nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from koala_agent.starter.events import (
    Connected,
    Dial,
    Disconnected,
    Exit,
    Fork,
    Open,
    Opened,
    Prepare,
    ProcessEnded,
    ProcessesCounted,
    Ready,
    Received,
    Send,
    Signal,
    SiteSignalled,
    TooLate,
    Woken,
)
from koala_agent.starter.node.state_machine import NodeMachine

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

AHEAD_S = 500.0
"""The starter's clock is this far ahead."""


@dataclass
class NodeScript:
    """A helper for processes 2 and 3, whose starter answers pings after `delay_s` each way."""

    delay_s: float = 0.01
    lease_until: float | None = 10_000.0
    machine: NodeMachine = field(
        default_factory=lambda: NodeMachine(secret="s", machine=1, now=0.0)
    )

    def tell(self, event: Event, at: float) -> list[Action]:
        return self.machine.handle(event, at)

    def hear(self, at: float, kind: str, **fields: object) -> list[Action]:
        return self.tell(Received(message={"kind": kind, **fields}), at)

    def pong(self, sent_at: float) -> list[Action]:
        """The answer to a ping of then."""
        return self.hear(
            sent_at + 2 * self.delay_s,
            "pong",
            sent_at=sent_at,
            now=sent_at + self.delay_s + AHEAD_S,
            lease_until=self.lease_until,
        )

    def begun(self) -> None:
        self.tell(Connected(), 0.0)
        actions = self.hear(0.0, "begin", kill_s=5.0, mains=[2, 3])
        assert Fork() in actions
        self.tell(Ready(), 0.0)
        self.pong(0.0)

    def running(self) -> None:
        self.begun()
        (opening,) = self.opens(self.hear(1.0, "go", not_after=AHEAD_S + 3.0))
        assert opening.not_after > 1.0
        self.tell(Opened(at=1.0), 1.0)

    @staticmethod
    def opens(actions: list[Action]) -> list[Open]:
        return [action for action in actions if isinstance(action, Open)]


def said(actions: list[Action]) -> Iterator[str]:
    for action in actions:
        if isinstance(action, Send):
            yield str(action.message["kind"])


def ends(actions: list[Action]) -> bool:
    return Signal(number=signal.SIGTERM) in actions


def test_it_dials_shows_its_secret_and_forks_what_it_is_told() -> None:
    script = NodeScript()
    assert script.tell(Woken(), 0.0) == [Dial()]
    (hello,) = script.tell(Connected(), 0.1)
    assert isinstance(hello, Send)
    assert hello.message == {"kind": "hello", "secret": "s", "machine": 1}
    assert Fork() in script.hear(0.1, "begin", kill_s=5.0, mains=[2, 3])
    assert list(said(script.tell(Ready(), 0.2))) == ["ready"]
    assert Prepare(bundle={"x": 1}) in script.hear(0.3, "prepare", bundle={"x": 1})


def test_a_starter_that_is_nowhere_is_looked_for_for_a_minute() -> None:
    script = NodeScript()
    for number in range(200):
        script.tell(Woken(), number / 4)
        script.tell(Disconnected(), number / 4 + 0.1)
    assert Exit() in script.tell(Woken(), 60.0)


def test_the_instant_of_opening_is_told_in_the_starters_time() -> None:
    script = NodeScript()
    script.begun()
    script.hear(1.0, "go", not_after=AHEAD_S + 3.0)
    (opened,) = script.tell(Opened(at=1.0), 1.0)
    assert isinstance(opened, Send)
    assert opened.message == {"kind": "opened", "at": AHEAD_S + 1.0}


def test_it_opens_once() -> None:
    script = NodeScript()
    script.running()
    assert not script.opens(script.hear(1.1, "go", not_after=AHEAD_S + 3.0))


def test_no_word_lets_processes_go_before_the_starters_clock_is_known() -> None:
    script = NodeScript()
    script.tell(Connected(), 0.0)
    script.hear(0.0, "begin", kill_s=5.0, mains=[2])
    (opening,) = script.opens(script.hear(1.0, "go", not_after=AHEAD_S + 1e6))
    assert opening.not_after < 0
    assert ends(script.tell(TooLate(), 1.0))


def test_it_ends_what_it_runs_when_the_line_is_lost() -> None:
    script = NodeScript()
    script.running()
    assert ends(script.tell(Disconnected(), 2.0))
    script.tell(ProcessesCounted(left=1), 2.0)
    assert Signal(number=signal.SIGKILL) in script.tell(Woken(), 7.0)
    assert Exit() in script.tell(ProcessesCounted(left=0), 7.1)


def test_it_ends_what_it_runs_at_the_end_of_the_lease_though_the_line_seems_to_live() -> None:
    script = NodeScript(lease_until=AHEAD_S + 40.0)
    script.running()
    due = script.machine.wake_at
    while due is not None and not ends(script.tell(Woken(), due)):
        assert due < 40.0
        due = script.machine.wake_at
    assert due is not None
    assert 39.0 < due <= 40.0


def test_the_sites_signal_ends_what_it_runs() -> None:
    script = NodeScript()
    script.running()
    actions = script.tell(SiteSignalled(reason="SIGTERM"), 2.0)
    assert ends(actions)
    assert list(said(actions)) == ["site"]


def test_what_is_left_is_told_until_nothing_is() -> None:
    script = NodeScript()
    script.running()
    assert list(said(script.tell(ProcessEnded(index=2, status=0), 2.0))) == ["ended"]
    script.tell(ProcessEnded(index=3, status=0), 2.0)
    assert list(said(script.tell(ProcessesCounted(left=1), 2.0))) == ["left"]
    assert script.machine.wake_at == 2.05
    assert list(said(script.tell(ProcessesCounted(left=0), 2.05))) == ["left"]
    assert Exit() in script.hear(3.0, "bye")


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=6),
    st.floats(-1e6, 1e6),
    st.floats(-0.0009, 0.0009),
    st.floats(0, 30),
    st.floats(-10, 40),
)
def test_it_never_opens_later_than_the_starter_allowed(
    delays: list[tuple[float, float]], ahead_s: float, drift: float, go_at: float, late_s: float
) -> None:
    """Whatever the delays of either way, the offset and the drift: the starter's own clock, which
    the helper does not see, has not passed `not_after` at the latest instant of opening."""

    def starters(at: float) -> float:
        return ahead_s + at * (1 + drift)

    machine = NodeMachine(secret="s", machine=1, now=0.0)
    machine.handle(Connected(), 0.0)
    begin = {"kind": "begin", "kill_s": 5.0, "mains": [0]}
    machine.handle(Received(message=begin), 0.0)
    at = 0.0
    for there_s, back_s in delays:
        pong = {"kind": "pong", "sent_at": at, "now": starters(at + there_s), "lease_until": None}
        at += there_s + back_s
        machine.handle(Received(message=pong), at)
    at += go_at
    not_after = starters(at) + late_s
    actions = machine.handle(Received(message={"kind": "go", "not_after": not_after}), at)
    (opening,) = NodeScript.opens(actions)
    assert opening.not_after < at or starters(opening.not_after) <= not_after + 1e-6
