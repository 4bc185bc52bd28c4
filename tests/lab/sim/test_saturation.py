"""Saturation is called by its name, and only then."""

from __future__ import annotations

from random import Random

from koala.lab.sim.saturation import is_saturated, trend


def queue(seed: int, *, growth: float) -> list[float]:
    """Return how many wait at 20,000 arrivals."""
    random = Random(seed)
    return [100 + growth * n + random.gauss(0, 20) for n in range(20_000)]


def test_what_grows_with_every_arrival_is_saturated() -> None:
    found = trend(queue(1, growth=0.01))
    assert is_saturated([found])
    assert abs(found.growth - 0.01) < 0.0005


def test_what_stays_is_not() -> None:
    assert not any(is_saturated([trend(queue(n, growth=0))]) for n in range(30))


def test_a_growth_that_is_certain_and_tiny_is_none() -> None:
    """A warm-up that was a little short shows in many replications; it does not matter."""
    found = [trend(queue(n, growth=0.0004)) for n in range(20)]
    assert sum(one.score for one in found) > 1000
    assert not is_saturated(found)


def test_one_replication_that_happens_to_grow_is_outvoted() -> None:
    up, down = trend(queue(1, growth=0.002)), trend(queue(2, growth=-0.002))
    assert is_saturated([up])
    assert not is_saturated([up, down])


def test_nothing_is_no_trend() -> None:
    assert not is_saturated([trend([])])
    assert not is_saturated([trend([1.0])])
