"""The share of the time that a program may run, and its reports, as a pure machine."""

from __future__ import annotations

import pytest

from koala_agent.starter.events import (
    MeasureProgress,
    PauseProgram,
    ProgressMeasured,
    ResumeProgram,
)
from koala_agent.starter.state_machine.pacing import HOLD_MAX_S, PERIOD_S, Pacing

MEASURED = ProgressMeasured(work=1.5, is_told=False, can_pace=True)


def held_s(pacing: Pacing, since: float, until: float) -> tuple[float, float]:
    """Return for how long it is held from `since` on: in all, and at most at a time."""
    total = longest = 0.0
    now, halted_at = since, None
    while (now := max(now, pacing.wake_at)) < until:
        for action in pacing.tick(now, is_alone=False):
            if isinstance(action, PauseProgram):
                assert halted_at is None
                halted_at = now
            elif isinstance(action, ResumeProgram):
                assert halted_at is not None
                total, longest = total + now - halted_at, max(longest, now - halted_at)
                halted_at = None
    return total, longest


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1, 0.02])
def test_it_is_held_for_the_rest_of_the_time_in_short_turns(share: float) -> None:
    pacing = Pacing(0.0)
    pacing.begin(100.0, 100.0)
    pacing.set_share(share, 100.0)
    total, longest = held_s(pacing, 100.0, 120.0)
    assert total / 20.0 == pytest.approx(1 - share, abs=0.02)
    assert longest <= HOLD_MAX_S
    assert longest >= (1 - share) * PERIOD_S - 1e-9


def test_a_program_that_may_run_whole_is_left_alone_and_one_that_may_again_is_continued() -> None:
    pacing = Pacing(0.0)
    pacing.begin(100.0, 100.0)
    pacing.set_share(1.0, 100.0)
    assert pacing.tick(100.0, is_alone=False) == []
    pacing.set_share(0.1, 101.0)
    assert pacing.tick(101.0, is_alone=False) == [PauseProgram()]
    pacing.set_share(1.0, 101.05)
    assert pacing.tick(101.05, is_alone=False) == [ResumeProgram()]
    assert pacing.wake_at == float("inf")


def test_nothing_is_held_before_the_pass_or_after_the_end() -> None:
    pacing = Pacing(1.0)
    pacing.set_share(0.1, 99.0)
    assert pacing.tick(99.0, is_alone=False) == []
    pacing.begin(100.0, 100.0)
    pacing.set_share(0.1, 100.5)
    assert pacing.tick(100.5, is_alone=False) == [PauseProgram()]
    assert pacing.end() == [ResumeProgram()]
    assert pacing.end() == []
    assert pacing.wake_at == float("inf")


def test_it_runs_freely_when_nobody_is_there_who_could_take_it_back() -> None:
    pacing = Pacing(0.0)
    pacing.begin(100.0, 100.0)
    pacing.set_share(0.1, 100.0)
    assert pacing.tick(100.0, is_alone=False) == [PauseProgram()]
    assert pacing.tick(100.01, is_alone=True) == [ResumeProgram()]


def test_cycles_are_counted_from_the_pass() -> None:
    pacing = Pacing(0.5)
    pacing.begin(100.0, 100.02)
    assert pacing.wake_at == 100.5
    assert pacing.tick(100.51, is_alone=False) == [MeasureProgress()]
    report = pacing.measured(MEASURED, 100.52)
    assert report is not None
    assert (report.cycle, report.work, report.can_pace) == (1, 1.5, True)
    assert pacing.wake_at == 101.0


def test_a_report_that_comes_late_is_of_no_cycle() -> None:
    """A starter that slept would else tell of another instant than the other components."""
    pacing = Pacing(0.5)
    pacing.begin(100.0, 100.0)
    assert pacing.tick(102.3, is_alone=False) == [MeasureProgress()]
    assert pacing.measured(MEASURED, 102.3) is None
    assert pacing.wake_at == 102.5
