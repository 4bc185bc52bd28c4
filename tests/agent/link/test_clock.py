"""What the agent makes of the daemon's clock."""

from __future__ import annotations

import pytest

from koala_agent.clock import DRIFT, DaemonTime


def test_the_offset_lies_between_what_both_directions_allow() -> None:
    """The daemon is 100 s ahead; messages take 10 ms to us and 30 ms to it."""
    time = DaemonTime()
    assert not time.is_known
    time.came(left_at=105.0, came_at=5.010)
    assert time.offset_s == pytest.approx(99.990)
    time.went(left_at=6.0, answered_at=106.030, came_at=6.040)
    assert time.offset_s == pytest.approx(100.010, abs=1e-3)
    assert time.to_ours(time.to_daemons(7.0)) == pytest.approx(7.0)


def test_slow_messages_do_not_spoil_what_fast_ones_told() -> None:
    time = DaemonTime()
    time.went(left_at=1.0, answered_at=101.001, came_at=1.002)
    best = time.offset_s
    time.came(left_at=101.5, came_at=3.5)
    time.went(left_at=3.5, answered_at=109.0, came_at=9.0)
    assert time.offset_s == pytest.approx(best, abs=10 * DRIFT)


def test_clocks_that_drift_are_followed() -> None:
    time = DaemonTime()
    for second in range(0, 20_000, 10):
        daemon = 100.0 + second * (1 - DRIFT / 2)
        time.went(left_at=float(second), answered_at=daemon + 0.001, came_at=second + 0.002)
    assert time.offset_s == pytest.approx(100.0 - 20_000 * DRIFT / 2, abs=0.01)


def test_a_new_session_begins_anew() -> None:
    time = DaemonTime()
    time.came(left_at=105.0, came_at=5.0)
    time.reset()
    time.came(left_at=15.0, came_at=6.0)
    assert time.offset_s == pytest.approx(9.0)
