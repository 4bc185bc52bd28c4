"""The observation nearest in time stands for instants at which nobody looked."""

from __future__ import annotations

from koala.lab.sim.journal_replay.nearest import OWN_S, Nearest, Observation


def test_the_nearest_in_time_counts_and_the_earlier_of_two() -> None:
    seen = Nearest([Observation(at=30.0, of="b", what=3), Observation(at=10.0, of="a", what=1)])
    assert [seen.at(t) for t in (0.0, 19.0, 20.0, 21.0, 99.0)] == [1, 1, 1, 3, 3]
    assert Nearest[int]().at(5.0) is None


def test_what_was_seen_of_the_same_thing_counts_before_nearer_things() -> None:
    seen = Nearest([Observation(at=10.0, of="a", what=1), Observation(at=11.0, of="b", what=2)])
    assert seen.at(11.0, "a") == 1
    assert seen.at(11.0 + OWN_S, "a") == 2, "it is too long ago"
