"""The verdict on a sentence of a paper follows from measurements."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isclose, nan

import pytest

from koala.lab.papers.comparisons import (
    at_most,
    close,
    higher,
    higher_by,
    lower,
    lower_by,
    share_higher_by,
)
from koala.lab.papers.paper import Claim, Comparison, Found, Part, Rule
from koala.lab.papers.results import Results
from koala.lab.papers.verdicts import (
    LevelFinding,
    Verdict,
    judge,
    over_comparisons,
    over_levels,
    sign,
)
from koala.lab.sim.runs import Effort, Level, Outcome, Quantity, Run
from koala.lab.sim.statistics import Interval, interval
from tests.lab.papers.toy import HIGH, LOW

HOLDS, NEAR, UNDECIDED, FAILS = Verdict
DIRECTION, SIZE = Part
A, B = Quantity("a", "response.all"), Quantity("b", "response.all")
EFFORT = Effort(name="quick", replications=1, length=1, levels=(LOW, HIGH))


def results(*, a: list[float], b: list[float], saturated: str = "") -> Results:
    """Make results of two settings, a value for each seed; saturated ones in all of them."""
    finished = [
        (
            Run(setting=name, seed=seed, effort=EFFORT),
            Outcome(
                values={"response.all": value, "cost.all": value}, is_saturated=name in saturated
            ),
        )
        for name, values in (("a", a), ("b", b))
        for seed, value in enumerate(values)
    ]
    return Results(finished, diverging=("response",))


def parts(test: Found, found: Results) -> Mapping[Part, Verdict]:
    """Return the verdict of each part of a claim."""
    return judge(Claim("", lambda _: test), (HIGH,), found).verdicts


def verdict(comparison: Comparison, found: Results) -> Verdict:
    """Judge a claim of one comparison at one level near saturation."""
    claim = Claim("", lambda _: (comparison,))
    return judge(claim, (HIGH,), found).verdict


def test_a_difference_much_smaller_than_the_noise_is_seen_because_the_noise_is_shared() -> None:
    noise = [1.0, 5.0, 3.0, 9.0]
    found = results(a=noise, b=[value + 0.1 + 0.01 * value for value in noise])
    assert verdict(lower(A, B), found) is HOLDS
    assert verdict(lower(B, A), found) is FAILS


def test_a_difference_with_an_interval_around_nothing_is_undecided() -> None:
    found = results(a=[1.0, 2.0, 3.0], b=[1.1, 1.9, 3.1])
    assert verdict(lower(A, B), found) is UNDECIDED
    assert verdict(lower(B, A), found) is UNDECIDED


def test_one_replication_or_none_decides_nothing() -> None:
    assert verdict(lower(A, B), results(a=[1.0], b=[9.0])) is UNDECIDED
    assert verdict(lower(A, B), results(a=[1.0, 2.0], b=[])) is UNDECIDED


def test_only_seeds_that_both_finished_are_compared() -> None:
    found = results(a=[1.0, 2.0, 3.0, 99.0], b=[2.0, 3.1, 4.0])
    claim = Claim("", lambda _: (lower(A, B),))
    difference = judge(claim, (HIGH,), found).levels[0].findings[0].difference
    assert difference.values == 3
    assert isclose(difference.mean, 3.1 / 3)


def test_what_saturates_is_higher_than_what_does_not_whatever_was_measured() -> None:
    found = results(a=[1.0, 1.1], b=[0.5, 0.6], saturated="b")
    assert verdict(lower(A, B), found) is HOLDS
    assert verdict(lower(B, A), found) is FAILS
    assert verdict(at_most(B, A), found) is FAILS


def test_two_saturated_systems_are_not_compared() -> None:
    found = results(a=[1.0, 1.1], b=[0.5, 0.6], saturated="ab")
    assert verdict(lower(A, B), found) is UNDECIDED
    assert verdict(lower(B, A), found) is UNDECIDED
    cost = Quantity("a", "cost.all"), Quantity("b", "cost.all")
    claim = Claim("", lambda _: (lower(A, B), higher(*cost)))
    assert judge(claim, (HIGH,), found).verdict is HOLDS


def test_a_level_at_which_all_is_saturated_has_no_say() -> None:
    finished = [
        (
            Run(setting=name, seed=seed, effort=EFFORT),
            Outcome(values={"response.all": value + seed / 100}, is_saturated=name.isupper()),
        )
        for name, value in (("a", 1.0), ("b", 2.0), ("A", 3.0), ("B", 4.0))
        for seed in range(3)
    ]
    beyond = Level(name="beyond", is_near=True)
    claim = Claim(
        "",
        lambda level: (
            lower(A, B)
            if level is HIGH
            else lower(Quantity("A", "response.all"), Quantity("B", "response.all"))
        ),
    )
    found = Results(finished, diverging=("response",))
    assert judge(claim, (HIGH, beyond), found).verdict is HOLDS
    assert judge(claim, (beyond,), found).verdict is UNDECIDED


def test_one_saturated_replication_of_three_does_not_saturate_a_setting() -> None:
    finished = [
        (
            Run(setting="a", seed=seed, effort=EFFORT),
            Outcome(values={"response.all": 1.0}, is_saturated=seed < 1),
        )
        for seed in range(3)
    ]
    assert not Results(finished).is_saturated("a")
    assert Results(finished[:1]).is_saturated("a")


@pytest.mark.parametrize(
    ("other", "expected"), [(1.02, HOLDS), (0.98, HOLDS), (1.2, FAILS), (0.8, FAILS)]
)
def test_close_means_within_a_tenth_on_either_side(other: float, expected: Verdict) -> None:
    found = results(a=[1.0, 1.01, 0.99], b=[other, 1.01 * other, 0.99 * other])
    claim = Claim("", lambda _: close(A, B, within=0.1))
    assert judge(claim, (HIGH,), found).verdict is expected


def test_lower_by_a_quarter_needs_a_quarter() -> None:
    found = results(a=[1.0, 1.01, 0.99], b=[1.2, 1.21, 1.19])
    assert parts(lower_by(0.1, A, B), found) == {DIRECTION: HOLDS, SIZE: HOLDS}
    assert parts(lower_by(0.25, A, B), found) == {DIRECTION: HOLDS, SIZE: FAILS}
    assert parts(lower(A, B), found) == {DIRECTION: HOLDS}


def test_a_claim_about_a_size_is_as_good_as_its_worse_part() -> None:
    found = results(a=[1.0, 1.01, 0.99], b=[1.2, 1.21, 1.19])
    claim = Claim("", lambda _: lower_by(0.25, A, B))
    assert judge(claim, (HIGH,), found).verdict is FAILS
    assert judge(claim, (HIGH,), found).levels[0].verdict is FAILS
    wide = results(a=[1.0, 1.01, 0.99], b=[1.0, 1.5, 0.9])
    assert parts(lower_by(0.1, A, B), wide) == {DIRECTION: UNDECIDED, SIZE: UNDECIDED}


def test_a_share_near_one_is_much_higher_by_its_shortfall() -> None:
    """0.99 and 0.95 differ by 4 %, but one lacks a fifth of what the other lacks."""
    found = results(a=[0.99, 0.991, 0.989], b=[0.95, 0.951, 0.949])
    assert parts(higher_by(0.25, A, B), found) == {DIRECTION: HOLDS, SIZE: FAILS}
    assert parts(share_higher_by(0.25, A, B), found) == {DIRECTION: HOLDS, SIZE: HOLDS}
    close = results(a=[0.951, 0.952, 0.953], b=[0.95, 0.951, 0.952])
    assert parts(share_higher_by(0.25, A, B), close)[SIZE] is FAILS


@pytest.mark.parametrize(
    ("verdicts", "rule", "expected"),
    [
        ((HOLDS, HOLDS), Rule.ALL, HOLDS),
        ((HOLDS, UNDECIDED), Rule.ALL, UNDECIDED),
        ((HOLDS, UNDECIDED, FAILS), Rule.ALL, FAILS),
        ((HOLDS, HOLDS, FAILS), Rule.MOST, HOLDS),
        ((HOLDS, UNDECIDED, UNDECIDED), Rule.MOST, UNDECIDED),
        ((HOLDS, FAILS), Rule.MOST, FAILS),
    ],
)
def test_comparisons_make_the_verdict_of_a_level(
    verdicts: tuple[Verdict, ...], rule: Rule, expected: Verdict
) -> None:
    assert over_comparisons(verdicts, rule) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (HOLDS, HOLDS, HOLDS),
        (UNDECIDED, HOLDS, NEAR),
        (FAILS, HOLDS, NEAR),
        (HOLDS, UNDECIDED, UNDECIDED),
        (HOLDS, FAILS, FAILS),
    ],
)
def test_levels_make_the_verdict_of_a_claim(low: Verdict, high: Verdict, expected: Verdict) -> None:
    assert over_levels([_level(LOW, low), _level(HIGH, high)]) is expected


ALWAYS_ONE = Comparison(
    text="a = 1", of=(A,), contrast=lambda value: 1e-9 - abs(value - 1), is_of_every_run=True
)
"""A comparison of every run."""


def test_what_is_said_of_every_run_fails_by_one() -> None:
    """Whatever the mean of many, and its interval, which is wide by the one."""
    found = results(a=[1.0] * 6 + [0.998], b=[])
    assert verdict(ALWAYS_ONE, found) is FAILS
    assert verdict(replace(ALWAYS_ONE, is_of_every_run=False), found) is UNDECIDED
    claim = Claim("", lambda _: (ALWAYS_ONE,))
    assert judge(claim, (HIGH,), found).levels[0].findings[0].refuted_by == (6,)
    assert verdict(ALWAYS_ONE, results(a=[1.0] * 7, b=[])) is HOLDS


def test_what_is_said_of_every_run_holds_by_no_run_alone_and_falls_by_one_alone() -> None:
    assert verdict(ALWAYS_ONE, results(a=[], b=[])) is UNDECIDED
    assert verdict(ALWAYS_ONE, results(a=[1.0], b=[])) is UNDECIDED
    assert verdict(ALWAYS_ONE, results(a=[0.9], b=[])) is FAILS
    assert verdict(ALWAYS_ONE, results(a=[1.0, nan], b=[])) is UNDECIDED


def test_a_claim_that_was_tested_at_no_level_near_saturation_is_undecided() -> None:
    assert over_levels([_level(LOW, HOLDS)]) is UNDECIDED
    assert over_levels([]) is UNDECIDED


def test_of_many_comparisons_one_must_fail_with_more_confidence() -> None:
    difference = interval([-1.0, -2.0, -2.5, -0.8])
    assert difference.is_negative
    assert sign(difference) is FAILS
    assert sign(difference, among=20) is UNDECIDED
    assert sign(Interval(mean=-inf, ci95=0.0, values=2), among=20) is FAILS


def _level(level: Level, found: Verdict) -> LevelFinding:
    return LevelFinding(level=level, findings=(), verdicts={DIRECTION: found})
