"""Limits of users and groups: what their placed jobs may have at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koala.common.protocol.messages import SiteResources
from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.allowances import Allowance, group_payer, user_payer
from koala.core.model.events import AllowancesSet, JobSubmitted
from koala.core.model.job_spec import Deadline
from koala.core.model.values import UserName
from koala.core.snapshot import load, save
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script


def of(event: JobSubmitted, owner: str, group: str = "", **spec: Any) -> JobSubmitted:
    return replace(event, spec=replace(event.spec, owner=UserName(owner), group=group, **spec))


def limited(begin: Begin, group: Allowance, user: Allowance | None = None, **more: Any) -> Script:
    site = a_site("delft", 64, resources=SiteResources(gpus=8, is_complete=True))
    script = begin(**more).tell(site).report("delft", 64, gpus=8)
    limits = [(group_payer("physics"), group)]
    limits += [(user_payer("ann"), user)] if user is not None else []
    return script.tell(AllowancesSet(allowances=tuple(limits))).ignore(ClaimProcessors, StopClaim)


@pytest.mark.parametrize(
    ("allowance", "reason"),
    [
        (Allowance(processors=15), "group physics has 8 of 15 processors in use, and this job"),
        (Allowance(jobs=1), "group physics has 1 of 1 jobs in use"),
        (Allowance(gpus=3), "group physics has 2 of 3 GPUs in use"),
    ],
)
def test_a_group_has_no_more_than_its_limit_and_others_pass(
    begin: Begin, allowance: Allowance, reason: str
) -> None:
    script = limited(begin, allowance)
    for job, owner, group in (
        ("j1", "ann", "physics"),
        ("j2", "bob", "physics"),
        ("j3", "bob", ""),
    ):
        script.tell(of(a_job(job, a_component(8, gpus=2)), owner, group))
    assert [script.phase(job) for job in ("j1", "j2", "j3")] == ["Claiming", "Placing", "Claiming"]
    assert reason in " ".join(why(script.scheduler, script.job("j2").id, script.now))
    script.cancel("j1")
    assert script.phase("j2") == "Claiming"


def test_what_exactly_fits_is_placed(begin: Begin) -> None:
    script = limited(begin, Allowance(processors=16, jobs=2, gpus=4))
    for job in ("j1", "j2"):
        script.tell(of(a_job(job, a_component(8, gpus=2)), "ann", "physics"))
    assert [script.phase(job) for job in ("j1", "j2")] == ["Claiming", "Claiming"]


def test_a_user_is_limited_in_all_groups(begin: Begin) -> None:
    script = limited(begin, Allowance(), Allowance(processors=10))
    script.tell(of(a_job("j1", 8), "ann", "physics"), of(a_job("j2", 8), "ann"))
    assert script.phase("j2") == "Placing"
    assert "user ann has 8 of 10" in why(script.scheduler, script.job("j2").id, script.now)[-1]


def test_raised_limits_count_at_once(begin: Begin) -> None:
    script = limited(begin, Allowance(processors=4))
    script.tell(of(a_job("j1", 8), "ann", "physics"))
    assert script.phase("j1") == "Placing"
    script.tell(AllowancesSet(allowances=()))
    assert script.phase("j1") == "Claiming"


def test_a_job_behind_the_limit_of_its_group_stops_no_backfilling(begin: Begin) -> None:
    script = limited(begin, Allowance(jobs=0), ageing_s=10.0)
    script.tell(of(a_job("j1", 64), "ann", "physics")).at(1000)
    script.tell(of(a_job("j2", 8), "bob"))
    assert script.phase("j2") == "Claiming"


def test_a_job_with_a_deadline_keeps_to_the_limits(begin: Begin) -> None:
    script = limited(begin, Allowance(jobs=0))
    late = Deadline(after_s=100.0)
    script.tell(of(a_job("j1", 8), "ann", "physics", deadline=late)).at(99.0)
    script.expect_nothing()
    assert script.phase("j1") == "Placing"
    script.at(200.0)
    assert script.phase("j1") == "Failed"


def test_a_group_pays_for_what_its_claims_hold(begin: Begin) -> None:
    """8 processors may be held for 900 s at most: 7,200 processor-seconds are charged."""
    script = limited(begin, Allowance(hold_s=8000.0))
    script.tell(of(a_job("j1", 8), "ann", "physics"), of(a_job("j2", 8), "bob", "physics"))
    assert "the hold budget is used up" in " ".join(
        why(script.scheduler, script.job("j2").id, script.now)
    )
    script.tell(of(a_job("j3", 8), "bob"))
    assert script.scheduler.payer_budgets[group_payer("physics")].spent_s == 7200.0


def test_a_saved_state_has_the_limits_and_what_is_used(begin: Begin) -> None:
    script = limited(begin, Allowance(jobs=1))
    script.tell(of(a_job("j1", 8), "ann", "physics"))
    loaded = load(save(script.scheduler), script.scheduler.policies)
    assert loaded.allowances == script.scheduler.allowances
    assert loaded.usage == script.scheduler.usage != {}
