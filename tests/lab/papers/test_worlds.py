"""A paper's claims hold in a world where the paper is right, and each can fail."""

from __future__ import annotations

from typing import Any

import pytest

from koala.lab.papers.paper import Claim
from koala.lab.papers.verdicts import Verdict
from tests.lab.papers import test_deadlines, test_hints, test_koala, test_malleable, test_sq
from tests.lab.papers.published import paper_of
from tests.lab.papers.worlds import World, drawn, verdict

RIGHT: dict[str, Any] = {
    "koala": test_koala,
    "deadlines": test_deadlines,
    "hints": test_hints,
    "sq": test_sq,
    "malleable": test_malleable,
}
"""Modules with a world in which all sentences of a paper are right, and with an effort."""


def upside_down(world: World) -> World:
    """Turn results upside down: high becomes low."""
    return lambda setting, metric: 1000.0 - world(setting, metric)


@pytest.mark.parametrize(
    ("name", "claim"),
    [pytest.param(name, claim, id=claim.id) for name in RIGHT for claim in paper_of(name).claims],
)
def test_a_claim_holds_where_the_paper_is_right_and_not_everywhere(name: str, claim: Claim) -> None:
    paper, effort, right = paper_of(name), RIGHT[name].TINY, RIGHT[name].as_the_paper_says
    assert verdict(paper, effort, claim, right) is Verdict.HOLDS
    wrong = (upside_down(right), *map(drawn, range(5)))
    assert {verdict(paper, effort, claim, world) for world in wrong} != {Verdict.HOLDS}


@pytest.mark.parametrize("name", RIGHT)
def test_every_claim_has_its_own_name_and_is_tested_near_saturation(name: str) -> None:
    paper, levels = paper_of(name), RIGHT[name].TINY.levels
    names = [one.id for one in (*paper.claims, *paper.untestable)]
    assert len(names) == len(set(names))
    for claim in paper.claims:
        assert claim.id.startswith(f"{claim.section}-"), claim.id
        assert any(claim.at(level) for level in levels if level.is_near), claim.id
