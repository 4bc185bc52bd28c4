"""The start barrier in the starter: it arms, is released, and passes or aborts at its deadline."""

from __future__ import annotations

import pytest

from koala_agent.starter.events import (
    Connected,
    NodeLost,
    Open,
    Opened,
    Prepare,
    ProcessesCounted,
    Ready,
)
from tests.agent.starter.starter_script import OFFSET_S, StarterScript, ends, opens, said, the_end


def test_it_promises_when_lease_and_hold_outlast_d() -> None:
    script = StarterScript()
    script.adopted()
    actions = script.arm(1.0, late_s=3.0)
    assert Prepare(bundle={"x": 1}) in actions
    assert said(actions) == ["armed"]


def test_it_passes_at_t() -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    assert not opens(script.release(1.5))
    assert script.machine.wake_at == 2.0
    (action,) = [a for a in script.woken(2.0) if isinstance(a, Open)]
    assert action.not_after == 4.0
    assert said(script.tell(Opened(at=2.0), 2.0)) == ["passed"]


@pytest.mark.parametrize("members", [1, 2])
def test_it_knows_whether_others_pass_at_the_same_instant(members: int) -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0, bundle={"members": [{"index": i} for i in range(members)]})
    script.release(1.5)
    (action,) = [a for a in script.woken(2.0) if isinstance(a, Open)]
    assert action.has_peers is (members > 1)


def test_it_does_not_pass_before_t_where_a_release_may_be_late_for_a_moment_only() -> None:
    """An Arm long ahead of a start time, with the shortest `late_max_s`: D is right after T."""
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=1.435, late_s=0.485)
    assert not opens(script.release(1.1))
    assert not opens(script.woken(1.434))
    assert opens(script.woken(1.435))


def test_t_is_when_the_daemon_decided_that_it_is() -> None:
    """Armed took long; a T that nobody hears of in time would make the start uneven."""
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.hear(1.9, "release", number=[1, 1], release_at=OFFSET_S + 2.2)
    assert not opens(script.woken(2.1))
    assert opens(script.woken(2.21))


def test_no_decision_carries_t_past_d() -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0, late_s=3.0)
    script.hear(1.9, "release", number=[1, 1], release_at=OFFSET_S + 99.0)
    assert opens(script.woken(3.0))


def test_a_better_sample_of_the_daemons_clock_moves_t() -> None:
    """The answer to a ping that was quick comes after the Release: T is where it says."""
    script = StarterScript()
    script.adopted()
    script.hear(0.6, "pong", sent_at=0.2, now=OFFSET_S + 0.3)  # its way was uneven: wrong by 0.1 s
    script.arm(1.0, release_at=2.0)
    script.release(1.5)
    script.pong(1.6, 1.55)
    assert not opens(script.woken(1.99))
    assert opens(script.woken(2.0))


def test_a_release_of_another_number_is_ignored() -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, counter=1, release_at=1.0)
    script.arm(1.1, counter=2, release_at=1.1)
    assert not opens(script.release(2.0, counter=1))
    assert opens(script.release(2.1, counter=2))


def test_what_went_wrong_meanwhile_is_told_at_d_and_nothing_is_promised_any_more() -> None:
    script = StarterScript()
    script.adopted()
    script.arm(1.0, counter=1, late_s=3.0)
    lost = NodeLost(kind="vanished", reason="cannot prepare its processes: the disk is full")
    assert not ends(script.tell(lost, 1.0))
    assert said(script.arm(2.0, counter=2, late_s=9.0)) == []
    assert ends(script.woken(4.0))
    end = the_end(script.tell(ProcessesCounted(left=0), 4.1))
    assert (end["kind"], end["reason"]) == (lost.kind, lost.reason)


def test_a_new_arm_withdraws_the_release_of_a_starter_that_has_lost_a_machine() -> None:
    """A daemon that arms again has not released, or does not know any more that it has."""
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=2.0)
    script.release(1.2)
    script.tell(NodeLost(kind="vanished", reason="no answer"), 1.3)
    assert said(script.arm(1.4, counter=2, release_at=9.0)) == []
    assert not opens(script.woken(2.0))
    assert ends(script.woken(4.0))


def test_a_t_beyond_d_is_brought_forward() -> None:
    """An offset that is wrong decides how even the start is, never whether it happens."""
    script = StarterScript()
    script.adopted()
    script.arm(1.0, release_at=500.0, late_s=3.0)
    script.release(1.5)
    assert opens(script.woken(3.9))


def test_the_sample_with_the_shortest_round_trip_counts() -> None:
    script = StarterScript()
    script.adopted()
    script.hear(2.0, "pong", sent_at=1.0, now=5000.0)  # one that stood in a queue for a second
    script.pong(2.1, sent_at=2.09)
    assert script.machine.to_daemons(0.0) == pytest.approx(OFFSET_S)


def test_without_a_barrier_it_passes_when_the_daemon_answers_its_ping() -> None:
    script = StarterScript(no_barrier=True)
    assert not opens(script.adopted())  # by an agent whose daemon may have given the claim up
    assert opens(script.pong(1.0, 0.1))
    assert not opens(script.pong(1.1, 1.0))


def test_without_a_barrier_it_passes_when_its_processes_are_ready_after_the_first_answer() -> None:
    script = StarterScript(no_barrier=True)
    script.tell(Connected(), 0.1)
    leases = {"hold_lease_s": 60.0, "run_lease_s": 600.0, "kill_s": 5.0}
    script.hear(0.1, "adopted", **leases)
    assert not opens(script.pong(0.2, 0.1))
    assert opens(script.tell(Ready(), 0.3))
