"""The state machine of the starter: check-in, the program's end, values, paths, other machines."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from koala_agent.starter.compat import to_object
from koala_agent.starter.events import (
    Answer,
    ClosePaths,
    Connected,
    CountProcesses,
    Deliver,
    Delivered,
    Dial,
    Disconnected,
    Exit,
    Fork,
    NodeLost,
    Opened,
    OpenedEverywhere,
    PathsProbed,
    ProbePaths,
    ProcessEnded,
    ProcessesCounted,
    RankEnded,
    Ready,
    Received,
    Resize,
    Send,
    SiteSignalled,
    Unexecutable,
    ValueRequested,
    Woken,
    WriteEnd,
)
from koala_agent.starter.messages import PathsOrder
from koala_agent.starter.state_machine.kv_requests import PUT_LIMIT_S
from tests.agent.starter.starter_script import OFFSET_S, StarterScript, ends, opens, said, the_end

if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event


# Check in -----------------------------------------------------------------------------------------


def test_one_that_was_dismissed_brings_no_files_though_its_program_could_not_start() -> None:
    """Its exit status is seen before the error text of the same process."""
    script = StarterScript(delivers=True)
    script.running()
    script.tell(ProcessEnded(index=0, status=127), 3.0)
    script.hear(3.1, "dismissed", reason="withdrawn")
    script.tell(Unexecutable(reason="no such file"), 3.2)
    actions = script.tell(ProcessesCounted(left=0), 3.3)
    assert not any(isinstance(action, Deliver) for action in actions)
    assert Exit() in actions


def test_it_pings_at_least_six_times_a_lease() -> None:
    script = StarterScript()
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
    script = StarterScript()
    script.adopted(0.0)
    pings = 0
    for n in range(10):
        at = 0.01 * (n + 1)
        pings += sum(isinstance(action, Send) for action in script.pong(at, at - 0.01))
    assert pings == 4  # and the one with the hello


def with_clock(boot: str, *, half_s: float = 0.001) -> tuple[StarterScript, list[Action]]:
    """A starter whose agent has measured the daemon's clock on the machine of this boot."""
    script = StarterScript(boot="here")
    script.tell(Connected(), 0.0)
    leases = {"hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0}
    clock = {"boot": boot, "at": 0.0, "half_s": half_s, "offset_s": OFFSET_S + 5.0}
    actions = script.hear(0.0, "adopted", clock=clock, **leases)
    script.tell(Ready(), 0.0)
    return script, actions


def test_a_clock_of_the_daemon_that_was_set_changes_no_time_from_the_pass_on() -> None:
    script = StarterScript()
    script.running()
    at = script.machine.passed_at
    assert at is not None
    told_at = script.machine.to_daemons(at)
    script.hear(at + 9.0, "pong", sent_at=at + 9.0, now=OFFSET_S + 500.0)
    assert script.machine.to_daemons(at) == told_at


def pings(actions: list[Action]) -> int:
    return sum(isinstance(one, Send) and one.message["kind"] == "ping" for one in actions)


def test_the_agents_measurement_spares_the_bursts_of_pings() -> None:
    script, _ = with_clock("here")
    assert pings(script.pong(1.0, 0.0)) == 0  # that of the hello is no burst
    members = [{"label": "0"}]
    number, bundle = [1, 1], {"members": members}
    arm = {"number": number, "release_at": OFFSET_S + 10.0, "late_s": 30.0, "bundle": bundle}
    assert pings(script.hear(2.0, "arm", **arm)) == 0
    assert pings(script.release(2.0)) == 0
    assert script.machine.wake_at == pytest.approx(5.0)  # T by the agent's measurement


def test_a_start_with_others_is_measured_more_exactly() -> None:
    script, _ = with_clock("here")
    script.pong(1.0, 0.0)
    assert pings(script.arm(2.0, release_at=10.0)) == 1
    exact, _ = with_clock("here", half_s=0.0)
    assert pings(exact.arm(2.0, release_at=10.0)) == 0


@pytest.mark.parametrize(("boot", "half_s"), [("elsewhere", 0.001), ("here", 0.1)])
def test_another_machines_or_a_bad_measurement_spares_no_pings(boot: str, half_s: float) -> None:
    script, _ = with_clock(boot, half_s=half_s)
    assert pings(script.pong(0.5, 0.0)) == 1


# Running and ending -------------------------------------------------------------------------------


def test_an_end_that_nobody_hears_is_not_told_for_ever() -> None:
    script = StarterScript()
    script.running()
    script.tell(Disconnected(), 4.0)
    script.tell(ProcessEnded(index=0, status=0), 5.0)
    script.tell(ProcessesCounted(left=0), 5.0)
    assert Exit() in script.woken(5.0 + 60.0)


def test_a_failed_process_ends_the_others() -> None:
    script = StarterScript(processes=2)
    script.running()
    assert ends(script.tell(ProcessEnded(index=1, status=3), 5.0))
    script.tell(ProcessEnded(index=0, status=-signal.SIGTERM), 5.1)
    end = the_end(script.tell(ProcessesCounted(left=0), 5.1))
    assert (end["kind"], end["statuses"]) == ("exited", [-15, 3])


def test_a_blocked_process_that_dies_is_forked_again() -> None:
    script = StarterScript()
    script.adopted()
    assert Fork() in script.tell(ProcessEnded(index=0, status=-9), 1.0)


# Values -------------------------------------------------------------------------------------------


def test_questions_are_asked_again_after_a_reconnection() -> None:
    script = StarterScript()
    script.running()
    assert said(script.tell(ValueRequested(question=1, name="a", value="x"), 3.0)) == ["put"]
    script.tell(Disconnected(), 3.1)
    assert said(script.tell(ValueRequested(question=2, name="b", wait_s=30.0), 3.2)) == []
    assert said(script.adopted(4.0)) == ["put", "get"]
    answers = script.hear(4.1, "answer", request=2, ok=True, value="y", error="")
    assert Answer(question=2, answer={"ok": True, "value": "y"}) in answers


def test_a_question_without_an_answer_gets_one_in_the_end() -> None:
    script = StarterScript()
    script.running()
    script.tell(ValueRequested(question=1, name="a", value="x"), 3.0)
    script.tell(ValueRequested(question=2, name="b", wait_s=1.0), 3.0)
    (late,) = [a for a in script.woken(6.0) if isinstance(a, Answer)]
    assert late.answer == {"ok": False, "error": "no value for 'b' after 1 s"}
    assert any(isinstance(a, Answer) for a in script.woken(3.0 + PUT_LIMIT_S))


@pytest.mark.parametrize(("name", "value"), [("\ud800", "x"), ("a", "\udc80"), ("\ud800", None)])
def test_half_a_pair_of_surrogates_is_refused_here(name: str, value: str | None) -> None:
    """JSON can say it; the agent's store and the wire cannot hold it."""
    script = StarterScript()
    script.running()
    (answer,) = script.tell(ValueRequested(question=1, name=name, value=value, wait_s=1.0), 3.0)
    assert isinstance(answer, Answer)
    assert "cannot be written in UTF-8" in str(answer.answer["error"])


def test_a_value_that_is_too_long_is_refused_here() -> None:
    script = StarterScript()
    script.running()
    (answer,) = script.tell(ValueRequested(question=1, name="a", value="x" * 4097), 3.0)
    assert isinstance(answer, Answer)
    assert "4097 bytes (expected at most 4096)" in str(answer.answer["error"])


def test_a_death_that_the_sites_signal_explains_is_the_sites() -> None:
    """A batch system signals the program and its starter at once; either is seen first."""
    script = StarterScript()
    script.running()
    script.tell(ProcessEnded(index=0, status=-signal.SIGTERM), 5.0)
    assert said(script.tell(ProcessesCounted(left=0), 5.0)) == []
    script.tell(SiteSignalled(reason="SIGTERM from the site"), 5.1)
    assert CountProcesses() in script.woken(5.3)
    end = the_end(script.tell(ProcessesCounted(left=0), 5.3))
    assert (end["kind"], end["statuses"]) == ("site", [-15])


def test_a_signal_that_came_while_processes_were_counted_explains_a_death() -> None:
    """On a busy machine a count takes longer than the signal of the site is waited for."""
    script = StarterScript()
    script.running()
    assert CountProcesses() in script.tell(ProcessEnded(index=0, status=-signal.SIGTERM), 5.0)
    assert said(script.tell(ProcessesCounted(left=0), 5.9)) == []
    script.tell(SiteSignalled(reason="SIGTERM from the site"), 5.9)
    assert CountProcesses() in script.woken(6.0)
    assert the_end(script.tell(ProcessesCounted(left=0), 6.0))["kind"] == "site"


def test_a_death_by_a_signal_that_nothing_explains_is_the_programs() -> None:
    script = StarterScript()
    script.running()
    script.tell(ProcessEnded(index=0, status=-signal.SIGKILL), 5.0)
    script.tell(ProcessesCounted(left=0), 5.0)
    assert CountProcesses() in script.woken(5.3)
    assert the_end(script.tell(ProcessesCounted(left=0), 5.3))["kind"] == "exited"


# Paths --------------------------------------------------------------------------------------------

PATHS: dict[str, object] = {
    "label": "a1",
    "address": "here",
    "listens": [29500],
    "targets": [["b1", "there", 29500, "j1/1/1/1", False]],
    "limit_s": 5.0,
}


def test_paths_are_tried_once_and_the_answer_is_always_the_same() -> None:
    script = StarterScript()
    script.adopted()
    assert script.hear(1.0, "paths", **PATHS) == [
        ProbePaths(
            order=PathsOrder(
                label="a1",
                address="here",
                listens=(29500,),
                targets=(("b1", "there", 29500, "j1/1/1/1", False),),
                limit_s=5.0,
            )
        )
    ]
    assert script.hear(1.1, "paths", **PATHS) == []
    problem = "a1 -> b1:29500 refused"
    answer = Send(message={"kind": "tried", "problem": problem, "reached": [], "ports": []})
    assert answer in script.tell(PathsProbed(problem="a1 -> b1:29500 refused"), 2.0)
    assert answer in script.hear(3.0, "paths", **PATHS)


def test_the_ports_are_given_up_before_the_promise() -> None:
    """From the Arm on the program may start at any time, and they are its own."""
    script = StarterScript()
    script.adopted()
    script.hear(1.0, "paths", **PATHS)
    script.tell(PathsProbed(problem=""), 1.5)
    actions = script.arm(2.0)
    armed = Send(message={"kind": "armed", "number": [1, 1]})
    assert actions.index(ClosePaths()) < actions.index(armed)
    assert ClosePaths() not in script.arm(2.1, counter=2)
    assert script.hear(2.2, "paths", **PATHS) == []


def test_the_ports_are_given_up_with_the_claim() -> None:
    script = StarterScript()
    script.adopted()
    script.hear(1.0, "paths", **PATHS)
    assert ClosePaths() in script.hear(2.0, "stop")


@pytest.mark.parametrize("targets", [None, [1], [["b1"]], [["b1", "there", "x", "c"]]])
def test_an_order_to_try_what_is_no_path_is_refused_whole(targets: object) -> None:
    script = StarterScript()
    script.adopted()
    with pytest.raises(ValueError, match=r"targets|port|no lists"):
        script.hear(1.0, "paths", **{**PATHS, "targets": targets})


# Other machines, launchers, delivery --------------------------------------------------------------


def running_on_machines(**changes: Any) -> StarterScript:
    script = StarterScript(**changes)
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


def test_no_pass_is_told_while_another_machine_is_frozen() -> None:
    """The daemon then ends the attempt, of which a part does not run."""
    script = running_on_machines()
    script.tell(Opened(at=2.0, is_everywhere=False), 2.0)
    assert "passed" not in said(script.woken(4.0))
    assert ends(script.hear(4.0, "stop"))
    script.tell(ProcessEnded(index=0, status=-15), 4.1)
    assert said(script.tell(ProcessesCounted(left=0), 4.2)) == ["passed", "ended"]


def test_a_lost_machine_ends_the_component_but_not_between_armed_and_d() -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    lost = NodeLost(kind="vanished", reason="a2 is lost")
    assert not ends(script.tell(lost, 1.1))
    script.release(1.5)
    assert opens(script.woken(2.0))
    assert ends(script.tell(Opened(at=2.0), 2.0))
    end = the_end(script.tell(ProcessesCounted(left=0), 2.1))
    assert (end["kind"], end["reason"]) == ("vanished", "a2 is lost")


def test_the_statuses_of_ranks_count_where_they_were_told() -> None:
    script = running_on_machines(processes=2, ranks=3)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(RankEnded(rank=0, status=0), 3.0)
    actions = script.tell(RankEnded(rank=2, status=4), 3.0)
    assert ends(actions)
    for main in range(2):
        script.tell(ProcessEnded(index=main, status=4), 3.1)
    end = the_end(script.tell(ProcessesCounted(left=0), 3.2))
    assert end["statuses"] == [0, -signal.SIGKILL, 4]
    assert end["reason"] == "process 2 ended with status 4"


def test_what_a_program_wrote_is_delivered_before_its_end_is_told() -> None:
    script = running_on_machines(delivers=True)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(ProcessEnded(index=0, status=0), 3.0)
    actions = script.tell(ProcessesCounted(left=0), 3.0)
    assert Deliver(is_whole=True) in actions
    assert "ended" not in said(actions)
    end = the_end(script.tell(Delivered(problem=""), 9.0))
    assert (end["kind"], end["ended_at"]) == ("exited", OFFSET_S + 9.0)  # it has held processors


def test_an_end_that_nobody_acknowledges_has_the_time_until_which_processors_were_held() -> None:
    """Its agent is away, and hears of it from the starter or finds it on disk."""
    script = StarterScript()
    script.running()
    script.tell(ProcessEnded(index=0, status=0), 3.0)
    assert the_end(script.tell(ProcessesCounted(left=0), 3.0))["ended_at"] == OFFSET_S + 3.0
    script.tell(Disconnected(), 4.0)
    actions = script.tell(Connected(), 20.0)
    hello = next(a.message for a in actions if isinstance(a, Send) and a.message["kind"] == "hello")
    assert to_object(hello["end"])["ended_at"] == OFFSET_S + 20.0
    (written, _exit) = script.woken(63.0)
    assert isinstance(written, WriteEnd)
    assert written.end["ended_at"] == OFFSET_S + 63.0


def test_the_time_from_pass_to_end_is_that_of_its_own_clock() -> None:
    """The daemon started again meanwhile, on a machine whose clock was set."""
    script = StarterScript()
    script.running()
    script.hear(2.2, "pong", sent_at=2.2, now=OFFSET_S + 25_200.0)  # the best sample that there is
    script.tell(ProcessEnded(index=0, status=0), 3.0)
    end = the_end(script.tell(ProcessesCounted(left=0), 3.5))
    assert (end["kind"], end["ended_at"]) == ("exited", OFFSET_S + 3.5)


def delivering(*, status: int = 0, has_outputs: bool = True) -> StarterScript:
    """Its program has ended; what it wrote is on its way."""
    script = running_on_machines(delivers=True, has_outputs=has_outputs)
    script.tell(Opened(at=2.0), 2.0)
    script.tell(ProcessEnded(index=0, status=status), 3.0)
    assert Deliver(is_whole=True) in script.tell(ProcessesCounted(left=0), 3.0)
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


def test_after_a_count_that_takes_longer_than_its_pause_the_others_are_heard_first() -> None:
    """On a busy machine with many processes."""
    script = StarterScript()
    script.running()
    script.tell(ProcessEnded(index=0, status=0), 5.0)
    assert CountProcesses() not in script.tell(ProcessesCounted(left=1, is_known=False), 9.0)
    assert CountProcesses() in script.woken(9.1)


def test_what_could_not_be_read_of_outputs_is_left_to_the_agent() -> None:
    end = the_end(delivering().tell(Delivered(problem="out: no such file"), 4.0))
    assert (end["kind"], end["reason"]) == ("exited", "out: no such file")


def test_a_line_on_which_nothing_is_answered_is_dialled_again() -> None:
    """It may be half-open, while daemon and agent live."""
    script = StarterScript()
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


def pinged(script: StarterScript) -> list[Action]:
    """Return the actions of the next ping that is due."""
    while True:
        at = script.machine.wake_at
        assert at is not None
        actions = script.woken(at)
        if any(isinstance(action, (Dial, Send)) for action in actions):
            return actions


def test_a_resize_is_passed_on_once_and_only_if_it_is_newer() -> None:
    script = StarterScript()
    script.adopted()

    def resized(at: float, number: int, leave_s: float | None = None) -> list[Action]:
        actions = script.hear(at, "resize", number=number, bundle={"x": number}, leave_s=leave_s)
        return [action for action in actions if isinstance(action, Resize)]

    assert resized(1.0, 2) == [Resize(number=2, bundle={"x": 2})]
    assert resized(1.1, 1) == resized(1.2, 2, leave_s=3.0) == []
    assert resized(1.3, 3, leave_s=3.0) == [Resize(number=3, bundle={"x": 3}, leave_s=3.0)]
    script.hear(2.0, "stop")
    assert resized(2.1, 4) == []
