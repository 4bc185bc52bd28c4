"""The multiple-queues paper: its claims are whole, its charts are where their policies keep up."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from koala.cli.main import main
from koala.lab.papers.multiqueue import PAPER
from koala.lab.papers.multiqueue.charts import (
    BEYOND,
    EIGHTY,
    FIGURES_9_TO_14,
    HIGH,
    LOW,
    MIDDLE,
    NEAR,
    QUARTERS,
    maximum,
)
from koala.lab.papers.multiqueue.claims import SECOND
from koala.lab.papers.multiqueue.maxima import MAXIMA
from koala.lab.papers.multiqueue.points import Case, Point, large, run, saturation
from koala.lab.papers.multiqueue.simulation.arrivals import StreamJob
from koala.lab.papers.multiqueue.simulation.model import Started
from koala.lab.papers.paper import Comparison
from koala.lab.papers.sweep import plan
from koala.lab.sim.runs import Effort, Outcome, Run

SECTIONS = (
    "1",
    "2.5",
    "3",
    "3.1",
    "3.1.1",
    "3.1.2",
    "3.1.3",
    "3.2.1",
    "3.2.2",
    "3.2.3",
    "3.3",
    "4",
)
TINY = Effort(name="tiny", replications=1, length=200, levels=(LOW, MIDDLE, HIGH, NEAR, BEYOND))


def test_every_section_with_results_has_claims_with_numbers_of_their_own() -> None:
    assert tuple(dict.fromkeys(claim.section for claim in PAPER.claims)) == SECTIONS
    ids = Counter(claim.id for claim in PAPER.claims)
    assert [one for one, count in ids.items() if count > 1] == []
    for section in SECTIONS:
        numbers = [claim.id for claim in PAPER.claims if claim.section == section]
        assert numbers == [f"{section}-{number}" for number in range(1, len(numbers) + 1)]


def test_figures_3_to_18_are_drawn_and_claims_name_no_others() -> None:
    assert [figure.number for figure in PAPER.figures] == list(range(3, 19))
    assert {number for claim in PAPER.claims for number in claim.figures} == set(range(3, 19))


def test_every_claim_compares_something_near_saturation() -> None:
    for claim in PAPER.claims:
        near = [level for level in PAPER.efforts["quick"].levels if level.is_near]
        assert any(claim.at(level) for level in near), claim.id


AS_DRAWN = ("3.2.1-19", "3.2.1-20")
"""Claims about charts as the paper draws them, each at its own utilisation."""


def test_mixes_are_compared_at_one_utilisation() -> None:
    """Otherwise a difference might be that of the loads."""
    for claim in PAPER.claims:
        of_mixes = [one for one in claim.comparisons(TINY.levels) if len(_cases(one)) > 1]
        loads = [{point.utilization for point in _settings(one)} for one in of_mixes]
        assert claim.id in AS_DRAWN or all(len(one) == 1 for one in loads), claim.id


def test_every_chart_stands_below_the_maxima_of_its_policies() -> None:
    """But for the second charts, and runs that are overloaded on purpose (2.5, 3.2.1-9)."""
    second = {point for chart in FIGURES_9_TO_14 for point in _points(chart.at(BEYOND))}
    for setting in plan(PAPER, TINY).settings():
        assert isinstance(setting, Point)
        most = _maximum(setting)
        is_one_of_several = setting.case == QUARTERS and setting.utilization in SECOND
        if setting not in second and not is_one_of_several and setting.utilization > most:
            assert setting.utilization == pytest.approx(1.1 * most, abs=0.006)


def test_a_second_chart_has_policies_on_both_sides_of_saturation() -> None:
    for chart in FIGURES_9_TO_14:
        view = chart.at(BEYOND)
        assert view is not None
        maxima = [maximum(chart.case, policy) for policy in chart.policies]
        assert min(maxima) <= view.utilization <= max(maxima)


def test_large_jobs_are_the_tenth_with_most_processors_of_each_kind() -> None:
    jobs = [
        Started(number, StreamJob(at=0.0, service=1.0, sizes=sizes, home=0), 0, at, (0,))
        for number, (sizes, at) in enumerate(
            [
                *(((size % 8 + 1,), float(size)) for size in range(20)),
                ((1, 1), 50.0),
                ((3, 1), 70.0),
            ]
        )
    ]
    assert large(jobs) == {"response.large-single": 1 + (7 + 15) / 2, "response.large-multi": 71.0}


def test_reversed_local_queues_change_what_depends_on_their_order_alone() -> None:
    effort = Effort(name="tiny", replications=1, length=4000, levels=TINY.levels)

    def queues(policy: str, *, is_reversed: bool) -> list[float]:
        point = Point(policy=policy, case=EIGHTY, utilization=0.8, is_reversed=is_reversed)
        values = run(Run(setting=point, seed=1, effort=effort)).values
        return [values[f"response.queue{number}"] for number in range(1, 5)]

    forward, backward = (queues("LS-OR", is_reversed=one) for one in (False, True))
    assert forward[0] < forward[3]
    assert backward[0] > backward[3], "the queue that is visited first is favoured"
    for policy in ("GP", "LP-GF", "EQ-GF"):
        assert queues(policy, is_reversed=False) == queues(policy, is_reversed=True)


def test_what_loses_a_twentieth_of_its_jobs_is_saturated_and_what_keeps_up_is_not() -> None:
    effort = Effort(name="tiny", replications=2, length=4000, levels=TINY.levels)

    def is_saturated(policy: str, utilization: float) -> bool:
        point = Point(policy=policy, case=QUARTERS, utilization=utilization)
        return saturation([run(Run(setting=point, seed=s, effort=effort)) for s in (1, 2)])

    assert is_saturated("GP", 1.0)
    assert is_saturated("LS-DO", 1.0)
    assert not is_saturated("LS-DO", 0.6)


def test_a_short_run_that_still_fills_is_not_saturated() -> None:
    def filling(growth: float) -> Outcome:
        values = {"trend.score": 190.0, "trend.windows": 20.0, "trend.growth": growth}
        return Outcome(values=values)

    assert not saturation([filling(0.004)] * 6)
    assert saturation([filling(0.006)] * 6)


def test_a_figure_is_reproduced_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "multiqueue", "--figure", "15", "--out", str(tmp_path / "out")]
    assert main([*words, "--reps", "2", "--length", "300", "--workers", "1"]) == 0
    told = capsys.readouterr().out
    assert re.match(r"\d+ claims: ", told)
    assert told.rstrip().endswith("report.md")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    figure = [f"figure-15.{kind}" for kind in ("csv", "png", "svg")]
    rest = ["provenance.json", "report.md", "runs.jsonl"]
    assert names == ["claims.csv", *figure, *rest]
    table = (tmp_path / "out" / "figure-15.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["x"] for row in rows] == ["GS", "LS-DO", "LS-DO"] * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tetris"], "tetris (expected"),
        (["multiqueue", "--figure", "2"], "--figure 2 (expected one of 3, 4"),
        (["multiqueue", "--length", "0"], "--length 0 (expected a number from 1"),
        (["multiqueue", "--quick", "--full"], "--quick and --full cannot be combined"),
    ],
)
def test_what_cannot_be_reproduced_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert said in capsys.readouterr().err


def _points(view: object) -> set[Point]:
    from koala.lab.papers.multiqueue.charts import View

    assert isinstance(view, View)
    found = {view.total(policy).setting for policy in view.chart.policies}
    return {point for point in found if isinstance(point, Point)}


def _maximum(point: Point) -> float:
    """Return the maximum of a policy; one that equals another has the other's."""
    known = MAXIMA[point.case.mix, point.case.is_balanced]
    return known.get(point.policy, known["LS-DO" if point.case.mix[0] else "GS"])


def _settings(comparison: Comparison) -> list[Point]:
    return [one.setting for one in comparison.of if isinstance(one.setting, Point)]


def _cases(comparison: Comparison) -> set[Case]:
    return {point.case for point in _settings(comparison)}
