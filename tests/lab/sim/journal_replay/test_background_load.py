"""Demand that finds no room is postponed; nothing of it is lost, and nothing is added."""

from __future__ import annotations

import pytest

from koala.lab.sim.journal_replay.background_load import BackgroundLoad


def test_a_demand_with_room_is_used_at_once() -> None:
    load = BackgroundLoad()
    load.change(0.0, room=10, demand=6)
    assert (load.used, load.backlog_cleared_at) == (6, None)
    load.change(5.0, room=10, demand=2)
    assert load.used == 2


def test_what_finds_no_room_is_put_off_and_takes_as_many_processors_as_were_missing() -> None:
    load = BackgroundLoad()
    load.change(0.0, room=4, demand=6)
    assert (load.used, load.backlog_cleared_at) == (4, None)
    load.change(10.0, room=10, demand=6)
    assert load.used == 6 + 2
    assert load.backlog_cleared_at == pytest.approx(10.0 + 20.0 / 2)
    load.change(20.0, room=10, demand=6)
    assert (load.used, load.backlog_cleared_at) == (6, None)


def test_what_is_put_off_waits_until_there_is_room_beside_the_demand() -> None:
    load = BackgroundLoad()
    load.change(0.0, room=0, demand=8)
    load.change(10.0, room=8, demand=8)
    assert (load.used, load.backlog_cleared_at) == (8, None)
    load.change(20.0, room=8, demand=5)
    assert load.used == 8
    assert load.backlog_cleared_at == pytest.approx(20.0 + 80.0 / 3)


def test_no_processor_second_is_lost() -> None:
    """Whatever the room does, in the end they have used what they demanded."""
    load, used_s, at = BackgroundLoad(), 0.0, 0.0
    for step, (room, demand) in enumerate([(3, 5), (0, 2), (9, 7), (4, 4), (2, 0), (20, 1)]):
        used_s += (10.0 * step - at) * load.used
        at = 10.0 * step
        load.change(at, room=room, demand=demand)
    while load.backlog_cleared_at is not None:
        used_s += (load.backlog_cleared_at - at) * load.used
        at = load.backlog_cleared_at
        load.change(at, room=20, demand=1)
    assert used_s == pytest.approx(10.0 * (5 + 2 + 7 + 4 + 0) + (at - 50.0) * 1)
