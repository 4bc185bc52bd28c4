"""Republishing: reports of published tables are those of the rows, and only new runs are made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from koala.lab.papers import folder as files
from koala.lab.papers import judgement, report
from koala.lab.papers.comparisons import higher
from koala.lab.papers.paper import Claim, Comparison, Difference, Paper
from koala.lab.papers.sweep import Plan, make_runs, plan, swept
from koala.lab.sim.campaign.execution import Campaign, Processes
from koala.lab.sim.runs import Outcome, Run
from tests.lab.papers import republished
from tests.lab.papers.published import PROVENANCE, without_bitmaps
from tests.lab.papers.toy import PAPER as TOY
from tests.lab.papers.toy import response, run

TEXTS = ("report.md", "claims.csv", "figure-01.csv", "figure-01.svg", "figure-02.svg")


def _in_each(text: str, limit: float) -> Claim:
    """Make a claim that the response is below a limit in each run."""
    slow = response("slow", 0.5)
    one = Comparison(
        text=text, of=(slow,), contrast=lambda value: limit - value, is_of_every_run=True
    )
    return Claim(text, lambda _: one, id=f"8-{limit:.0f}")


def _with_notes(one: Run) -> Outcome:
    """Make a run whose numbers have more digits than tables hold."""
    values = {name: 1e6 * value for name, value in run(one).values.items()}
    notes = ("j1 waits; for room; for long", "j2 waits")
    return replace(run(one), values=values, notes=notes)


PAPER = replace(
    TOY,
    run=_with_notes,
    claims=(*TOY.claims, _in_each("never very slow", 1e8), _in_each("never quite slow", 2e6)),
)
"""The toy paper, with claims about every run: one holds, and one fails in some runs."""


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A published reproduction of the toy paper."""
    wanted = plan(PAPER, PAPER.efforts["quick"])
    made = make_runs(wanted, wanted.runs(), Processes(workers=1))
    found = judgement.report(swept(wanted, made))
    report.write(found, tmp_path)
    report.draw(found, tmp_path, progress=lambda _: None)
    files.write_provenance(wanted, made, tmp_path, command="")
    without_bitmaps(tmp_path)
    return tmp_path


def _republish(folder: Path, paper: Paper, monkeypatch: pytest.MonkeyPatch) -> int:
    """Write a report again for another version of the paper; return the number of runs made."""
    made: list[int] = []

    def count(wanted: Plan, runs: list[Run], **_: object) -> Campaign[Run]:
        made.append(len(runs))
        return make_runs(wanted, runs, Processes(workers=1))

    monkeypatch.setattr(republished, "make_runs", count)
    wanted = plan(paper, paper.efforts["quick"])
    monkeypatch.setattr(republished, "plan_of", lambda _: wanted)
    republished.republish(folder)
    return made[0]


def test_the_same_claims_need_no_run_and_keep_their_bytes(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: (published / name).read_bytes() for name in TEXTS}
    assert _republish(published, PAPER, monkeypatch) == 0
    assert {name: (published / name).read_bytes() for name in TEXTS} == before
    text = before["report.md"].decode()
    assert "in each of 6 runs" in text
    assert "  - j1 waits\n    - for room\n    - for long\n  - j2 waits\n" in text
    assert not list(published.glob("*.png"))


def test_a_new_claim_makes_its_runs_and_leaves_the_others_alone(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (published / "claims.csv").read_text(encoding="utf-8").splitlines()
    pair = response("worst", 0.5), response("slow", 0.5)
    new = Claim("New.", lambda _: higher(*pair), id="9-1")
    paper = replace(PAPER, claims=(*PAPER.claims, new))
    assert _republish(published, paper, monkeypatch) == 2 * 6
    after = (published / "claims.csv").read_text(encoding="utf-8").splitlines()
    assert after[: len(before)] == before
    assert all(line.startswith("9-1,") for line in after[len(before) :])
    assert "9-1. New." in (published / "report.md").read_text(encoding="utf-8")
    runs = json.loads((published / PROVENANCE).read_text(encoding="utf-8"))["runs"]
    assert runs["finished"] == runs["wanted"] == len(plan(paper, paper.efforts["quick"]).runs())


def test_a_chart_of_differences_takes_those_that_claims_compare(published: Path) -> None:
    wanted = plan(PAPER, PAPER.efforts["quick"])
    tables = republished.Tables(wanted, published)
    compared = [
        one for claim in PAPER.claims for level in wanted.effort.levels for one in claim.at(level)
    ]
    pair = next(
        one for one in compared if one.text == f"{one.of[0]} < {one.of[-1]}" and len(one.of) == 2
    )
    one, other = pair.of
    found = tables.difference(Difference(one, other))
    assert found is not None
    assert found.mean == -tables.compared(pair).mean
    assert tables.difference(Difference(other, one)) is None
