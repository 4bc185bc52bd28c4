"""All or none, seen from one starter: whatever comes in whatever order, three things never happen.

It passes without the Release that matches its latest Arm, it aborts between Armed and D by itself,
and it passes twice. A model beside the machine holds what the design says, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from koala_agent.starter.events import (
    Connected,
    CountProcesses,
    Disconnected,
    Exit,
    Fork,
    NodeLost,
    Open,
    Opened,
    ProcessEnded,
    ProcessesCounted,
    Ready,
    Received,
    Send,
    Settings,
    SiteSignalled,
    TooLate,
    Unexecutable,
    Woken,
)
from koala_agent.starter.state_machine.phases import Holding
from koala_agent.starter.state_machine.starter import StarterMachine
from tests.harness.properties import holds_for

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

OFFSET_S = 100.0


def received(kind: str, **fields: object) -> Received:
    return Received(message={"kind": kind, **fields})


def an_arm(epoch: int, counter: int, in_s: float, late_s: float) -> Received:
    number = [epoch, counter]
    return received(
        "arm", number=number, release_at=OFFSET_S + 10.0 + in_s, late_s=late_s, bundle={}
    )


numbers = st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1)])
releases = numbers.map(lambda number: received("release", number=list(number)))
adopted = st.just(received("adopted", hold_lease_s=20.0, run_lease_s=40.0, kill_s=1.0))
pongs = st.floats(0, 60).map(lambda at: received("pong", sent_at=at, now=at + OFFSET_S))
mild = st.sampled_from(
    [Connected(), Disconnected(), Woken(), Ready(), ProcessEnded(index=0, status=0)]
)
grave = st.sampled_from(
    [
        received("stop"),
        received("dismissed", reason="x"),
        received("noted"),
        SiteSignalled(reason="SIGTERM"),
        Unexecutable(reason="no"),
        NodeLost(kind="vanished", reason="no"),
        ProcessEnded(index=1, status=1),
    ]
)
noise: st.SearchStrategy[Event] = st.one_of(
    pongs, mild, releases, st.one_of(mild, mild, adopted, grave)
)
gaps = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5])


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[float, Event]]:
    """Arms, most of them followed by a Release that most often matches, and noise between."""
    script: list[tuple[float, Event]] = []
    for _ in range(draw(st.integers(1, 5))):
        number = draw(numbers)
        late_s = draw(st.sampled_from([0.5, 2.0, 5.0, 10.0, 100.0]))
        in_s = draw(st.sampled_from([-20.0, -8.0, -5.0, -2.0, 5.0]))
        script.append((draw(gaps), an_arm(*number, in_s, late_s)))
        if draw(st.integers(0, 2)):
            other = draw(st.one_of(st.just(number), numbers))
            script.append((draw(gaps), received("release", number=list(other))))
        if draw(st.booleans()):
            script.append((draw(gaps), draw(noise)))
    return script


class Model:
    """Follow the design of the barrier: the latest Arm heard, what was promised, releases."""

    def __init__(self) -> None:
        self.latest: tuple[int, int] | None = None
        self.heard: dict[tuple[int, int], float] = {}  # D, by number, since its receipt
        self.until: dict[tuple[int, int], float] = {}  # the same, of what was answered
        self.released: list[tuple[int, int]] = []
        self.passes = 0
        self.is_ready = False

    def hear(
        self,
        event: Event,
        actions: list[Action],
        now: float,
        *,
        is_holding: bool,
        lease_until: float,
    ) -> None:
        if isinstance(event, Received) and event.message["kind"] == "arm" and is_holding:
            number = _number(event)
            if self.latest is None or number >= self.latest:
                self.latest = number
                late_s = event.message["late_s"]
                assert isinstance(late_s, float)
                self.heard[number] = now + late_s
        self.is_ready = self.is_ready or isinstance(event, Ready)
        if isinstance(event, Received) and event.message["kind"] == "release":
            self.released.append(_number(event))
        for action in actions:
            if isinstance(action, Send) and action.message["kind"] == "armed":
                told = action.message["number"]
                assert isinstance(told, list)
                number = (told[0], told[1])
                until = self.until.setdefault(number, self.heard[number])
                assert lease_until > until, "promised beyond its lease"
                assert now < until, "promised what is over"
                assert self.is_ready, "promised before its processes were ready"

    def is_promised(self, now: float) -> bool:
        return any(now < until for until in self.until.values())


def _number(event: Received) -> tuple[int, int]:
    number = event.message["number"]
    assert isinstance(number, list)
    return number[0], number[1]


def may_end_an_armed(event: Event) -> bool:
    """The daemon's Stop, the site's signal: all that may end a starter between Armed and D."""
    if isinstance(event, Received):
        return event.message["kind"] in ("stop", "dismissed")
    return isinstance(event, SiteSignalled | TooLate)


def answers(actions: list[Action], at: float, slip_s: float, *, is_quick: bool) -> list[Event]:
    """Play the world's answers to actions; a slip is a pause just before the last look at the
    clock. Processes of one machine are forked at once, those of others some time later."""
    events: list[Event] = []
    for action in actions:
        if isinstance(action, Open):
            is_late = at + slip_s > action.not_after
            events.append(TooLate() if is_late else Opened(at=at + slip_s))
        elif isinstance(action, CountProcesses):
            events.append(ProcessesCounted(left=0))
        elif isinstance(action, Fork) and is_quick:
            events.append(Ready())
    return events


def run(
    script: list[tuple[float, Event]], *, slip_s: float = 0.0, is_quick: bool = True
) -> StarterMachine:
    its = Settings(
        claim="j1/1/0/1",
        secret="",
        nonce="n",
        processes=2,
        hold_s=45.0,
        hold_lease_s=20.0,
        run_lease_s=40.0,
        kill_s=1.0,
    )
    machine = StarterMachine(its, now=0.0, wall_offset_s=OFFSET_S)
    model, now = Model(), 0.0
    for step_s, event in script:
        wake_at = machine.wake_at
        if wake_at is not None and wake_at < now + step_s:
            now = max(now, wake_at)
            take(machine, model, Woken(), now, slip_s, is_quick=is_quick)
        now += step_s
        take(machine, model, event, now, slip_s, is_quick=is_quick)
    while isinstance(machine.phase, Holding) and machine.wake_at is not None:
        now = max(now, machine.wake_at)  # nobody says anything more: its lease runs out
        take(machine, model, Woken(), now, slip_s, is_quick=is_quick)
    return machine


def take(
    machine: StarterMachine,
    model: Model,
    event: Event,
    now: float,
    slip_s: float,
    *,
    is_quick: bool,
) -> None:
    events = [event]
    while events:
        event = events.pop(0)
        was_holding = isinstance(machine.phase, Holding)
        was_promised = model.is_promised(now)
        actions = machine.handle(event, now)
        lease_until = machine.lease_until()
        model.hear(event, actions, now, is_holding=was_holding, lease_until=lease_until)
        if isinstance(event, Opened):
            model.passes += 1
            number = model.latest
            assert number is not None
            assert number in model.released, "passed without a matching Release"
            assert event.at <= model.until[number], "passed after D"
        has_left = was_holding and not isinstance(machine.phase, Holding)
        if has_left and was_promised and not isinstance(event, Opened):
            assert may_end_an_armed(event), f"aborted while armed, by {event}"
        assert model.passes <= 1, "passed twice"
        assert sum(isinstance(action, Open) for action in actions) <= 1
        if Exit() in actions:
            assert not isinstance(machine.phase, Holding)
        events += answers(actions, now, slip_s, is_quick=is_quick)


@holds_for(rounds(), st.sampled_from([0.0, 0.0, 0.4, 3.0]), st.booleans(), few=100, many=1_500)
def test_a_starter_keeps_its_promises(
    script: list[tuple[float, Event]], slip_s: float, is_quick: bool
) -> None:
    leases = {"hold_lease_s": 20.0, "run_lease_s": 40.0, "kill_s": 1.0}
    began: list[tuple[float, Event]] = [(0.0, Connected()), (0.0, received("adopted", **leases))]
    run([*began, *script], slip_s=slip_s, is_quick=is_quick)


@given(rounds())
def test_a_starter_that_was_never_adopted_never_passes(script: list[tuple[float, Event]]) -> None:
    unadopted = [
        (step_s, event)
        for step_s, event in script
        if not (isinstance(event, Received) and event.message["kind"] == "adopted")
    ]
    assert run(unadopted).passed_at is None


def test_the_scripts_reach_the_other_side_of_the_barrier() -> None:
    """Otherwise the properties would hold of nothing."""
    machine = run(
        [
            (0.0, Connected()),
            (0.0, received("adopted", hold_lease_s=20.0, run_lease_s=40.0, kill_s=1.0)),
            (1.0, an_arm(1, 1, -9.0, 2.0)),
            (0.5, received("release", number=[1, 1])),
        ]
    )
    assert machine.passed_at == 1.5


def test_processes_that_become_ready_late_are_armed_then() -> None:
    machine = run(
        [
            (0.0, Connected()),
            (0.0, received("adopted", hold_lease_s=20.0, run_lease_s=40.0, kill_s=1.0)),
            (1.0, an_arm(1, 1, -9.0, 2.0)),
            (0.5, Ready()),
            (0.5, received("release", number=[1, 1])),
        ],
        is_quick=False,
    )
    assert machine.passed_at == 2.0
