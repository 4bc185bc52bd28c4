"""The agent's end of a session: scripts of events and outputs, and any interleaving of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import strategies as st

from koala.common.protocol.messages import (
    Beat,
    Goodbye,
    InventoryEnd,
    Register,
    Reject,
    SiteFigures,
    WantedEnd,
    Watermark,
    Welcome,
)
from koala.common.protocol.versions import PROTOCOL
from koala_agent.link.session import Session, Timing
from koala_agent.link.session_events import (
    Apply,
    BeginSession,
    Closed,
    Cut,
    Dial,
    Dialled,
    Event,
    Finish,
    FromDaemon,
    HangUp,
    InventoryTaken,
    KeepWatermark,
    Order,
    Output,
    Received,
    Reported,
    Send,
    SiteChanged,
    StopOthers,
    StoreEpoch,
    TakeInventory,
    Woken,
)
from tests.harness.properties import holds_for


def welcome(epoch: int = 1, *, protocol: int = PROTOCOL) -> Welcome:
    return Welcome(
        epoch=epoch,
        protocol=protocol,
        hold_lease_s=60.0,
        run_lease_s=600.0,
        kill_s=5.0,
        now=0.0,
        relay="",
    )


def figures(idle: int, through: int = 0) -> SiteFigures:
    return SiteFigures(idle=idle, through=through, processors=8, local_processors=0, queued_jobs=0)


NO_AGE = (0.0, 0.0)


class SessionScript:
    """Tells a session events; every output that comes must be expected."""

    def __init__(self, *, epoch: int = 0, timing: Timing | None = None) -> None:
        self.now = 100.0
        self.session = Session(
            epoch=epoch, timing=timing or Timing(), random=Random(1), now=self.now
        )

    def tell(self, event: Event, *expected: Output) -> None:
        assert self.session.handle(event, self.now) == list(expected)

    def receive(self, message: FromDaemon, *expected: Output) -> None:
        self.tell(Received(connection=self.session.connection, message=message), *expected)

    def wake(self, *expected: Output) -> None:
        assert self.session.wake_at is not None
        self.now = max(self.now, self.session.wake_at)
        self.tell(Woken(), *expected)

    def register(self, *reports: object) -> None:
        """Dials, registers and tells the inventory."""
        number = self.session.connection + 1
        self.wake(Dial(number))
        self.tell(
            Dialled(connection=number, session="s", idle=3),
            Send(
                Register(
                    protocol=PROTOCOL,
                    session="s",
                    epoch_seen=self.session.epoch,
                    idle=3,
                )
            ),
            TakeInventory(number),
        )
        said = [*map(Send, reports), Send(InventoryEnd())]
        outputs = self.session.handle(InventoryTaken(connection=number, reports=reports), self.now)
        assert outputs[: len(said)] == said

    def welcome(self, epoch: int = 1) -> None:
        is_new = epoch > self.session.epoch
        stored: list[Output] = [StoreEpoch(epoch)] if is_new else []
        self.receive(welcome(epoch), *stored, BeginSession(welcome(epoch), NO_AGE))

    def go_live(self) -> None:
        self.register()
        self.welcome(max(1, self.session.epoch))
        self.receive(WantedEnd(), StopOthers(claims=frozenset(), transfers=frozenset()))


def test_a_daemon_of_an_older_epoch_is_told_so_and_left() -> None:
    script = SessionScript(epoch=7)
    script.register()
    why = "the daemon has epoch 6, a later one of 7 was here"
    script.receive(welcome(6), Send(Goodbye(reason=why)), HangUp(1, why, is_orderly=True))
    script.receive(Order(body="stop", claim="j1/1/0/1"))  # still in the pipe: ignored
    script.register()


def test_what_comes_before_our_inventory_is_taken_waits_for_it() -> None:
    """Requests that are sent again at Welcome would be dropped if they came before. The daemon's
    time is older, then."""
    script = SessionScript()
    script.wake(Dial(1))
    script.session.handle(Dialled(connection=1, session="s", idle=3), script.now)
    script.now += 2.0
    script.receive(welcome(1))
    hold = Order(body="hold", claim="j1/1/0/1")
    script.receive(hold)
    script.receive(WantedEnd())
    script.now += 7.0
    script.tell(
        InventoryTaken(connection=1, reports=("a",)),
        Send("a"),
        Send(InventoryEnd()),
        StoreEpoch(1),
        BeginSession(welcome(1), (7.0, 9.0)),
        Apply(hold),
        StopOthers(claims=frozenset({"j1/1/0/1"}), transfers=frozenset()),
    )
    assert script.session.is_live


def test_a_silent_daemon_is_cut_and_dialled_again() -> None:
    script = SessionScript(timing=Timing(silence_s=15.0))
    script.go_live()
    script.now += 14.0
    script.receive(Beat(number=1, sent_at=0.0), Send(Beat(number=1, sent_at=0.0)))
    heard_at = script.now
    script.wake(HangUp(1, "silent for 15 s"))
    assert script.now == heard_at + 15.0
    script.wake(Dial(2))


def test_back_off_doubles_to_a_second_and_begins_again_after_success() -> None:
    script = SessionScript()
    waits = []
    script.wake(Dial(1))
    for number in range(1, 8):
        script.tell(Cut(connection=number, reason="nobody listens"))
        before = script.now
        script.wake(Dial(number + 1))
        waits.append(script.now - before)
    for wait, nominal in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0), strict=True):
        assert wait == pytest.approx(nominal, rel=0.2001)
    assert len({round(wait, 9) for wait in waits[-3:]}) == 3, "the jitter differs from try to try"
    script.tell(Cut(connection=8, reason="nobody listens"))
    script.go_live()
    script.tell(Cut(connection=9, reason="gone"))
    before = script.now
    script.wake(Dial(10))
    assert script.now - before < 0.13


def test_a_refusal_is_tried_again_unless_it_is_final() -> None:
    script = SessionScript()
    script.register()
    script.receive(
        Reject(reason="a second session", is_final=False), HangUp(1, "refused: a second session")
    )
    script.register()
    script.receive(
        Reject(reason="unknown site", is_final=True),
        HangUp(2, "unknown site"),
        Finish(reason="unknown site", is_refused=True),
    )
    assert script.session.wake_at is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Goodbye(reason="restart"), "the daemon said goodbye: restart"),
        (Reject(reason="a second session", is_final=False), "refused: a second session"),
    ],
)
def test_a_daemon_that_ends_the_session_is_left_before_our_inventory(
    message: FromDaemon, why: str
) -> None:
    """Other messages wait until the inventory is sent, which may take long."""
    script = SessionScript()
    script.wake(Dial(1))
    script.session.handle(Dialled(connection=1, session="s", idle=3), script.now)
    script.receive(WantedEnd())
    script.receive(message, HangUp(1, why))


def test_an_orderly_end_says_goodbye_and_nothing_after_it() -> None:
    script = SessionScript()
    script.go_live()
    script.tell(
        Closed("SIGTERM"),
        Send(Goodbye(reason="SIGTERM")),
        HangUp(1, "SIGTERM", is_orderly=True),
        Finish(reason="SIGTERM", is_refused=False),
    )
    script.tell(Reported("late"))


@pytest.mark.parametrize("message", [welcome(1), WantedEnd()])
def test_what_cannot_come_in_a_live_session_ends_it(message: FromDaemon) -> None:
    script = SessionScript()
    script.go_live()
    event = Received(connection=1, message=message)
    (output,) = script.session.handle(event, script.now)
    assert isinstance(output, HangUp)


def test_another_protocol_is_refused_by_name() -> None:
    script = SessionScript()
    script.register()
    why = (
        f"the daemon speaks protocol 1, this agent {PROTOCOL}: install the same version of Koala at"
        " both"
    )
    script.receive(welcome(1, protocol=1), HangUp(1, why))


def test_site_figures_go_out_at_once_and_then_at_most_every_20_ms() -> None:
    script = SessionScript()
    script.go_live()
    script.now += 1.0
    script.tell(SiteChanged(figures(5)), Send(figures(5)))
    script.tell(SiteChanged(figures(4)))
    script.tell(SiteChanged(figures(3)))
    before = script.now
    script.wake(Send(figures(3)))
    assert script.now - before == pytest.approx(0.02)
    script.now += 1.0
    script.tell(SiteChanged(figures(3)))


def test_site_figures_are_due_after_an_ask_even_when_they_are_the_same() -> None:
    script = SessionScript()
    script.go_live()
    script.now += 1.0
    script.tell(SiteChanged(figures(3, through=2)), Send(figures(3, through=2)))
    script.now += 1.0
    script.tell(SiteChanged(figures(3, through=2), is_due=True), Send(figures(3, through=2)))


# Any interleaving ---------------------------------------------------------------------------------

CLAIMS = ("j1/1/0/1", "j1/1/1/1", "j2/3/0/1")

messages: st.SearchStrategy[FromDaemon] = st.one_of(
    st.builds(welcome, st.integers(1, 5)),
    st.just(WantedEnd()),
    st.builds(lambda claim: Order(body="order", claim=claim), st.sampled_from(CLAIMS)),
    st.just(Beat(number=1, sent_at=0.0)),
    st.just(Goodbye(reason="restart")),
    st.just(Reject(reason="second session", is_final=False)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some time passes, then an event comes, perhaps of the connection before (`age` 1)."""

    later_s: float
    age: int
    make: Callable[[int], Event]


def a_step(*kinds: st.SearchStrategy[Callable[[int], Event]]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        later_s=st.sampled_from([0.0, 0.001, 0.1, 2.0, 20.0]),
        age=st.sampled_from([0, 0, 0, 0, 1]),
        make=st.one_of(*kinds),
    )


def received(message: FromDaemon) -> Callable[[int], Event]:
    return lambda number: Received(connection=number, message=message)


def a_wake(_: int) -> Event:
    return Woken()


def a_dialled(number: int) -> Event:
    return Dialled(connection=number, session="s", idle=1)


def an_inventory(number: int) -> Event:
    return InventoryTaken(connection=number, reports=("inventory",))


anything = a_step(
    st.just(a_wake),
    st.just(a_dialled),
    st.just(an_inventory),
    st.just(lambda number: Cut(connection=number, reason="cut")),
    st.builds(received, messages),
    st.just(lambda _: Reported("granted")),
    st.builds(lambda idle: lambda _: SiteChanged(figures(idle)), st.integers(0, 8)),
)

opening = st.builds(  # what usually works, so that runs get past it
    lambda epoch, rest: [
        Step(later_s=2.0, age=0, make=a_wake),
        Step(later_s=0.0, age=0, make=a_dialled),
        Step(later_s=0.0, age=0, make=received(welcome(epoch))),
        *rest,
        Step(later_s=0.0, age=0, make=an_inventory),
    ],
    st.integers(1, 5),
    st.lists(a_step(st.builds(received, messages)), max_size=3),
)

runs = st.lists(st.one_of(opening, st.lists(anything, max_size=8)), max_size=8).map(
    lambda parts: [step for part in parts for step in part]
)


class Witness:
    """Check what must hold of the outputs of any run, however the machine gets there."""

    def __init__(self, epoch: int) -> None:
        self.stored = epoch
        self.taken: Welcome | None = None
        self.named: set[str] = set()  # in this connection
        self.complete: frozenset[str] | None = None  # those before WantedEnd
        self.sent: list[object] = []

    def check(self, event: Event, outputs: list[Output], *, is_current: bool) -> None:
        if isinstance(event, Received) and is_current and self.sent:  # none comes before
            self._note(event.message)
        for output in outputs:
            match output:
                case Dial():
                    self.taken, self.named, self.complete, self.sent = None, set(), None, []
                case StoreEpoch(epoch):
                    assert epoch > self.stored
                    self.stored = epoch
                case BeginSession(taken, _):
                    assert taken.epoch == self.stored, "acts on an epoch that is not stored"
                    self.taken = taken
                case Apply(order):
                    assert self.taken is not None, "acts on a daemon of unknown epoch"
                    assert order.claim in self.named
                case StopOthers(claims=claims):
                    assert self.taken is not None
                    assert claims == self.complete, "a claim that was named would be stopped"
                case Send(message):
                    self._check_order(message)
                    self.sent.append(message)
                case _:
                    pass

    def _note(self, message: FromDaemon) -> None:
        if isinstance(message, Order):
            self.named.add(message.claim or "")
        if isinstance(message, WantedEnd) and self.complete is None:
            self.complete = frozenset(self.named)

    def _check_order(self, message: object) -> None:
        if isinstance(message, Register):
            assert self.sent == [], "Register comes first"
        elif message == "inventory" or isinstance(message, InventoryEnd):
            assert isinstance(self.sent[0], Register)
            assert InventoryEnd() not in self.sent, "one inventory a session"
        elif isinstance(message, str | SiteFigures):
            assert InventoryEnd() in self.sent, "told before the inventory"


def play(session: Session, steps: list[Step], witness: Witness) -> float:
    """Runs the steps; answers the instant of the last."""
    now = 100.0
    for step in steps:
        now += step.later_s
        event = step.make(session.connection - step.age)
        is_current = getattr(event, "connection", session.connection) == session.connection
        outputs = session.handle(event, now)
        assert is_current or outputs == [], "acts on an earlier connection"
        witness.check(event, outputs, is_current=is_current)
        assert session.wake_at is not None, "an agent never stops trying"
    return now


@holds_for(runs, st.integers(0, 3), few=75, many=1_000)
def test_no_interleaving_of_cuts_and_messages_breaks_what_a_session_guarantees(
    steps: list[Step], epoch: int
) -> None:
    session = Session(epoch=epoch, timing=Timing(), random=Random(0), now=100.0)
    play(session, steps, Witness(epoch))


@holds_for(runs, few=50, many=500)
def test_after_any_trouble_a_good_daemon_brings_the_session_to_life(steps: list[Step]) -> None:
    script = SessionScript()
    script.now = play(script.session, steps, Witness(0))
    cut = Cut(connection=script.session.connection, reason="cut")
    script.session.handle(cut, script.now)
    script.go_live()
    assert script.session.is_live


MARK = Watermark(epoch=1, seq=7, chain=b"chain", seal=b"seal")


def test_a_row_of_the_journal_is_kept_before_what_rests_on_it_is_done() -> None:
    script = SessionScript()
    script.go_live()
    order = Order(body="hold", claim="c")
    told = Received(connection=1, message=order, mark=MARK)
    script.tell(told, KeepWatermark(MARK), Apply(order))
    script.tell(told, Apply(order))  # kept already
    script.tell(Cut(connection=1, reason="cut"))
    script.wake(Dial(2))
    register = Send(
        Register(
            protocol=PROTOCOL,
            session="s",
            epoch_seen=1,
            idle=3,
            mark=MARK,
        )
    )
    script.tell(Dialled(connection=2, session="s", idle=3), register, TakeInventory(2))


def test_the_epoch_is_stored_before_a_row_of_its_journal() -> None:
    script = SessionScript()
    script.register()
    told = Received(connection=1, message=welcome(3), mark=MARK)
    script.tell(told, StoreEpoch(3), BeginSession(welcome(3), NO_AGE), KeepWatermark(MARK))


def test_no_row_of_a_daemon_that_is_not_obeyed_is_kept() -> None:
    script = SessionScript(epoch=5)
    script.register()
    outputs = script.session.handle(
        Received(connection=1, message=welcome(4), mark=MARK), script.now
    )
    assert not any(isinstance(output, KeepWatermark) for output in outputs)
    assert script.session.mark is None


def test_what_waits_for_the_inventory_keeps_its_row() -> None:
    script = SessionScript()
    script.wake(Dial(1))
    script.session.handle(Dialled(connection=1, session="s", idle=3), script.now)
    script.tell(Received(connection=1, message=welcome(1), mark=MARK))
    outputs = script.session.handle(InventoryTaken(connection=1, reports=()), script.now)
    assert KeepWatermark(MARK) in outputs
