"""Tables of reports can be read: no cell of any paper's report is long, whatever was measured."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from koala.lab.commands.reproduce import PAPERS
from koala.lab.papers.judgement import Report, judged
from koala.lab.papers.markdown import as_markdown
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import Plan, plan
from koala.lab.sim.runs import Outcome, Run, Setting
from tests.lab.papers.cells import CELL_MAX, longest_cell
from tests.lab.papers.published import paper_of

SEEDS = (1, 2)


def metrics_of(wanted: Plan) -> dict[Setting, set[str]]:
    """Return what claims and figures ask for, by setting."""
    metrics: dict[Setting, set[str]] = {}
    for claim in wanted.claims:
        for one in claim.comparisons((*wanted.effort.levels, *wanted.readings)):
            for quantity in one.of:
                metrics.setdefault(quantity.setting, set()).add(quantity.metric)
    for figure in wanted.figures:
        for quantity in figure.quantities():
            metrics.setdefault(quantity.setting, set()).add(quantity.metric)
    return metrics


def made_up(name: str) -> Report:
    """Report on the full effort of a paper, with two made-up values of every quantity."""
    paper = paper_of(name)
    wanted = plan(paper, paper.efforts["full"])
    metrics = metrics_of(wanted)
    random = Random(name)
    finished = (
        (
            Run(setting=setting, seed=seed, effort=wanted.effort),
            Outcome(
                values={metric: random.uniform(1, 1e5) for metric in sorted(found)},
                is_saturated=random.random() < 0.2,
            ),
        )
        for setting, found in metrics.items()
        for seed in SEEDS
    )
    results = Results(finished, diverging=paper.diverging)
    return judged(wanted, results, finished=0, is_interrupted=False)


@pytest.mark.parametrize("name", PAPERS)
def test_no_cell_of_a_report_is_long(name: str) -> None:
    found = as_markdown(made_up(name))
    assert found.count(" | ") > 300
    assert longest_cell(found) <= CELL_MAX


@pytest.mark.parametrize("name", PAPERS)
def test_reasons_are_parts_of_a_sentence(name: str) -> None:
    reasons = [claim.why_it_fails for claim in paper_of(name).claims]
    assert any(reasons)
    assert not any(reason.endswith(".") for reason in reasons)


LENGTHS = {"koala": 12, "multiqueue": 200, "deadlines": 4000, "hints": 12, "sq": 1, "malleable": 8}


@pytest.mark.parametrize("name", PAPERS)
def test_a_run_measures_every_metric_that_figures_and_claims_ask_for(name: str) -> None:
    """Runs the first setting of each kind and policy."""
    paper = paper_of(name)
    effort = replace(paper.efforts["quick"], replications=1, length=LENGTHS[name])
    asked: dict[tuple[object, ...], tuple[Setting, set[str]]] = {}
    for setting, metrics in metrics_of(plan(paper, effort)).items():
        kind = (type(setting), *(getattr(setting, one, None) for one in ("policy", "has_large")))
        asked.setdefault(kind, (setting, set()))[1].update(metrics)
    for setting, metrics in asked.values():
        values = paper.run(Run(setting=setting, seed=1, effort=effort)).values
        assert metrics <= values.keys(), setting
