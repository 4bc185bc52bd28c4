"""Sites that give whole machines or cores: what a claim takes is counted, held and reported."""

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
