"""Intervals against values worked out by hand and from a table of Student's t."""

from math import inf, isnan
from random import Random

import pytest

from koala.lab.sim.statistics import (
    Interval,
    batch_means,
    interval,
    means_of_batches,
    paired,
    student,
)


def test_the_interval_of_five_values_uses_the_table_of_student() -> None:
    found = interval([10.0, 12.0, 14.0, 16.0, 18.0])
    assert found.mean == 14.0
    # s = sqrt(10), t(4, 0.975) = 2.776445: 2.776445 * sqrt(10 / 5)
    assert found.ci95 == pytest.approx(3.926486, abs=1e-5)


@pytest.mark.parametrize(("degrees", "factor"), [(1, 12.7062), (9, 2.2622), (29, 2.0452)])
def test_the_factors_are_those_of_the_table(degrees: int, factor: float) -> None:
    assert student(degrees) == pytest.approx(factor, abs=1e-4)


def test_one_value_says_nothing_of_its_spread() -> None:
    assert interval([3.0]) == Interval(mean=3.0, ci95=inf, values=1)
    assert interval([3.0]).document() == {"mean": 3.0, "ci95": None}
    assert isnan(interval([]).mean)


def test_replications_in_which_nothing_happened_are_left_out() -> None:
    assert interval([1.0, float("nan"), 3.0]) == interval([1.0, 3.0])


def test_what_two_policies_share_cancels_in_paired_differences() -> None:
    random = Random(1)
    shared = [random.gauss(0, 100) for _ in range(10)]
    ones = [value + 1 + random.gauss(0, 0.1) for value in shared]
    difference = paired(ones, shared)
    assert difference.is_positive
    assert difference.ci95 < 0.2
    assert interval(ones).ci95 > 10


def test_batches_leave_out_the_beginning() -> None:
    assert means_of_batches([9.0, 1.0, 3.0, 5.0, 7.0], batches=2) == [2.0, 6.0]
    assert means_of_batches([1.0, 2.0], batches=30) == [1.0, 2.0]
    assert means_of_batches([]) == []


def test_batch_means_cover_the_mean_of_a_dependent_run() -> None:
    """An autoregressive run, whose naive interval is three times too narrow."""
    hits = 0
    for seed in range(60):
        random, value, values = Random(seed), 0.0, []
        for _ in range(6000):
            value = 0.8 * value + random.gauss(0, 1)
            values.append(value)
        found = batch_means(values)
        hits += found.low <= 0 <= found.high
    assert 51 <= hits <= 60


@pytest.mark.parametrize(
    ("mean", "ci95", "text"),
    [
        (20896.6, 35012.0, "21000 ± 35000"),
        (1.06091, 0.1312, "1.06 ± 0.13"),
        (94.2321, 3.449, "94.2 ± 3.4"),
        (0.0, 0.0, "0 ± 0"),
        (3.0, inf, "3"),
    ],
)
def test_both_numbers_end_at_the_same_place(mean: float, ci95: float, text: str) -> None:
    assert str(Interval(mean=mean, ci95=ci95, values=2)) == text
