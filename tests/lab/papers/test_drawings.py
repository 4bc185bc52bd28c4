"""Charts of a reproduction: what they draw beside means, and what they leave out."""

from __future__ import annotations

import csv
from math import isnan
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from koala.lab.papers import figures
from koala.lab.papers.judgement import report
from koala.lab.papers.paper import Difference, Figure, Mark, Panel
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import plan
from koala.lab.sim.campaign.execution import Processes
from tests.lab.papers.toy import PAPER, response

PAIR = Difference(response("quick", 0.9), response("slow", 0.9))


@pytest.fixture(scope="module")
def made() -> Results:
    wanted = plan(PAPER, PAPER.efforts["quick"])
    return report(wanted, wanted.work().execute(engine=Processes(workers=1))).results


def words(panel: Panel, made: Results, folder: Path, note: str = "") -> list[str]:
    """Draw a chart; return the words in it."""
    vector, _ = figures.draw(Figure(1, "Chart", (panel,)), made, folder, note)
    return [text.strip() for text in ET.parse(vector).getroot().itertext() if text.strip()]


def test_a_difference_is_paired_and_may_be_negative(made: Results) -> None:
    found = made.drawn(PAIR)
    assert found.mean == pytest.approx(-3.0, abs=0.1)
    assert found.ci95 < made.interval(PAIR.one).ci95 / 10
    percent = made.drawn(Difference(PAIR.one, PAIR.other, is_relative=True))
    assert percent.mean == pytest.approx(-33, abs=5)
    panel = Panel("less", ("0.9",), {"quick less slow": (PAIR,)})
    (row,) = csv.DictReader(figures.as_csv(Figure(1, "", (panel,)), made).splitlines())
    assert row["setting"] == "quick at 0.9 less slow at 0.9"
    assert float(row["mean"]) == pytest.approx(found.mean, rel=1e-5)
    assert (row["replications"], row["saturated"]) == ("6", "no")


def test_a_line_has_sat_where_the_system_is_saturated(made: Results, tmp_path: Path) -> None:
    line = {"worst": (response("worst", 0.5), response("worst", 0.9))}
    assert words(Panel("", (1.0, 2.0), line), made, tmp_path).count("SAT") == 1
    gap = {"gap": (None, Difference(response("worst", 0.9), response("slow", 0.9)))}
    assert words(Panel("", (1.0, 2.0), gap), made, tmp_path).count("SAT") == 1


def test_numbers_of_the_paper_are_drawn_and_named(made: Results, tmp_path: Path) -> None:
    series = {"slow": (response("slow", 0.5), response("slow", 0.9))}
    marks = (Mark("at most 8", 8), Mark("2 to 4", 2, 4))
    panel = Panel("", (5.0, 25.0), series, marks=marks)
    found = words(panel, made, tmp_path)
    assert {"paper: at most 8", "paper: 2 to 4"} <= set(found)
    assert {"5", "25"} <= set(found), "ticks are at the places of whole numbers"
    assert "7.5" not in found


def test_a_share_of_nothing_is_no_number() -> None:
    percent = Difference(PAIR.one, PAIR.other, is_relative=True)
    assert percent.contrast(3.0, 2.0) == 50
    assert isnan(percent.contrast(3.0, 0.0))
