"""Tests of the policies: python -m pytest test_my_policy.py."""

from __future__ import annotations

from my_policy import most_idle, small_first

from koala.common.protocol.ordering import QueuedJob, in_order
from koala.core.model.grid import GridView, Part, Placement, PlacementRequest, SiteView
from koala.core.model.values import SiteName, UserName


def a_job(processors: int, estimate_s: float, waited_s: float = 0.0) -> QueuedJob:
    return QueuedJob(user="ann", processors=processors, estimate_s=estimate_s, waited_s=waited_s)


def test_small_jobs_go_first_but_nobody_waits_much_longer_than_an_hour() -> None:
    jobs = {"large": a_job(8, 600.0), "small": a_job(1, 60.0), "old": a_job(64, 600.0, 4000.0)}
    assert list(in_order(jobs, small_first)) == ["old", "small", "large"]


def test_components_go_to_the_emptiest_sites() -> None:
    sites = [SiteView(name=SiteName(name), processors=64, idle=idle) for name, idle in IDLE.items()]
    view = GridView(sites, replicas={}, bandwidth={}, bandwidth_default=1.0)
    parts = tuple(Part(component=n, processors=size) for n, size in enumerate((4, 16)))
    answer = most_idle(PlacementRequest(parts=parts, user=UserName("ann")), view)
    assert isinstance(answer, Placement)
    assert {one.component: one.site for one in answer.assignments} == {1: "delft", 0: "vu"}


IDLE = {"vu": 20, "delft": 24}
