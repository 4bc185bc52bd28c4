"""A scan of a long queue is cheap: jobs that are alike are placed by one decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.grid import GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.values import UserName
from koala.core.policy_api import Policies
from koala.policies import chosen
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site


class Counted:
    """Close-to-Files, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.policies: Policies = replace(chosen(), place=self.place)

    def place(self, request: PlacementRequest, grid: GridView) -> Placement | Unplaceable:
        self.asked += 1
        return chosen().place(request, grid)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_of_jobs_that_are_alike_one_is_looked_at(begin: Begin, counted: Counted) -> None:
    """With 5 idle at both sites, components of 4 and 4 and 2 have room in sum and each alone."""
    script = begin(counted.policies)
    script.tell(a_site("a", 16, idle=0), a_site("b", 16, idle=0))
    script.tell_together(*(a_job(f"j{n}", 4, 4, 2) for n in range(50)))
    script.at(10).report("a", 5)
    assert counted.asked == 0  # too little is idle in sum: no policy is needed
    script.at(20).report("b", 5)
    assert counted.asked == 1
    assert script.job("j49").placement_tries == 3  # each was tried all the same
    assert 50 in script.scheduler.answers  # and its answer recorded


def test_jobs_that_placement_tells_apart_are_looked_at_each(begin: Begin, counted: Counted) -> None:
    script = begin(counted.policies)
    script.tell(a_site("a", 16, idle=0), a_site("b", 16, idle=0))
    script.tell_together(
        a_job("j1", 4, 4, 2),
        a_job("j2", 4, 2, 4),
        a_job("j3", a_component(4, "a"), 4, 2),
        a_job("j4", 4, 4, 2, owner=UserName("ann")),
        a_job("j5", 4, 4, 2),
    )
    script.at(10).report("a", 5)
    script.at(20).report("b", 5)
    assert counted.asked == 4


def test_when_something_was_placed_the_others_are_looked_at_again(
    begin: Begin, counted: Counted
) -> None:
    """A policy's answer may depend on more than on what is idle."""
    script = begin(counted.policies)
    script.tell(a_site("a", 16, idle=8), a_site("b", 16, idle=5))
    alike = [a_job(f"j{n}", 6, 3, 3) for n in (1, 2, 4)]
    script.tell_together(*alike[:2], a_job("j3", 1), alike[2])
    assert script.claimed("j3") == ["j3/1/0/1"]
    assert counted.asked == 4  # j1, j3, j4 beside it; one of the three alike in the next scan


def test_no_policy_is_asked_when_the_largest_components_do_not_all_fit(
    begin: Begin, counted: Counted
) -> None:
    """With 8 and 5 idle there is room for 12 processors, but for one component of 6 alone."""
    script = begin(counted.policies)
    script.tell(a_site("a", 16, idle=8), a_site("b", 16, idle=5))
    script.tell_together(a_job("j1", 6, 6), a_job("j2", 6, 5))
    assert script.claimed("j2")
    assert counted.asked == 1
    assert script.job("j1").placement_tries == 2
    assert 1 in script.scheduler.answers  # recorded all the same
