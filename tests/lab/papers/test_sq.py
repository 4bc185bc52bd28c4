"""The synchronous-queuing paper: what is run, what is claimed, that a claim can fail, and what
readings do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from koala.lab.papers.paper import Claim
from koala.lab.papers.synchronous import PAPER
from koala.lab.papers.synchronous.points import LEVELS, Point, arithmetic, run
from koala.lab.papers.verdicts import Verdict
from koala.lab.sim.runs import Arithmetic, Effort, Run, Setting
from tests.lab.papers import worlds
from tests.lab.papers.worlds import check_claims

TINY = Effort(name="tiny", replications=2, length=1, levels=LEVELS)
results = partial(worlds.results, PAPER, TINY)
verdict = partial(worlds.verdict, PAPER, TINY)


def as_the_paper_says(setting: Setting, metric: str) -> float:
    """All of its sentences are right here."""
    if isinstance(setting, Arithmetic):
        return {**arithmetic(), "slowdown": 1.0}[metric]
    assert isinstance(setting, Point)
    is_sq, is_dense = setting.scheme == "SQ", setting.interarrival_s == 10.0
    sparse = {10.0: 1.0, 100.0: 1.2, 200.0: 1.5, 500.0: 2.0}[setting.interarrival_s]
    skew = (50 if is_sq else 200) * sparse + setting.machines
    quality = (0.9 if is_sq else 0.5) - (0.0 if is_dense else 0.05 if is_sq else 0.2)
    more = is_sq if is_dense else not is_sq
    beta = setting.reading.beta if is_sq else 0.0
    values = {
        "skew_eq2": skew,
        "skew_finish": skew,
        "qos_conformance": quality,
        "effective_cycles": quality,
        "conforming_tasks": quality,
        "synchronous_tasks": quality,
        "acceptance_ratio": 0.01 * setting.machines + 0.1 * more + beta,
        "rate": 1.0 if is_dense else 0.1,
        "ahead": 0.0 if is_dense else 0.5,
        "corrections": 10.0 if is_dense else 100.0,
        "stay": 1.0 if is_sq else 0.5,
    }
    return values[metric.removesuffix(".several")]


def flat(_setting: Setting, _metric: str) -> float:
    """Nothing makes a difference."""
    return 5.0


def contrary(setting: Setting, metric: str) -> float:
    """Turn the paper's results upside down: high becomes low."""
    return 1000.0 - as_the_paper_says(setting, metric)


@pytest.mark.parametrize("claim", PAPER.claims, ids=lambda claim: claim.id)
def test_a_claim_holds_where_the_paper_is_right_and_fails_where_it_is_not(claim: Claim) -> None:
    assert verdict(claim, as_the_paper_says) is Verdict.HOLDS
    assert verdict(claim, flat) is not Verdict.HOLDS
    assert verdict(claim, contrary) is Verdict.FAILS


def test_every_claim_has_its_own_name_and_is_tested_where_the_charts_are() -> None:
    check_claims(PAPER, TINY)


def test_tasks_come_more_often_where_there_are_more_of_them() -> None:
    effort = Effort(name="more", replications=1, length=20, levels=LEVELS)
    point = Point(scheme="QoS", machines=5, interarrival_s=10.0)
    assert run(Run(setting=point, seed=1, effort=effort)).values["tasks"] == 60
    sparse = replace(point, interarrival_s=500.0)
    found = run(Run(setting=sparse, seed=1, effort=effort)).values
    assert found["tasks"] == 20
    assert 0 < found["ahead"] < 1
    assert 0 < found["stay"] < 1
