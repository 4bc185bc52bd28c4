"""A window limits the unanswered claims at a site, so that a flood of jobs cannot drown it."""

from __future__ import annotations

from koala.core.model.actions import ClaimProcessors
from koala.core.model.values import SiteName
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

SITE = SiteName("delft")


def flood(script: Script, jobs: int = 40) -> Script:
    """More jobs than the window, on a site that has room for all."""
    script.tell(a_site(SITE, 1000))
    return script.tell_together(*(a_job(f"j{number}", 1) for number in range(jobs)))


def asked(script: Script) -> list[str]:
    found = [str(action.claim) for _, action in script.open if isinstance(action, ClaimProcessors)]
    script.drop()
    return found


def test_a_site_is_asked_for_a_windowful_and_again_as_it_answers(script: Script) -> None:
    claims = asked(flood(script))
    assert len(claims) == 8
    script.ignore(object)
    script.grant(claims[0])
    assert [script.phase(f"j{number}") for number in (8, 9, 10)] == [
        "Claiming",
        "Claiming",
        "Placing",
    ]


def test_the_window_grows_with_grants_and_every_job_gets_its_turn(script: Script) -> None:
    script.ignore(object)
    flood(script)
    for number in range(40):
        script.grant(f"j{number}/1/0/1")
    assert script.scheduler.sites[SITE].window == 48
    assert {script.phase(f"j{number}") for number in range(40)}.isdisjoint({"Placing"})


def test_refusals_halve_the_window_once_for_all_that_was_asked(begin: Begin) -> None:
    script = begin().ignore(object)
    claims = [f"j{number}/1/0/1" for number in range(8)]
    flood(script)
    for claim in claims:
        script.refuse(claim)
    assert script.scheduler.sites[SITE].window == 4.0
    script.grant("j8/1/0/1")
    assert script.scheduler.sites[SITE].window == 4.25


def test_the_papers_setting_knows_no_window(begin: Begin) -> None:
    assert len(asked(flood(begin(claims_open_max=0)))) == 40
