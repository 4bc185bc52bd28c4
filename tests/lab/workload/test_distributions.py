"""D(q): its moments are those of the papers, and draws follow its probabilities."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.lab.workload.distributions import SizeDistribution


@pytest.mark.parametrize(
    ("low", "high", "mean"), [(1, 8, 3.492941), (1, 32, 6.949774), (4, 32, 10.443726)]
)
def test_the_mean_of_each_interval_is_that_of_the_papers(low: int, high: int, mean: float) -> None:
    assert SizeDistribution(low=low, high=high, q=0.9).mean == pytest.approx(mean, abs=2e-6)


def test_a_power_of_two_is_three_times_as_likely() -> None:
    """On [3, 5] with q = 1/2 the weights are 1, 3/2 and 1/4."""
    sizes = SizeDistribution(low=3, high=5, q=0.5)
    assert sizes.probabilities == pytest.approx((4 / 11, 6 / 11, 1 / 11))


@given(st.integers(1, 40), st.integers(0, 60), st.floats(0.01, 1), st.integers())
def test_every_draw_lies_in_the_interval(low: int, width: int, q: float, seed: int) -> None:
    sizes = SizeDistribution(low=low, high=low + width, q=q)
    random = Random(seed)
    assert sum(sizes.probabilities) == pytest.approx(1)
    assert all(low <= sizes.sample(random) <= low + width for _ in range(20))


def test_draws_follow_the_probabilities() -> None:
    sizes = SizeDistribution(low=4, high=32, q=0.9)
    draws = 50_000
    random = Random(7)
    seen = Counter(sizes.sample(random) for _ in range(draws))
    for size, probability in enumerate(sizes.probabilities, start=4):
        deviation = (draws * probability * (1 - probability)) ** 0.5
        assert abs(seen[size] - draws * probability) < 4 * deviation, size


@pytest.mark.parametrize(
    ("low", "high", "q", "word"),
    [(0, 8, 0.9, "sizes 0 to 8"), (5, 4, 0.9, "sizes 5 to 4"), (1, 8, 0, "q is 0"),
     (1, 8, 1.5, "q is 1.5")],
)  # fmt: skip
def test_an_impossible_distribution_is_refused(low: int, high: int, q: float, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        SizeDistribution(low=low, high=high, q=q)
