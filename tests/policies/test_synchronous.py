"""Worked examples of the synchronous-queuing paper, and its controller asked."""

from __future__ import annotations

from math import inf, log

import pytest

from koala.core.model.progress_reports import Correction, MemberProgress, ProgressQuestion
from koala.policies.progress.free import free
from koala.policies.progress.synchronous import (
    WEIGHT_LEAST,
    Clocks,
    normalized_weight,
    pivotal_point,
    slow_down_factor,
    synchronous,
    synchronous_as_printed,
)


def a_question(
    *virtual_s: float,
    real_s: float = 1000.0,
    asynchrony_s: float = 100.0,
    deviation_s: float = 200.0,
    spare: float = 1.0,
) -> ProgressQuestion:
    """Components of weight 0.1 at these virtual times."""
    return ProgressQuestion(
        real_s=real_s,
        asynchrony_s=asynchrony_s,
        deviation_s=deviation_s,
        members=tuple(
            MemberProgress(component=n, virtual_s=at, weight=0.1, admitted=0.1, spare=spare)
            for n, at in enumerate(virtual_s)
        ),
    )


def told(answer: tuple[Correction, ...]) -> dict[int, object]:
    return {one.component: pytest.approx(one.weight) for one in answer}


def test_the_clocks_of_table_1() -> None:
    clocks, table = Clocks(), []
    for actual in (2, 3, 1, 1):
        clocks = clocks.after(10.0, agreed=2, actual=actual)
        table.append((clocks.real_s, clocks.virtual_s, clocks.previous_s))
    assert table == [(10, 10, 10), (20, 25, 20), (30, 30, 30), (40, 35, 40)]


def test_the_weight_of_figure_4() -> None:
    assert normalized_weight(5, 10, 1, relative_sum=10, partition=40) == 0.125
    assert normalized_weight(5, 10, 1, relative_sum=10, partition=100) == 0.05


def test_a_component_within_the_windows_is_left_alone() -> None:
    assert synchronous(a_question(1000.0, 1100.0, 1050.0)) == ()
    assert synchronous(a_question()) == ()
    assert free(a_question(0.0, 5000.0)) == ()


def test_the_fastest_is_slowed_down_by_equation_7_when_it_is_further_off() -> None:
    assert pivotal_point(a_question(990.0, 1000.0, 1130.0).members) == 1040.0
    assert slow_down_factor(1130.0, 1000.0, 0.1) == pytest.approx(0.13)
    answer = synchronous(a_question(990.0, 1000.0, 1130.0))
    assert told(answer) == {2: -0.1 * (1 - WEIGHT_LEAST)}  # 0.13 is more than all it has
    answer = synchronous(a_question(990.0, 995.0, 1040.0, asynchrony_s=20.0))
    assert told(answer) == {2: -0.04}


def test_the_slowest_is_sped_up_when_it_is_further_off() -> None:
    assert told(synchronous(a_question(880.0, 1000.0, 1010.0))) == {0: 0.12}


def test_of_two_components_the_slowest_is_sped_up() -> None:
    """Both are as far from their mean, which rounding must not decide."""
    assert told(synchronous(a_question(929.9, 1070.1))) == {0: 0.0701}


def test_outside_the_overall_deviation_all_are_synchronized_with_real_time() -> None:
    answer = synchronous(a_question(1240.0, 1260.0, deviation_s=200.0))
    assert told(answer) == {0: -0.0998, 1: -0.0998}
    assert told(synchronous(a_question(780.0, 790.0))) == {0: 0.22, 1: 0.21}


def test_what_the_dummy_cannot_give_is_corrected_around_the_pivotal_point() -> None:
    """The local machine fails to speed a component up; the controller slows the others instead."""
    answer = synchronous(a_question(850.0, 1000.0, spare=0.0))
    assert told(answer) == {1: -0.075}
    answer = synchronous(a_question(850.0, 1000.0, spare=0.05))
    assert told(answer) == {0: 0.05, 1: -0.075}


def test_a_fastest_that_is_behind_real_time_is_not_sped_up() -> None:
    answer = synchronous(a_question(830.0, 840.0, 980.0, deviation_s=inf))
    assert told(answer)[2] == pytest.approx(-(980.0 - 2650.0 / 3) * 0.1 / 100)


def test_the_test_as_printed_corrects_always() -> None:
    assert told(synchronous_as_printed(a_question(1010.0, 990.0))) == {0: -0.01, 1: 0.01}
    assert synchronous_as_printed(a_question()) == ()


def test_the_slowdowns_of_table_2() -> None:
    from koala.lab.papers.synchronous.simulation.setting import (
        slowdown_as_printed,
        slowdown_mean,
        utilization,
    )

    assert slowdown_as_printed() == pytest.approx(100 / 35)
    assert slowdown_mean() == pytest.approx(2 * log(6))
    table = {
        (interarrival, machines): round(
            100 * utilization(machines, interarrival, slowdown=slowdown_as_printed()), 9
        )
        for interarrival in (10, 100, 200, 500)
        for machines in (5, 10, 15, 25)
    }
    assert list(table.values()) == [
        *(750, 375, 250, 150),
        *(75, 37.5, 25, 15),
        *(37.5, 18.75, 12.5, 7.5),
        *(15, 7.5, 5, 3),
    ]
    assert utilization(5, 10, slowdown=slowdown_mean()) == pytest.approx(7.5 * 2 * log(6) * 0.35)
