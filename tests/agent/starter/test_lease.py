"""The lease of a starter: how long it may go on without an answer of its agent and the daemon."""

from __future__ import annotations

from koala_agent.starter.events import Connected, CountProcesses, Disconnected, ProcessesCounted
from tests.agent.starter.starter_script import StarterScript, ends, the_end


def test_an_answer_out_of_order_does_not_shorten_the_lease() -> None:
    script = StarterScript()
    script.adopted(0.1)
    script.pong(20.0, sent_at=19.0)
    script.pong(21.0, sent_at=5.0)
    assert script.machine.lease_until() == 79.0


def test_after_the_pass_the_run_lease_counts() -> None:
    script = StarterScript()
    script.running()
    script.tell(Disconnected(), 3.0)
    assert not ends(script.woken(599.0))
    assert ends(script.woken(600.0))
    assert the_end(script.tell(ProcessesCounted(left=0), 600.0))["kind"] == "lease"


def test_processes_are_counted_again_after_a_pause_however_long_a_count_takes() -> None:
    """Else nothing is heard of those on other machines, and the end never comes."""
    script = StarterScript()
    script.running()
    assert CountProcesses() in script.woken(600.0)
    assert CountProcesses() not in script.tell(ProcessesCounted(left=1), 601.0)
    assert CountProcesses() in script.woken(601.1)


def test_a_lease_that_an_administrator_made_shorter_counts_from_the_next_answer() -> None:
    """By the shorter one the last answer may be too long ago, and nothing is wrong."""
    script = StarterScript()
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
