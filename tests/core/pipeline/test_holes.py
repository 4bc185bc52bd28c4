"""Holes: processors that are idle only for jobs that end soon."""

from __future__ import annotations

import pytest

from koala.core.model.actions import ClaimProcessors
from koala.core.model.events import SiteReported
from koala.core.model.values import SiteName
from koala.policies import chosen
from tests.core.conftest import Begin
from tests.core.test_resources import PLACERS
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

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


def test_what_went_into_a_hole_is_taken_from_all(script: Script) -> None:
    script.change(hold_s=HOLD_S)
    script.tell(a_site("vu", 8, idle=0))
    told(script)
    short = [a_job(f"j{n}", a_component(3, wall_time_s=60.0)) for n in (1, 2, 3)]
    script.tell_together(*short, a_job("j4", a_component(2, wall_time_s=1800.0)))
    claims = script.take(ClaimProcessors)
    assert [claim.claim.split("/")[0] for claim in claims] == ["j1", "j2"]
    told(script, through=2)  # which includes the two
    claims = script.take(ClaimProcessors)
    assert [claim.claim.split("/")[0] for claim in claims] == ["j3"]
    told(script, through=3)
    (claim,) = script.take(ClaimProcessors)
    assert claim.claim.split("/")[0] == "j4"


def test_a_hole_shrinks_with_the_time(script: Script) -> None:
    script.change(hold_s=HOLD_S)
    script.tell(a_site("vu", 8, idle=0))
    told(script).at(400.0)
    script.tell(a_job("j1", a_component(5, wall_time_s=120.0)))
    assert script.phase("j1") == "Placing"
    script.tell(a_job("j2", a_component(5, wall_time_s=60.0)))
    (claim,) = script.take(ClaimProcessors)
    assert claim.claim.split("/")[0] == "j2"
