"""Idle processors: those of sites that give whole machines or cores, and those for short jobs."""

from __future__ import annotations

from typing import Any

import pytest

from koala.common.protocol.messages import SiteResources
from koala.core.feasibility import Capacity, Requirement, may_fit
from koala.core.model.actions import ClaimProcessors
from koala.core.model.events import SiteReported
from koala.core.model.grid import SiteFacts
from koala.core.model.values import ClaimId, SiteName
from koala.core.resources import occupied
from koala.policies import chosen
from koala.views.documents import sites_document
from tests.core.conftest import Begin
from tests.core.test_resources import PLACERS
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

WHOLE = SiteResources(unit=8, host_processors=8)
CORES = SiteResources(unit=2, host_processors=8)


@pytest.mark.parametrize(
    ("has", "wishes", "taken"),
    [
        (SiteResources(), {}, 9),
        (WHOLE, {}, 16),
        (CORES, {}, 10),
        (WHOLE, {"hosts": 3}, 24),
        (WHOLE, {"tasks_per_host": 2}, 32),  # five machines, of which it has four
        (WHOLE, {"tasks_per_host": 1, "cpus_per_task": 3}, 24),
        (CORES, {"is_exclusive": True}, 16),
        (SiteResources(host_processors=8), {"is_exclusive": True, "hosts": 3}, 24),
        (CORES, {"hosts": 3}, 10),
    ],
)
def test_a_component_takes_what_its_site_gives_as_a_whole(
    has: SiteResources, wishes: dict[str, Any], taken: int
) -> None:
    component = a_component(9, **wishes)
    assert occupied(component, SiteFacts(processors=32, resources=has)) == taken


@pytest.mark.parametrize("policy", PLACERS)
def test_only_so_many_components_go_to_a_site_as_it_has_machines(policy: str, begin: Begin) -> None:
    script = begin(chosen(placement=policy))
    script.tell(a_site("vu", 32, resources=WHOLE))
    script.tell(a_job("j1", *[a_component(3) for _ in range(4 if "distinct" not in policy else 1)]))
    claims = script.take(ClaimProcessors)
    assert {claim.processors for claim in claims} == {3}  # as its program asks for
    (site,) = sites_document(script.scheduler)
    assert (site.claimed, site.idle) == (8 * len(claims), 32 - 8 * len(claims))
    if site.idle == 0:
        script.tell(a_job("j2", 1))
        assert script.phase("j2") == "Placing"


def test_a_job_that_needs_more_machines_than_there_are_waits(script: Script) -> None:
    script.tell(a_site("vu", 32, resources=WHOLE))
    script.tell(a_job("j1", *[3] * 5))
    assert script.phase("j1") == "Placing"
    rooms = [Capacity(SiteName("vu"), 32, unit=8)]
    assert not may_fit([Requirement(3)] * 5, 5, rooms)
    assert may_fit([Requirement(3)] * 4, 4, rooms)
    assert may_fit([Requirement(9), Requirement(9)], 2, rooms)
    assert not may_fit([Requirement(17), Requirement(9)], 2, rooms)


def test_the_local_manager_has_the_last_word_on_what_a_claim_takes(script: Script) -> None:
    script.tell(a_site("vu", 32))
    script.tell(a_job("j1", 3))
    (claim,) = script.take(ClaimProcessors)
    taken = ((ClaimId(claim.claim), 16),)
    script.tell(SiteReported(site=SiteName("vu"), idle=16, through=1, taken=taken))
    (site,) = sites_document(script.scheduler)
    assert (site.claimed, site.idle) == (16, 16)


def test_a_claim_waits_longer_where_machines_have_to_be_powered_up(script: Script) -> None:
    script.tell(a_site("vu", 16, grace_s=60.0))
    script.tell(SiteReported(site=SiteName("vu"), idle=16, through=0, asleep=8, wake_s=600.0))
    script.tell_together(a_job("j1", 8), a_job("j2", 8))
    awake, asleep = script.take(ClaimProcessors)
    ledger = script.scheduler.ledger
    assert (awake.wake_s, asleep.wake_s) == (0.0, 600.0)
    assert [ledger[one.claim].grace_until for one in (awake, asleep)] == [60.0, 660.0]


# holes: processors that are idle only for jobs that end soon

HOLD_S = 900.0
END_S = 90.0
HOLES = ((8, HOLD_S + 600.0), (4, HOLD_S + 3600.0))


def told(script: Script, *, idle: int = 0, through: int = 0) -> Script:
    name = SiteName("vu")
    return script.tell(SiteReported(site=name, idle=idle, through=through, holes=HOLES, queued=1))


@pytest.mark.parametrize("policy", PLACERS)
def test_a_job_that_ends_in_time_goes_into_a_hole(policy: str, begin: Begin) -> None:
    script = begin(chosen(placement=policy), hold_s=HOLD_S)
    script.tell(a_site("vu", 8, idle=0))
    told(script)
    short, long = 600.0 - END_S, 600.0
    script.tell(a_job("j1", a_component(5, wall_time_s=long)), a_job("j2", a_component(5)))
    assert [script.phase(job) for job in ("j1", "j2")] == ["Placing", "Placing"]
    script.tell(a_job("j3", a_component(5, wall_time_s=short)))
    (claim,) = script.take(ClaimProcessors)
    assert (claim.claim.split("/")[0], claim.processors) == ("j3", 5)


def test_a_hole_shrinks_with_the_time(script: Script) -> None:
    script.change(hold_s=HOLD_S)
    script.tell(a_site("vu", 8, idle=0))
    told(script).at(400.0)
    script.tell(a_job("j1", a_component(5, wall_time_s=120.0)))
    assert script.phase("j1") == "Placing"
    script.tell(a_job("j2", a_component(5, wall_time_s=60.0)))
    (claim,) = script.take(ClaimProcessors)
    assert claim.claim.split("/")[0] == "j2"
