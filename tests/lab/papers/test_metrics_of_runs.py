"""A run measures every metric that figures and claims of its paper ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.lab.commands.reproduce import PAPERS
from koala.lab.papers.sweep import Plan, plan
from koala.lab.sim.runs import Run, Setting
from tests.lab.papers.published import paper_of


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
