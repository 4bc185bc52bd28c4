"""The starter as scripts: events in, actions out. Instants are seconds of one made-up clock."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from koala_agent.starter.events import (
    Answer,
    Asked,
    ClosePaths,
    Connected,
    Deliver,
    Delivered,
    Dial,
    Disconnected,
    Exit,
    Fork,
    Look,
    Looked,
    MachineLost,
    Open,
    Opened,
    OpenedEverywhere,
    Prepare,
    ProcessEnded,
    RankEnded,
    Ready,
    Received,
    Send,
    Settings,
    Signal,
    SiteSignalled,
    TooLate,
    Tried,
    TryPaths,
    Unexecutable,
    Woken,
    WriteEnd,
)
from koala_agent.starter.machine import PUT_LIMIT_S, StarterMachine

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event

OFFSET_S = 1000.0
"""The daemon's time less ours."""


class Script:
    """A starter with a lease of 60 s, a hold of 300 s and a run lease of 600 s."""

    def __init__(self, **changes: Any) -> None:
        settings = {
            "claim": "j1/1/0/1",
            "secret": "s",
            "nonce": "n",
            "processes": 1,
            "hold_s": 300.0,
            "hold_lease_s": 60.0,
            "run_lease_s": 600.0,
            "kill_s": 5.0,
        }
        self.machine = StarterMachine(
            Settings(**{**settings, **changes}), now=0.0, wall_offset_s=OFFSET_S
        )

    def tell(self, event: Event, at: float) -> list[Action]:
        return self.machine.handle(event, at)

    def hear(self, at: float, kind: str, **fields: object) -> list[Action]:
        """A message of the agent."""
        return self.tell(Received(message={"kind": kind, **fields}), at)

    def woken(self, at: float) -> list[Action]:
        return self.tell(Woken(), at)

    def adopted(self, at: float = 0.1) -> list[Action]:
        self.tell(Connected(), at)
        leases = {"hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0}
        actions = self.hear(at, "adopted", **leases)
        return [*actions, *(self.tell(Ready(), at) if Fork() in actions else ())]

    def pong(self, at: float, sent_at: float) -> list[Action]:
        return self.hear(at, "pong", sent_at=sent_at, now=OFFSET_S + (at + sent_at) / 2)

    def arm(
        self, at: float, *, counter: int = 1, release_at: float = 0.0, late_s: float = 3.0
    ) -> list[Action]:
        """T on our clock is `release_at`."""
        daemon_at = OFFSET_S + release_at
        return self.hear(
            at, "arm", number=[1, counter], release_at=daemon_at, late_s=late_s, bundle={"x": 1}
        )

    def release(self, at: float, *, counter: int = 1) -> list[Action]:
        return self.hear(at, "release", number=[1, counter])

    def running(self, **_ignored: object) -> None:
        self.adopted()
        self.arm(1.0, release_at=2.0)
        self.release(1.5)
        assert opens(self.woken(2.0))
        self.tell(Opened(at=2.0), 2.0)


def said(actions: list[Action]) -> list[str]:
    """The kinds of messages but pings, which are everywhere."""
    kinds = [str(action.message["kind"]) for action in actions if isinstance(action, Send)]
    return [kind for kind in kinds if kind != "ping"]


def opens(actions: list[Action]) -> bool:
    return any(isinstance(action, Open) for action in actions)


def ends(actions: list[Action]) -> bool:
    return any(isinstance(action, Signal) for action in actions)


def the_end(actions: list[Action]) -> dict[str, object]:
    (written,) = [action.end for action in actions if isinstance(action, WriteEnd)]
    return written


# Check in -----------------------------------------------------------------------------------------


def test_it_dials_says_hello_and_forks_when_it_is_adopted() -> None:
    script = Script()
    assert script.woken(0.0) == [Dial()]
    hello, ping = script.tell(Connected(), 0.01)
    assert isinstance(hello, Send)
    assert hello.message["kind"] == "hello"
    assert hello.message["armed"] is hello.message["passed_at"] is hello.message["end"] is None
    assert isinstance(ping, Send)
    assert ping.message["kind"] == "ping"
    assert Fork() in script.adopted(0.02)


def test_a_dismissed_one_ends_and_exits_without_a_word() -> None:
    script = Script()
    script.tell(Connected(), 0.1)
    assert ends(script.hear(0.2, "dismissed", reason="withdrawn"))
    actions = script.tell(Looked(left=0), 0.2)
    assert said(actions) == []
    assert Exit() in actions


def test_it_pings_at_least_six_times_a_lease() -> None:
    script = Script()
    script.adopted(0.0)
    at, pings = 0.0, 0
    while (wake_at := script.machine.wake_at) is not None and wake_at <= 60.0:
        at = wake_at
        actions = script.woken(at)
        if Dial() in actions:
            actions = script.tell(Connected(), at)
        sent = [action.message["kind"] for action in actions if isinstance(action, Send)]
        pings += sent.count("ping")
        if at >= 60.0:
            break
    assert pings >= 6


def test_a_burst_of_pings_follows_the_adoption() -> None:
    script = Script()
    script.adopted(0.0)
    pings = 0
    for n in range(10):
        at = 0.01 * (n + 1)
        pings += sum(isinstance(action, Send) for action in script.pong(at, at - 0.01))
    assert pings == 4  # and the one with the hello


# Leases -------------------------------------------------------------------------------------------


def test_the_lease_counts_from_the_sending_of_the_newest_answered_ping() -> None:
    script = Script()
    script.adopted(0.1)
    script.pong(20.0, sent_at=10.0)
    assert not ends(script.woken(69.9))
    assert ends(script.woken(70.0))
    assert the_end(script.tell(Looked(left=0), 70.1))["kind"] == "lease"


def test_an_answer_out_of_order_does_not_shorten_the_lease() -> None:
    script = Script()
    script.adopted(0.1)
    script.pong(20.0, sent_at=19.0)
    script.pong(21.0, sent_at=5.0)
    assert script.machine.lease_until() == 79.0


def test_the_hold_deadline_ends_it_though_its_lease_goes_on() -> None:
    script = Script(hold_s=50.0)
    script.adopted()
    script.pong(40.0, sent_at=40.0)
    assert ends(script.woken(50.0))
    assert the_end(script.tell(Looked(left=0), 50.0))["kind"] == "hold"


def test_after_the_pass_the_run_lease_counts() -> None:
    script = Script()
    script.running()
    script.tell(Disconnected(), 3.0)
    assert not ends(script.woken(599.0))
    assert ends(script.woken(600.0))
    assert the_end(script.tell(Looked(left=0), 600.0))["kind"] == "lease"


def test_a_lease_that_an_administrator_made_shorter_counts_from_the_next_answer() -> None:
    """By the shorter one the last answer may be too long ago, and nothing is wrong."""
    script = Script()
    script.running()
    script.pong(100.0, sent_at=100.0)
    script.tell(Disconnected(), 110.0)
    script.tell(Connected(), 150.0)
    shorter = {"hold_lease_s": 10.0, "run_lease_s": 30.0, "kill_s": 5.0}
    assert not ends(script.hear(150.0, "adopted", **shorter))
    assert script.machine.lease_until() == 700.0
    script.pong(151.0, sent_at=150.5)
    assert script.machine.lease_until() == 180.5
    script.hear(152.0, "adopted", hold_lease_s=10.0, run_lease_s=600.0, kill_s=5.0)
    assert script.machine.lease_until() == 750.5
    assert not ends(script.woken(170.0))


def test_an_infinite_run_lease_never_ends() -> None:
    script = Script(run_lease_s=float("inf"))
    script.tell(Connected(), 0.1)
    script.hear(0.1, "adopted", hold_lease_s=60.0, run_lease_s=float("inf"), kill_s=5.0)
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    script.woken(2.0)
    script.tell(Opened(at=2.0), 2.0)
    assert not ends(script.woken(1e9))


# Arm, release, pass -------------------------------------------------------------------------------


def test_it_promises_when_lease_and_hold_outlast_d() -> None:
    script = Script()
    script.adopted()
    actions = script.arm(1.0, late_s=3.0)
    assert Prepare(bundle={"x": 1}) in actions
    assert said(actions) == ["armed"]


@pytest.mark.parametrize(("at", "late_s"), [(58.0, 3.0), (1.0, 60.0)])
def test_it_does_not_promise_beyond_its_lease(at: float, late_s: float) -> None:
    script = Script()
    script.adopted()
    assert said(script.arm(at, late_s=late_s)) == []


def test_it_passes_at_t() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    assert not opens(script.release(1.5))
    assert script.machine.wake_at == 2.0
    (action,) = [a for a in script.woken(2.0) if isinstance(a, Open)]
    assert action.not_after == 4.0
    assert said(script.tell(Opened(at=2.0), 2.0)) == ["passed"]


def test_it_passes_at_once_when_the_release_comes_after_t() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    assert opens(script.release(3.0))


def test_t_is_when_the_daemon_decided_that_it_is() -> None:
    """Armed took long; a T that nobody hears of in time would make the start uneven."""
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.hear(1.9, "release", number=[1, 1], release_at=OFFSET_S + 2.2)
    assert not opens(script.woken(2.1))
    assert opens(script.woken(2.21))


def test_no_decision_carries_t_past_d() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0, late_s=3.0)
    script.hear(1.9, "release", number=[1, 1], release_at=OFFSET_S + 99.0)
    assert opens(script.woken(3.0))


def test_a_better_sample_of_the_daemons_clock_moves_t() -> None:
    """The answer to a ping that was quick comes after the Release: T is where it says."""
    script = Script()
    script.adopted()
    script.hear(0.6, "pong", sent_at=0.2, now=OFFSET_S + 0.3)  # its way was uneven: wrong by 0.1 s
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    script.pong(1.6, 1.55)
    assert not opens(script.woken(1.99))
    assert opens(script.woken(2.0))


def test_a_release_of_another_number_is_ignored() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, counter=1, release_at=1.0)
    script.arm(1.1, counter=2, release_at=1.1)
    assert not opens(script.release(2.0, counter=1))
    assert opens(script.release(2.1, counter=2))


def test_an_arm_of_an_earlier_number_is_ignored() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, counter=2)
    assert said(script.arm(1.1, counter=1)) == []
    assert opens(script.release(2.0, counter=2))


def test_a_release_does_not_open_what_was_not_promised() -> None:
    script = Script()
    script.adopted()
    script.arm(58.0, counter=1, late_s=3.0)
    assert not opens(script.release(58.5, counter=1))


def test_at_d_it_aborts_and_a_release_after_that_is_in_vain() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, late_s=3.0)
    assert ends(script.woken(4.0))
    assert not opens(script.release(4.0))
    assert the_end(script.tell(Looked(left=0), 4.1))["kind"] == "late"


def test_what_went_wrong_meanwhile_is_told_at_d_and_nothing_is_promised_any_more() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, counter=1, late_s=3.0)
    lost = MachineLost(kind="vanished", reason="cannot prepare its processes: the disk is full")
    assert not ends(script.tell(lost, 1.0))
    assert said(script.arm(2.0, counter=2, late_s=9.0)) == []
    assert ends(script.woken(4.0))
    end = the_end(script.tell(Looked(left=0), 4.1))
    assert (end["kind"], end["reason"]) == (lost.kind, lost.reason)


def test_an_arm_that_is_said_again_at_d_is_not_promised_again() -> None:
    script = Script()
    script.adopted()
    assert "armed" in said(script.arm(1.0, late_s=3.0))
    assert "armed" in said(script.arm(3.9, late_s=3.0))
    actions = script.arm(4.0, late_s=3.0)
    assert "armed" not in said(actions)
    assert ends(actions)


def test_a_release_that_comes_after_d_was_slept_through_is_in_vain() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, late_s=3.0)
    actions = script.release(4.0)
    assert ends(actions)
    assert not opens(actions)


def test_a_last_look_at_the_clock_that_forbids_it_ends_it() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    assert opens(script.woken(2.0))
    assert ends(script.tell(TooLate(), 9.0))
    assert not opens(script.release(9.1))


def test_a_new_arm_extends_the_promise() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, counter=1, late_s=3.0)
    script.arm(3.0, counter=2, late_s=3.0)
    assert not ends(script.woken(5.0))
    assert ends(script.woken(6.0))


def test_a_t_beyond_d_is_brought_forward() -> None:
    """An offset that is wrong decides how even the start is, never whether it happens."""
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=500.0, late_s=3.0)
    script.release(1.5)
    assert opens(script.woken(3.9))


def test_the_sample_with_the_shortest_round_trip_counts() -> None:
    script = Script()
    script.adopted()
    script.hear(2.0, "pong", sent_at=1.0, now=5000.0)  # one that stood in a queue for a second
    script.pong(2.1, sent_at=2.09)
    assert script.machine.to_daemons(0.0) == pytest.approx(OFFSET_S)


def test_a_stop_before_t_keeps_it_from_passing() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    assert ends(script.hear(1.6, "stop"))
    assert not opens(script.woken(2.0))
    assert the_end(script.tell(Looked(left=0), 2.0))["kind"] == "stopped"


def test_without_a_barrier_it_passes_when_the_daemon_answers_its_ping() -> None:
    script = Script(no_barrier=True)
    assert not opens(script.adopted())  # by an agent whose daemon may have given the claim up
    assert opens(script.pong(1.0, 0.1))
    assert not opens(script.pong(1.1, 1.0))


def test_without_a_barrier_it_passes_when_its_processes_are_ready_after_the_first_answer() -> None:
    script = Script(no_barrier=True)
    script.tell(Connected(), 0.1)
    leases = {"hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0}
    script.hear(0.1, "adopted", **leases)
    assert not opens(script.pong(0.2, 0.1))
    assert opens(script.tell(Ready(), 0.3))


def test_without_a_barrier_and_without_an_answer_it_ends_with_its_lease() -> None:
    script = Script(no_barrier=True)
    script.adopted()
    actions = script.woken(60.0)
    assert ends(actions)
    assert not opens(actions)


# Running and ending -------------------------------------------------------------------------------


def test_the_end_is_told_until_it_is_noted() -> None:
    script = Script()
    script.running()
    assert Look() in script.tell(ProcessEnded(index=0, status=0), 5.0)
    actions = script.tell(Looked(left=0, cpu_s=1.0, memory_bytes=7), 5.0)
    assert said(actions) == ["ended"]
    assert the_end(actions)["statuses"] == [0]
    script.tell(Disconnected(), 5.1)
    (hello, *_) = script.tell(Connected(), 6.0)
    assert isinstance(hello, Send)
    assert hello.message["end"] == the_end(actions)
    assert Exit() in script.hear(6.1, "noted")


def test_an_end_that_nobody_hears_is_not_told_for_ever() -> None:
    script = Script()
    script.running()
    script.tell(Disconnected(), 4.0)
    script.tell(ProcessEnded(index=0, status=0), 5.0)
    script.tell(Looked(left=0), 5.0)
    assert Exit() in script.woken(5.0 + 60.0)


def test_the_pass_is_told_to_an_agent_that_comes_back() -> None:
    script = Script()
    script.running()
    script.tell(Disconnected(), 3.0)
    (hello, *_) = script.tell(Connected(), 4.0)
    assert isinstance(hello, Send)
    assert hello.message["passed_at"] == OFFSET_S + 2.0
    assert hello.message["armed"] == [1, 1]


def test_what_outlives_the_main_processes_is_ended_by_term_and_then_kill() -> None:
    script = Script()
    script.running()
    script.tell(ProcessEnded(index=0, status=0), 5.0)
    assert Signal(number=signal.SIGTERM) in script.tell(Looked(left=2), 5.0)
    assert script.tell(Looked(left=1), 9.9) == [] or not ends(script.woken(9.9))
    assert Signal(number=signal.SIGKILL) in script.tell(Looked(left=1), 10.0)
    assert the_end(script.tell(Looked(left=0), 10.1))["kind"] == "exited"


def test_a_failed_process_ends_the_others() -> None:
    script = Script(processes=2)
    script.running()
    assert ends(script.tell(ProcessEnded(index=1, status=3), 5.0))
    script.tell(ProcessEnded(index=0, status=-signal.SIGTERM), 5.1)
    end = the_end(script.tell(Looked(left=0), 5.1))
    assert (end["kind"], end["statuses"]) == ("exited", [-15, 3])


def test_a_process_that_ends_well_leaves_the_others() -> None:
    script = Script(processes=2)
    script.running()
    assert not ends(script.tell(ProcessEnded(index=1, status=0), 5.0))


def test_the_wall_time_counts_from_the_pass() -> None:
    script = Script(wall_time_s=10.0)
    script.running()
    assert not ends(script.woken(11.9))
    assert ends(script.woken(12.0))
    assert the_end(script.tell(Looked(left=0), 12.0))["kind"] == "wall-time"


def test_the_sites_signal_ends_it_even_when_armed() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0)
    assert ends(script.tell(SiteSignalled(reason="SIGTERM from the site"), 1.1))
    assert the_end(script.tell(Looked(left=0), 1.1))["kind"] == "site"


def test_an_unexecutable_program_is_told_with_the_check_in() -> None:
    script = Script()
    script.tell(Unexecutable(reason="/nowhere: no such file"), 0.0)
    script.tell(Looked(left=0), 0.0)
    (hello, *_) = script.tell(Connected(), 0.1)
    assert isinstance(hello, Send)
    end = hello.message["end"]
    assert isinstance(end, dict)
    assert (end["kind"], end["statuses"]) == ("unexecutable", [])


def test_a_blocked_process_that_dies_is_forked_again() -> None:
    script = Script()
    script.adopted()
    assert Fork() in script.tell(ProcessEnded(index=0, status=-9), 1.0)


# Values -------------------------------------------------------------------------------------------


def test_questions_are_asked_again_after_a_reconnection() -> None:
    script = Script()
    script.running()
    assert said(script.tell(Asked(question=1, name="a", value="x"), 3.0)) == ["put"]
    script.tell(Disconnected(), 3.1)
    assert said(script.tell(Asked(question=2, name="b", wait_s=30.0), 3.2)) == []
    assert said(script.adopted(4.0)) == ["put", "get"]
    answers = script.hear(4.1, "answer", request=2, ok=True, value="y", error="")
    assert Answer(question=2, answer={"ok": True, "value": "y"}) in answers


def test_a_question_without_an_answer_gets_one_in_the_end() -> None:
    script = Script()
    script.running()
    script.tell(Asked(question=1, name="a", value="x"), 3.0)
    script.tell(Asked(question=2, name="b", wait_s=1.0), 3.0)
    (late,) = [a for a in script.woken(6.0) if isinstance(a, Answer)]
    assert late.answer == {"ok": False, "error": "no value for 'b' after 1 s"}
    assert any(isinstance(a, Answer) for a in script.woken(3.0 + PUT_LIMIT_S))


@pytest.mark.parametrize(("name", "value"), [("\ud800", "x"), ("a", "\udc80"), ("\ud800", None)])
def test_half_a_pair_of_surrogates_is_refused_here(name: str, value: str | None) -> None:
    """JSON can say it; the agent's store and the wire cannot hold it."""
    script = Script()
    script.running()
    (answer,) = script.tell(Asked(question=1, name=name, value=value, wait_s=1.0), 3.0)
    assert isinstance(answer, Answer)
    assert "no text that UTF-8 can hold" in str(answer.answer["error"])


def test_a_value_that_is_too_long_is_refused_here() -> None:
    script = Script()
    script.running()
    (answer,) = script.tell(Asked(question=1, name="a", value="x" * 4097), 3.0)
    assert isinstance(answer, Answer)
    assert "4097 bytes: 4096 are allowed" in str(answer.answer["error"])


def test_a_death_that_the_sites_signal_explains_is_the_sites() -> None:
    """A batch system signals the program and its starter at once; either is seen first."""
    script = Script()
    script.running()
    script.tell(ProcessEnded(index=0, status=-signal.SIGTERM), 5.0)
    assert said(script.tell(Looked(left=0), 5.0)) == []
    script.tell(SiteSignalled(reason="SIGTERM from the site"), 5.1)
    end = the_end(script.tell(Looked(left=0), 5.3))
    assert (end["kind"], end["statuses"]) == ("site", [-15])


def test_a_death_by_a_signal_that_nothing_explains_is_the_programs() -> None:
    script = Script()
    script.running()
    script.tell(ProcessEnded(index=0, status=-signal.SIGKILL), 5.0)
    script.tell(Looked(left=0), 5.0)
    assert Look() in script.woken(5.3)
    assert the_end(script.tell(Looked(left=0), 5.3))["kind"] == "exited"


# Paths --------------------------------------------------------------------------------------------

PATHS: dict[str, object] = {
    "label": "a1",
    "address": "here",
    "listens": [29500],
    "targets": [["b1", "there", 29500, "j1/1/1/1"]],
    "limit_s": 5.0,
}


def test_paths_are_tried_once_and_the_answer_is_always_the_same() -> None:
    script = Script()
    script.adopted()
    assert script.hear(1.0, "paths", **PATHS) == [
        TryPaths(
            label="a1",
            address="here",
            listens=[29500],
            targets=[("b1", "there", 29500, "j1/1/1/1")],
            limit_s=5.0,
        )
    ]
    assert script.hear(1.1, "paths", **PATHS) == []
    answer = Send(message={"kind": "tried", "problem": "a1 -> b1:29500 refused"})
    assert answer in script.tell(Tried(problem="a1 -> b1:29500 refused"), 2.0)
    assert answer in script.hear(3.0, "paths", **PATHS)


def test_the_ports_are_given_up_before_the_promise() -> None:
    """From the Arm on the program may start at any time, and they are its own."""
    script = Script()
    script.adopted()
    script.hear(1.0, "paths", **PATHS)
    script.tell(Tried(problem=""), 1.5)
    actions = script.arm(2.0)
    armed = Send(message={"kind": "armed", "number": [1, 1]})
    assert actions.index(ClosePaths()) < actions.index(armed)
    assert ClosePaths() not in script.arm(2.1, counter=2)
    assert script.hear(2.2, "paths", **PATHS) == []


def test_the_ports_are_given_up_with_the_claim() -> None:
    script = Script()
    script.adopted()
    script.hear(1.0, "paths", **PATHS)
    assert ClosePaths() in script.hear(2.0, "stop")


@pytest.mark.parametrize("targets", [None, [1], [["b1"]], [["b1", "there", "x", "c"]]])
def test_an_order_to_try_what_is_no_path_is_refused_whole(targets: object) -> None:
    script = Script()
    script.adopted()
    with pytest.raises(ValueError, match=r"targets|port|no lists"):
        script.hear(1.0, "paths", **{**PATHS, "targets": targets})


# Other machines, launchers, delivery --------------------------------------------------------------


def running_on_machines(**changes: Any) -> Script:
    script = Script(**changes)
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    assert opens(script.woken(2.0))
    return script


def test_a_pass_is_told_with_the_instant_of_the_last_process_of_all_machines() -> None:
    script = running_on_machines()
    assert said(script.tell(Opened(at=2.0, is_everywhere=False), 2.0)) == []
    (passed,) = (a for a in script.tell(OpenedEverywhere(at=2.003), 2.004) if isinstance(a, Send))
    assert passed.message["passed_at"] == pytest.approx(OFFSET_S + 2.003)
    assert script.machine.passed_at == 2.003


def test_a_pass_is_told_even_if_another_machine_never_says_a_word() -> None:
    script = running_on_machines()
    script.tell(Opened(at=2.0, is_everywhere=False), 2.0)
    assert said(script.woken(3.9)) == []
    assert "passed" in said(script.woken(4.0))


def test_a_lost_machine_ends_the_component_but_not_between_armed_and_d() -> None:
    script = Script()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    lost = MachineLost(kind="vanished", reason="a2 is lost")
    assert not ends(script.tell(lost, 1.1))
    script.release(1.5)
    assert opens(script.woken(2.0))
    assert ends(script.tell(Opened(at=2.0), 2.0))
    end = the_end(script.tell(Looked(left=0), 2.1))
    assert (end["kind"], end["reason"]) == ("vanished", "a2 is lost")


def test_the_statuses_of_ranks_count_where_they_were_told() -> None:
    script = running_on_machines(processes=2, ranks=3)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(RankEnded(rank=0, status=0), 3.0)
    actions = script.tell(RankEnded(rank=2, status=4), 3.0)
    assert ends(actions)
    for main in range(2):
        script.tell(ProcessEnded(index=main, status=4), 3.1)
    end = the_end(script.tell(Looked(left=0), 3.2))
    assert end["statuses"] == [0, -signal.SIGKILL, 4]
    assert end["reason"] == "process 2 ended with status 4"


def test_what_a_program_wrote_is_delivered_before_its_end_is_told() -> None:
    script = running_on_machines(delivers=True)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(ProcessEnded(index=0, status=0), 3.0)
    actions = script.tell(Looked(left=0), 3.0)
    assert Deliver(is_whole=True) in actions
    assert "ended" not in said(actions)
    end = the_end(script.tell(Delivered(problem=""), 9.0))
    assert (end["kind"], end["ended_at"]) == ("exited", OFFSET_S + 3.0)


def delivering(*, status: int = 0, has_outputs: bool = True) -> Script:
    """Its program has ended; what it wrote is on its way."""
    script = running_on_machines(delivers=True, has_outputs=has_outputs)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(ProcessEnded(index=0, status=status), 3.0)
    assert Deliver(is_whole=True) in script.tell(Looked(left=0), 3.0)
    return script


CUTS = [
    (Received(message={"kind": "stop"}), "stopped"),
    (SiteSignalled(reason="x"), "site"),
    (Woken(), "lease"),
    (Delivered(problem="files could not be brought", is_lost=True), "vanished"),
]


@pytest.mark.parametrize(("event", "kind"), CUTS)
def test_outputs_that_are_lost_on_their_way_are_no_end_of_the_program(
    event: Event, kind: str
) -> None:
    """It wrote them: an end by itself would have the agent miss them, and its job Failed."""
    script = delivering()
    end = the_end(script.tell(event, script.machine.lease_until()))
    assert (end["kind"], end["statuses"]) == (kind, [0])


@pytest.mark.parametrize(("event", "_kind"), CUTS)
def test_the_end_of_a_program_stays_when_no_output_of_it_is_lost(event: Event, _kind: str) -> None:
    for script in (delivering(status=3), delivering(has_outputs=False)):
        end = the_end(script.tell(event, script.machine.lease_until()))
        assert end["kind"] == "exited"


def test_what_could_not_be_read_of_outputs_is_left_to_the_agent() -> None:
    end = the_end(delivering().tell(Delivered(problem="out: no such file"), 4.0))
    assert (end["kind"], end["reason"]) == ("exited", "out: no such file")


def test_a_line_on_which_nothing_is_answered_is_dialled_anew() -> None:
    """It may be half-open, while daemon and agent live."""
    script = Script()
    script.running()
    script.pong(2.1, 2.0)
    done = [pinged(script) for _ in range(3)]  # a burst had begun: one more is unanswered
    assert [Dial() in actions for actions in done] == [False, False, True]
    at = script.machine.wake_at
    assert at is not None
    assert at < script.machine.lease_until() - 300.0
    script.tell(Connected(), at)
    assert not [actions for actions in (pinged(script), pinged(script)) if Dial() in actions]
    assert Dial() in pinged(script), "the daemon may be away"


def pinged(script: Script) -> list[Action]:
    """Return the actions of the next ping that is due."""
    while True:
        at = script.machine.wake_at
        assert at is not None
        actions = script.woken(at)
        if any(isinstance(action, (Dial, Send)) for action in actions):
            return actions
