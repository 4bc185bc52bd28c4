"""Flexible jobs: the scheduler splits a total over the sites, anew at each placement."""

from __future__ import annotations

from typing import Any

import pytest

from koala.common.protocol.messages import SiteResources
from koala.core.model.actions import ClaimProcessors, PublishOutputs, StopClaim, TryPaths
from koala.core.model.allowances import Allowance, user_payer
from koala.core.model.events import AllowancesSet, PathsTried
from koala.core.model.job import EndKind, Queued
from koala.core.model.values import ClaimId, JobId, SiteName, TcpPath
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_flexible_job, a_job, a_site
from tests.harness.script import Script


def shape(script: Script, name: str) -> list[tuple[str, int]]:
    """Expect the claims of a job: their sites and processors."""
    asked = [a for _, a in script.open if isinstance(a, ClaimProcessors)]
    mine = [(str(a.site), a.processors) for a in asked if a.claim.startswith(f"{name}/")]
    script.claimed(name)
    return mine


def grid(script: Script, **sizes: int) -> Script:
    return script.tell(*(a_site(name, size) for name, size in sizes.items()))


def test_the_emptiest_sites_are_filled_first(script: Script) -> None:
    grid(script, a=8, b=20, c=12).tell(a_flexible_job("j1", 24))
    assert shape(script, "j1") == [("b", 20), ("c", 4)]


def test_no_component_is_smaller_than_its_bound(script: Script) -> None:
    """The first site gives way to what is left for the second."""
    grid(script, a=8, b=20, c=12).tell(a_flexible_job("j1", 24, part_min=6))
    assert shape(script, "j1") == [("b", 18), ("c", 6)]


def test_a_site_gets_several_components_of_the_largest_size(script: Script) -> None:
    grid(script, a=8, b=20).tell(a_flexible_job("j1", 24, part_max=7))
    assert shape(script, "j1") == [("b", 7), ("b", 7), ("b", 6), ("a", 4)]


def test_distinct_sites_have_one_component_each(script: Script) -> None:
    grid(script, a=8, b=20, c=7).tell(a_flexible_job("j1", 18, part_max=7, distinct=True))
    assert shape(script, "j1") == [("a", 7), ("b", 7), ("c", 4)]


def test_a_job_waits_while_its_bounds_leave_no_way(script: Script) -> None:
    grid(script, a=8, b=8, c=8).tell(a_flexible_job("j1", 20, parts_max=2))
    assert script.phase("j1") == "Placing"
    script.tell(a_site("d", 12))
    assert shape(script, "j1") == [("d", 12), ("a", 8)]


def test_processes_of_several_processors_stay_whole(script: Script) -> None:
    job = a_flexible_job("j1", 24, step=4, component={"cpus_per_task": 4})
    grid(script, a=11, b=18).tell(job)
    assert shape(script, "j1") == [("b", 16), ("a", 8)]


def test_a_site_of_whole_machines_is_filled_by_machines(script: Script) -> None:
    machines = SiteResources(unit=8, host_processors=8)
    script.tell(a_site("a", 32, idle=20, resources=machines), a_site("b", 6))
    script.tell(a_flexible_job("j1", 20))
    assert shape(script, "j1") == [("a", 16), ("b", 4)]


def test_a_refused_share_is_split_anew_and_the_rest_is_kept(script: Script) -> None:
    grid(script, a=8, b=8, c=8).tell(a_flexible_job("j1", 24))
    assert shape(script, "j1") == [("a", 8), ("b", 8), ("c", 8)]
    script.grant("j1/1/0/1", "j1/1/1/1").tell(a_site("d", 5), a_site("e", 4))
    script.refuse("j1/1/2/1")
    assert shape(script, "j1") == [("d", 5), ("e", 3)], script.story("j1")
    assert "splits 8 processors anew: d (5), e (3)" in script.story("j1")
    script.grant("j1/1/2/2", "j1/1/3/1")
    assert script.phase("j1") == "Starting"
    assert [c.processors for c in script.job("j1").spec.components] == [8, 8, 5, 3]
    script.drop()


def test_a_share_without_an_answer_is_split_anew_after_its_grace_time(script: Script) -> None:
    """Its site may be away: the claim that it was asked for is stopped, and never starts."""
    grid(script, a=8, b=8, c=8).tell(a_flexible_job("j1", 24))
    assert shape(script, "j1") == [("a", 8), ("b", 8), ("c", 8)]
    script.grant("j1/1/0/1", "j1/1/1/1").tell(a_site("d", 5), a_site("e", 4)).disconnect("c")
    script.after(6)
    assert shape(script, "j1") == [("d", 5), ("e", 3)], script.story("j1")
    script.expect(StopClaim, claim="j1/1/2/1")
    script.grant("j1/1/2/1").grant("j1/1/2/2", "j1/1/3/1")
    assert script.phase("j1") == "Starting"
    _, armed = script.armings("j1")
    assert sorted(armed) == ["j1/1/0/1", "j1/1/1/1", "j1/1/2/2", "j1/1/3/1"]
    script.drop().gone("j1/1/2/1").drop()
    assert script.phase("j1") == "Starting"


@pytest.mark.parametrize("kind", [EndKind.FAILED, EndKind.SITE, EndKind.FENCED])
def test_a_share_whose_site_is_lost_while_others_are_claimed_is_split_anew(
    kind: EndKind, script: Script
) -> None:
    grid(script, a=8, b=8, c=8).tell(a_flexible_job("j1", 24))
    assert shape(script, "j1") == [("a", 8), ("b", 8), ("c", 8)]
    script.grant("j1/1/0/1", "j1/1/1/1").tell(a_site("d", 9)).gone("j1/1/1/1", kind)
    assert shape(script, "j1") == [("d", 8)], script.story("j1")
    script.grant("j1/1/1/2", "j1/1/2/1")
    assert (script.phase("j1"), script.job("j1").attempts) == ("Starting", 1)
    script.drop()


def test_without_room_for_a_refused_share_the_whole_job_is_split_anew(script: Script) -> None:
    """Claims of the older attempt, which had more components, are stopped."""
    grid(script, a=8, b=8, c=8).tell(a_flexible_job("j1", 24, parts_max=3))
    assert shape(script, "j1") == [("a", 8), ("b", 8), ("c", 8)]
    script.grant("j1/1/0/1", "j1/1/1/1").tell(a_site("d", 5), a_site("e", 4))
    script.refuse("j1/1/2/1")
    assert "anew" not in script.story("j1")
    script.drop().tell(a_site("d", 30)).at(300)
    assert script.job("j1").attempts > 1, script.story("j1")
    assert ("d", 24) in shape(script, "j1")
    script.drop()
    script.gone("j1/1/0/1").gone("j1/1/1/1").drop()


def test_a_whole_run(script: Script) -> None:
    grid(script, a=8, b=16).tell(a_flexible_job("j1", 20))
    claims = script.running("j1")
    assert len(claims) == 2
    for claim in claims:
        script.exits(claim)
    script.expect(PublishOutputs)
    assert script.phase("j1") == "Finished"


def test_a_malleable_job_starts_with_what_it_can_have(script: Script) -> None:
    job: dict[str, Any] = {"least": 6, "part_min": 4, "is_malleable": True}
    grid(script, a=5, b=3).tell(a_flexible_job("j1", 24, **job))
    assert script.phase("j1") == "Placing"
    script.tell(a_site("c", 9, idle=7))
    assert shape(script, "j1") == [("c", 7), ("a", 5)]
    assert script.job("j1").processors == 12


def test_the_limit_of_its_user_leaves_a_malleable_job_less(script: Script) -> None:
    script.tell(AllowancesSet(allowances=((user_payer(""), Allowance(processors=10)),)))
    grid(script, a=64).tell(a_flexible_job("j1", 24, least=8, is_malleable=True))
    assert shape(script, "j1") == [("a", 10)]
    script.tell(a_flexible_job("j2", 24, least=8, is_malleable=True))
    assert script.phase("j2") == "Placing"


def test_equal_jobs_of_one_scan_are_refused_together(script: Script) -> None:
    grid(script, a=8).tell(a_flexible_job("j1", 12), a_flexible_job("j2", 12), a_job("j3", 8))
    assert shape(script, "j3") == [("a", 8)]


def test_in_local_queues_a_job_is_split_over_sites_as_if_they_were_idle(begin: Begin) -> None:
    script = begin(chosen(tickets="dodge"))
    for name, size in (("a", 8), ("b", 16)):
        script.tell(a_site(name, size, idle=0, gate="qhold")).report(name, 0, local=size)
    script.tell(a_flexible_job("j1", 20))
    assert isinstance(script.job("j1").phase, Queued)
    assert set(shape(script, "j1")) == {("b", 16), ("a", 4)}
    script.tell(a_site("c", 32))
    assert script.placed_on("j1") == [SiteName("c")], script.story("j1")
    assert shape(script, "j1") == [("c", 20)]
    script.take(StopClaim)


def test_a_total_goes_to_the_sites_that_programs_found_close(begin: Begin) -> None:
    """A first job measures the round trips from site to site; the emptiest site is far."""
    script = begin(chosen(placement="communication"))
    grid(script, a=8, b=8, c=10)
    connect = (TcpPath(source="all", target="all", port=29500),)
    script.tell(a_flexible_job("j1", 26, connect=connect))
    claims = dict(zip("cab", script.claimed("j1"), strict=True))
    script.grant(*claims.values())
    script.take(TryPaths)
    for here, claim in claims.items():
        trips = [(ClaimId(claims[to]), 0.2 if "c" in here + to else 0.001) for to in claims]
        reached = tuple([trip for trip in trips if trip[0] != claim])
        script.tell(PathsTried(claim=ClaimId(claim), reached=reached))
    script.released("j1")
    script.passed(*claims.values())
    for claim in claims.values():
        script.exits(claim)
    script.expect(PublishOutputs)
    script.tell(a_flexible_job("j2", 12))
    assert shape(script, "j2") == [("a", 8), ("b", 4)]


def test_why_says_what_could_be_had_and_show_what_is_asked_for(script: Script) -> None:
    script.tell(a_site("a", 16, idle=8), a_site("b", 16, idle=3), a_site("c", 16, idle=6))
    script.tell(a_flexible_job("j1", 24, part_min=4, parts_max=2))
    asked = "24 processors in at most 2 components of 4 to 24"
    told = "\n".join(why(script.scheduler, JobId("j1"), script.now))
    assert f"{asked}: at most 14 could be had (a 8, c 6); 1 placement try" in told
    assert script.picture("j1")["total"] == asked
    script.report("a", 16).report("c", 9)
    assert shape(script, "j1") == [("a", 16), ("c", 8)]
    assert "placed on a (16), c (8)" in script.story("j1")


def test_a_job_that_no_empty_grid_can_take_is_told_so(script: Script) -> None:
    script.tell(a_site("a", 8), a_flexible_job("j1", 24))
    told = "\n".join(why(script.scheduler, JobId("j1"), script.now))
    assert "at most 8 could be had (a 8); it cannot start before a site grows" in told
