"""A whole reproduction of a toy: each claim told, failing ones as failing; figures stay equal."""

import csv
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from koala.errors import ConfigError
from koala.lab.papers import figures, judgement, report
from koala.lab.papers.claim_table import decisive
from koala.lab.papers.markdown import as_markdown
from koala.lab.papers.paper import Comparison
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import plan
from koala.lab.papers.tables import as_csv, document
from koala.lab.papers.verdicts import Finding, Verdict
from koala.lab.sim.campaign.execution import Processes
from koala.lab.sim.statistics import Interval
from tests.lab.papers.toy import PAPER, run

WHOLE = plan(PAPER, PAPER.efforts["quick"])


@pytest.fixture(scope="module")
def made() -> judgement.Report:
    return judgement.report(WHOLE, WHOLE.work().execute(engine=Processes(workers=1)))


def test_each_verdict_is_reached(made: judgement.Report) -> None:
    verdicts = {found.claim.id: found.verdict for found in made.claims}
    assert verdicts == {
        "1-1": Verdict.HOLDS,
        "1-2": Verdict.NEAR,
        "1-3": Verdict.FAILS,
        "2-1": Verdict.UNDECIDED,
        "2-2": Verdict.HOLDS,
        "2-3": Verdict.FAILS,
    }


def test_the_report_tells_every_claim_with_its_verdict_and_numbers(made: judgement.Report) -> None:
    lines = as_markdown(made).splitlines()
    for found in made.claims:
        (row,) = [line for line in lines if line.startswith(f"| {found.claim.id}. ")]
        assert found.claim.text in row
        assert str(found.verdict) in row
        assert " ± " in row or "SAT" in row
    told = "A claim that says how much has two verdicts, of its *direction* and of its *size*."
    assert f"6 claims. Not testable here: 1. {told}" in lines
    counted = [
        line for line in lines if line.startswith(("| **all**", "| *direction*", "| *size*"))
    ]
    assert counted == [
        "| **all** | 6 | 2 | 1 | 1 | 2 |",
        "| *direction* | 6 | 2 | 2 |  | 2 |",
        "| *size* | 1 |  |  | 1 |  |",
    ]
    counts = "6 claims: 2 hold, 1 hold only near saturation, 1 undecided, 2 fail."
    assert report.summary(made).startswith(
        f"{counts} Not testable here: 1. Direction, of 6: 2 hold"
    )


def test_a_row_has_the_load_and_the_comparison_that_decide(made: judgement.Report) -> None:
    rows = [line.strip("| ").split(" | ") for line in as_markdown(made).splitlines()]
    told = {row[0].split(".")[0]: row[3:] for row in rows if len(row) == 7}
    assert told["1-1"][1:] == ["worst 0.9 > quick 0.9", "SAT, 6.5 ± 1.3; by saturation", "1 hold"]
    assert told["2-1"][:2] == [
        "*high*: 1 hold, 1 undecided",
        "quick 0.9 < slow 0.9 by at least 50 %",
    ]
    assert told["2-1"][3] == "1 fail"
    assert told["2-2"][:2] == [
        "*high*: 2 hold, 1 fail; more than half must hold",
        "slow 0.5 < 1.10 × quick 0.5",
    ]
    assert told["2-3"][1] == "right: quick 0.9 > slow 0.9"


def test_what_is_not_testable_is_listed_with_the_reason(made: judgement.Report) -> None:
    row = "| 3 | 3-1. users like it | there are no users |"
    assert row in as_markdown(made).splitlines()
    assert [one["id"] for one in document(made)["not_testable"]] == ["3-1"]


def test_a_claim_that_fails_is_reported_as_failing_everywhere(made: judgement.Report) -> None:
    (row,) = [line for line in as_markdown(made).splitlines() if "| 1-3. " in line]
    assert "**fails**" in row
    assert "- 1-3. *Why it fails:* quick is quick." in as_markdown(made).splitlines()
    assert "fails: 1-3 quick is slower" in report.summary(made)
    (claim,) = [one for one in document(made)["claims"] if one["id"] == "1-3"]
    assert (claim["verdict"], claim["why_it_fails"]) == ("fails", "quick is quick")
    rows = list(csv.DictReader(as_csv(made).splitlines()))
    assert {row["claim_verdict"] for row in rows if row["claim"] == "1-3"} == {"fails"}


def test_a_failure_of_which_the_reason_is_unknown_is_told_so(made: judgement.Report) -> None:
    claims = [replace(one, claim=replace(one.claim, why_it_fails="")) for one in made.claims]
    without = replace(made, claims=tuple(claims))
    assert "- 1-3. *Why it fails:* not found out." in as_markdown(without).splitlines()


def test_a_claim_about_several_charts_has_a_verdict_for_each(made: judgement.Report) -> None:
    lines = as_markdown(made).splitlines()
    (at,) = [number for number, line in enumerate(lines) if "*Chart by chart:*" in line]
    assert lines[at - 1].startswith("- 2-3. "), "the item goes on in a line of its own"
    assert lines[at] == "  *Chart by chart:* holds in left. fails in right."
    (claim,) = [one for one in document(made)["claims"] if one["id"] == "2-3"]
    assert claim["levels"][-1]["charts"] == {"left": "holds", "right": "fails"}


def test_one_figure_needs_its_own_settings_and_claims_alone() -> None:
    part = plan(PAPER, PAPER.efforts["quick"], figure=2)
    assert [one.id for one in part.claims] == ["1-3"]
    assert len(part.settings()) == 4
    with pytest.raises(ConfigError, match=r"--figure 7 \(expected one of 1, 2 for toy"):
        plan(PAPER, PAPER.efforts["quick"], figure=7)


def test_a_drawing_marks_what_is_saturated_and_names_its_series(
    made: judgement.Report, tmp_path: Path
) -> None:
    vector, _ = figures.draw(PAPER.figures[0], made.results, tmp_path)
    words = [text.strip() for text in ET.parse(vector).getroot().itertext()]
    assert "SAT" in words
    assert {"slow", "quick", "worst", "0.5", "0.9"} <= set(words)


def test_the_table_behind_a_figure_has_a_line_for_each_point(made: judgement.Report) -> None:
    rows = list(csv.DictReader(figures.as_csv(PAPER.figures[0], made.results).splitlines()))
    assert len(rows) == 6
    (worst,) = [row for row in rows if row["setting"] == "worst at 0.9"]
    assert (worst["mean"], worst["saturated"]) == ("", "yes")
    (slow,) = [row for row in rows if row["setting"] == "slow at 0.9"]
    assert float(slow["ci95"]) > 0
    assert slow["replications"] == "6"


def test_an_interrupted_sweep_is_told_with_what_is_finished() -> None:
    runs = WHOLE.runs()[:9]
    results = Results(((one, run(one)) for one in runs), diverging=PAPER.diverging)
    partial = judgement.judged(WHOLE, results, finished=len(runs), is_interrupted=True)
    text = as_markdown(partial)
    assert "**Interrupted** after 9 of 36 runs" in text
    assert ".svg" not in text, "no figure is drawn"
    assert text.count("| 1-3. ") == 1


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_comparison_that_decides_is_the_worst_whatever_the_order(*, is_reversed: bool) -> None:
    """One in which both sides are exactly the same in each run is neither for nor against."""

    def finding(text: str, mean: float, ci95: float) -> Finding:
        compared = Comparison(text=text, of=(), contrast=float)
        difference = Interval(mean=mean, ci95=ci95, values=3)
        return Finding(
            comparison=compared, means=(), difference=difference, verdict=Verdict.UNDECIDED
        )

    found = [finding("for", 2.0, 1.0), finding("same", 0.0, 0.0), finding("against", -2.0, 1.0)]
    if is_reversed:
        found.reverse()
    assert decisive(found).comparison.text == "against"
    assert decisive(found[1:]).comparison.text == ("same" if is_reversed else "against")
