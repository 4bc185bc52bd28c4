"""The daemon's clock through its lives: a wall clock that was set charges nobody and hurries no
timer."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.runtime.clock import Clock, boot_id, now, unix_now
from koala.daemon.state.kept_clock import FILE, begin_clock

HOURS_S = 7 * 3600.0
NEAR_S = 300.0
"""Far above what a test takes, and far below what the clocks differ by."""


def keep(folder: Path, *, ahead_s: float, boot: str | None = None) -> float:
    """Keep a clock that is ahead of the wall clock, as if that had been set back; return its
    base."""
    base = unix_now() - now() + ahead_s
    (folder / FILE).write_text(f"{boot_id() if boot is None else boot} {base!r}\n")
    return base


def ahead_s(clock: Clock) -> float:
    return clock.now() - unix_now()


@pytest.mark.parametrize("set_by_s", [HOURS_S, -HOURS_S])
def test_the_time_goes_on_while_claims_live(tmp_path: Path, set_by_s: float) -> None:
    base = keep(tmp_path, ahead_s=set_by_s)
    clock = begin_clock(tmp_path, 0.0, has_claims=True)
    assert clock.base == base
    later = begin_clock(tmp_path, clock.now(), has_claims=True)
    assert later.base == pytest.approx(base, abs=1e-3)


def test_a_wall_clock_that_was_wrong_is_adopted_at_a_start_without_claims(tmp_path: Path) -> None:
    keep(tmp_path, ahead_s=-HOURS_S)
    assert abs(ahead_s(begin_clock(tmp_path, 0.0, has_claims=False))) < NEAR_S
    assert abs(ahead_s(begin_clock(tmp_path, 0.0, has_claims=True))) < NEAR_S  # it was kept


def test_after_a_reboot_the_wall_clock_alone_tells_the_time(tmp_path: Path) -> None:
    keep(tmp_path, ahead_s=HOURS_S, boot="another")
    assert abs(ahead_s(begin_clock(tmp_path, 0.0, has_claims=True))) < NEAR_S


def test_no_clock_begins_before_the_last_event(tmp_path: Path) -> None:
    keep(tmp_path, ahead_s=-HOURS_S)
    last_at = unix_now() + HOURS_S
    assert begin_clock(tmp_path, last_at, has_claims=True).now() >= last_at
