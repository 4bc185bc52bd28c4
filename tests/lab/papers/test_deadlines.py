"""The deadlines paper: what is run, what is claimed, and that a claim can fail."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan

import pytest

from koala.lab.papers.deadlines import PAPER
from koala.lab.papers.deadlines.points import (
    LEAD_BINS_S,
    LEVELS,
    READINGS,
    Beginning,
    Point,
    Watched,
    at,
    run,
)
from koala.lab.papers.paper import parts_of
from koala.lab.papers.results import Results
from koala.lab.sim.runs import ARITHMETIC, Arithmetic, Effort, Outcome, Quantity, Run, Setting

TINY = Effort(name="tiny", replications=2, length=4000.0, levels=LEVELS)


def told(point: Point, metric: str) -> float:
    """Return the paper's values at a point: the shape of its curves, in numbers of ours."""
    is_full = point.local_load + point.global_load > 0.99
    far = min(point.wait_s, 1800.0 if point.lead_s is None else point.lead_s) / 1800
    early = 0.0 if point.wait_s <= 100 else far * (1.2 - point.fraction)
    loss = 60 * point.global_load * early + 4 * early
    if is_full and point.fraction == 1.0:
        loss += 3
    if point.policy == "LP":
        loss += 20 + (40 if point.local_load > 0.5 else 0)
    if point.local_load > 0 and 0 < point.fraction < 1 and point.local_load not in (0.3, 0.6):
        loss = 0.0  # figure 7: about the same
    waste = 0.0 if point.fraction == 1 else 60 * (1.1 - point.fraction) * (0.5 + far)
    values = {
        "success_rate": 95 - loss,
        "fail_rate": 5 + loss,
        "local_kill_rate": 0.0 if point.policy == "LP" else 1 + 9 * early,
        "global_load": 0.9 * (95 - loss) * point.global_load,
        "local_load": 90 * point.local_load,
        "wasted": waste,
        "total_load": 90 * point.local_load + 0.9 * (95 - loss) * point.global_load + waste,
        "local_response": 100.0 * (1 + (100 * early if point.policy == "GP" else 0)),
    }
    values["measured_response"] = values["local_response"]
    values["killed_of_ended"] = values["local_kill_rate"]
    return values[metric]


def as_the_paper_says(setting: Setting, metric: str) -> float:
    """All of its sentences are right here."""
    match setting:
        case Point():
            return told(setting, metric)
        case Watched(point=point):
            is_zero = point.wait_s == 0
            if metric.startswith("success.lead."):
                return 95 if point.wait_s <= 100 else 80
            return {
                "tries": 2 + (point.wait_s > 100),
                "most_tries": 1 if is_zero else 5,
                "later_try": 0 if is_zero else 20,
                "overtaken": 30,
            }.get(metric, 25)
        case Beginning(point=point):
            return {
                "success.first": 99 - point.fraction,
                "success.later": 60,
                "load.first": 20,
                "load.later": 90 - 40 * point.fraction,
                "wasted.first": 5,
                "taken.later": 60 - 10 * point.fraction,
            }[metric]
        case Arithmetic():
            return run(Run(setting=ARITHMETIC, seed=1, effort=TINY)).values[metric]
        case _:
            raise AssertionError(setting)


def test_a_watched_run_tells_of_single_jobs() -> None:
    zero = run(Run(setting=Watched(point=Point(policy="LP", wait_s=0.0)), seed=1, effort=TINY))
    assert zero.values["tries"] == zero.values["most_tries"] == 1.0
    assert zero.values["later_try"] == 0.0
    effort = Effort(name="more", replications=1, length=40_000.0, levels=LEVELS)
    pure = run(Run(setting=Watched(point=Point(wait_s=inf)), seed=1, effort=effort)).values
    assert 0.0 < pure["overtaken"] < 100.0
    assert abs(sum(pure[f"share.{site}"] for site in range(4)) - 100.0) < 1e-9


def test_the_short_runs_from_an_empty_grid_are_different_ones() -> None:
    beginning = Beginning(point=Point(fraction=0.1, global_load=0.4))
    effort = Effort(name="two", replications=1, length=72_000.0, levels=LEVELS)
    single = Effort(name="one", replications=1, length=36_000.0, levels=LEVELS)
    both, one = (run(Run(setting=beginning, seed=1, effort=e)).values for e in (effort, single))
    assert both["success.later"] != one["success.later"]
    assert both["success.first"] > both["success.later"]
    assert both["load.first"] < both["load.later"]


def test_what_moves_without_bound_is_drawn_but_not_compared() -> None:
    drawn = [
        {quantity.metric for _, _, one in panel.points for quantity in parts_of(one)}
        for panel in PAPER.figures[7].panels
    ]
    assert drawn == [{"local_response"}, {"measured_response"}]
    point = Quantity(Point(), "local_response")
    finished = [
        (
            Run(setting=Point(), seed=1, effort=TINY),
            Outcome(values={"local_response": 9.0, "measured_response": 9.0}, is_saturated=True),
        )
    ]
    results = Results(finished, diverging=PAPER.diverging)
    assert results.is_divergent(point)
    assert not results.is_divergent(Quantity(Point(), "measured_response"))


def test_a_reading_is_compared_with_the_same_loads_as_read() -> None:
    for reading in READINGS:
        as_read = PAPER.readings_at[reading]
        assert [str(one) for one in as_read] == [str(one) for one in reading.levels]
        assert all(one in LEVELS and one.is_near for one in as_read)
        level = reading.levels[0]
        assert at(level) != at(as_read[0])
        assert at(level) == replace(at(as_read[0]), policy=level.policy, reading=level.reading)


def test_jobs_count_in_the_class_of_their_own_lead() -> None:
    effort = Effort(name="one", replications=1, length=40_000.0, levels=LEVELS)
    uniform = Watched(point=Point(policy="LP", global_load=0.4))
    values = run(Run(setting=uniform, seed=1, effort=effort)).values
    for _, high_s in LEAD_BINS_S:
        assert 0 <= values[f"success.lead.{high_s:g}"] <= 100
    one_lead = Watched(point=Point(policy="LP", global_load=0.4, lead_s=300.0))
    values = run(Run(setting=one_lead, seed=1, effort=effort)).values
    assert values["success.lead.300"] == pytest.approx(values["success_rate"], abs=1)
    assert isnan(values["success.lead.900"])
