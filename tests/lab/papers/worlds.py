"""Worlds made up to try a paper's claims: in one the paper is right, in others it is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from koala.lab.papers.paper import Claim, Paper
from koala.lab.papers.results import Results
from koala.lab.papers.verdicts import Verdict, judge
from koala.lab.sim.runs import Effort, Outcome, Run, Setting

World: TypeAlias = Callable[[Any, str], float]
"""What is measured of a setting by a metric."""


def drawn(seed: int) -> World:
    """Return a world in which everything is different from everything."""
    return lambda setting, metric: Random(f"{seed} {setting} {metric}").uniform(-1000.0, 1000.0)


def results(paper: Paper, effort: Effort, claim: Claim, world: World) -> Results:
    """Return the results of three replications where all is just what `world` says."""
    tests = claim.comparisons((*effort.levels, *paper.readings))
    values: dict[Setting, dict[str, float]] = {}
    for one in {quantity for test in tests for quantity in test.of}:
        values.setdefault(one.setting, {})[one.metric] = world(one.setting, one.metric)
    finished = (
        (Run(setting=setting, seed=seed, effort=effort), Outcome(values=found))
        for setting, found in values.items()
        for seed in range(3)
    )
    return Results(finished, diverging=paper.diverging)


def verdict(paper: Paper, effort: Effort, claim: Claim, world: World) -> Verdict:
    """Judge a claim in such a world."""
    return judge(claim, effort.levels, results(paper, effort, claim, world)).verdict
