"""Others who find no room wait; they lose nothing and win nothing."""

from __future__ import annotations

import pytest

from koala.sim.journal_replay.others import Others


def test_a_demand_with_room_is_used_at_once() -> None:
    others = Others()
    others.change(0.0, room=10, demand=6)
    assert (others.used, others.settled_at) == (6, None)
    others.change(5.0, room=10, demand=2)
    assert others.used == 2


def test_what_finds_no_room_is_put_off_and_takes_as_many_processors_as_were_missing() -> None:
    others = Others()
    others.change(0.0, room=4, demand=6)
    assert (others.used, others.settled_at) == (4, None)
    others.change(10.0, room=10, demand=6)
    assert others.used == 6 + 2
    assert others.settled_at == pytest.approx(10.0 + 20.0 / 2)
    others.change(20.0, room=10, demand=6)
    assert (others.used, others.settled_at) == (6, None)


def test_what_is_put_off_waits_until_there_is_room_beside_the_demand() -> None:
    others = Others()
    others.change(0.0, room=0, demand=8)
    others.change(10.0, room=8, demand=8)
    assert (others.used, others.settled_at) == (8, None)
    others.change(20.0, room=8, demand=5)
    assert others.used == 8
    assert others.settled_at == pytest.approx(20.0 + 80.0 / 3)


def test_no_processor_second_is_lost() -> None:
    """Whatever the room does, in the end they have used what they demanded."""
    others, used_s, at = Others(), 0.0, 0.0
    for step, (room, demand) in enumerate([(3, 5), (0, 2), (9, 7), (4, 4), (2, 0), (20, 1)]):
        used_s += (10.0 * step - at) * others.used
        at = 10.0 * step
        others.change(at, room=room, demand=demand)
    while others.settled_at is not None:
        used_s += (others.settled_at - at) * others.used
        at = others.settled_at
        others.change(at, room=20, demand=1)
    assert used_s == pytest.approx(10.0 * (5 + 2 + 7 + 4 + 0) + (at - 50.0) * 1)
