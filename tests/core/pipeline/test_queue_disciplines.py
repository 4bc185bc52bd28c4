"""Queue disciplines of the multiple-queues paper at work in the live scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.actions import ClaimProcessors
from koala.core.model.events import DaemonStarted, ParametersChanged, SiteDrained, SiteResumed
from koala.core.model.job import EndKind
from koala.core.model.values import FOREVER, JobId, SiteName, UserName
from koala.core.policy_api import Policies
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.core.pipeline.test_placing import order_of_claims
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import ANN, Script

BOB = UserName("bob")
DELFT, LEIDEN = SiteName("delft"), SiteName("leiden")


def under(policy: str) -> Policies:
    return chosen(placement="WF-distinct", queueing=policy)


def grid(begin: Begin, policy: str, *, idle: int = 8, **parameters: object) -> Script:
    """Two sites of 8 processors."""
    parameters.setdefault("ageing_s", FOREVER)
    script = begin(under(policy), **parameters)
    return script.tell(a_site("delft", 8, idle=idle), a_site("leiden", 8, idle=idle))


def said(script: Script, job: str) -> str:
    return "\n".join(why(script.scheduler, JobId(job), script.now))


def queue_of(script: Script, job: str) -> str | None:
    return script.job(job).queue


@pytest.mark.parametrize("policy", ["LP-LF", "EQ-GF", "GP", "LQ"])
def test_single_component_jobs_stand_where_they_are_submitted_the_others_together(
    begin: Begin, policy: str
) -> None:
    script = grid(begin, policy, idle=0)
    script.tell(
        a_job("local", 4, queue=DELFT),
        a_job("fixed", a_component(4, "leiden")),
        a_job("anywhere", 4),
        a_job("wide", 4, 4, queue=DELFT),
    )
    found = [queue_of(script, job) for job in ("local", "fixed", "anywhere", "wide")]
    assert found == ["delft", "leiden", "*", "*"]


def test_with_local_queues_alone_who_says_nothing_joins_the_shortest(begin: Begin) -> None:
    script = grid(begin, "LS-DO", idle=0)
    script.tell(
        a_job("j1", 4, queue=DELFT),
        a_job("j2", 4, 4, queue=DELFT),
        a_job("j3", 4),
        a_job("j4", 2, 2),
    )
    assert [queue_of(script, f"j{n}") for n in (1, 2, 3, 4)] == [
        "delft",
        "delft",
        "leiden",
        "leiden",
    ]


def test_a_local_job_starts_at_its_own_site_though_another_is_emptier(begin: Begin) -> None:
    script = grid(begin, "EQ-LF", idle=0).tell(a_job("local", 4, queue=DELFT))
    script.report("leiden", 8).expect_nothing()
    script.report("delft", 4)
    assert script.expect(ClaimProcessors).site == "delft"


def test_gp_keeps_local_jobs_back_and_says_so(begin: Begin) -> None:
    script = grid(begin, "GP", idle=4)
    script.tell(a_job("wide", 8, 8), a_job("local", 2, queue=DELFT)).expect_nothing()
    why_not = "no turn now: no local queue is permitted while the global one holds a job"
    assert why_not in said(script, "local")
    assert "its site" not in said(script, "local")


def test_why_names_the_head_of_the_queue_and_what_it_lacks(begin: Begin) -> None:
    script = grid(begin, "EQ-LF", idle=4)
    script.tell(*(a_job(f"j{n}", 8, queue=DELFT) for n in (1, 2, 3)))
    text = said(script, "j3")
    assert "number 3 of 3 in the queue of delft (EQ-LF)" in text
    assert "2 jobs before it; its head j1 does not fit: 8 processors" in text
    assert "delft has 4 idle" in text


def test_why_tells_nothing_of_another_users_job_and_sites(begin: Begin) -> None:
    script = begin(under("GS"), ageing_s=FOREVER)
    script.tell(a_site("hidden", 8, idle=0, owner=ANN), a_site("leiden", 8, idle=0))
    script.tell(a_job("hers", a_component(8, "hidden"), owner=ANN), a_job("his", 8, owner=BOB))
    assert "its site hidden has 0 idle" in said(script, "hers")
    assert "1 jobs before it; the head of the queue is another user's" in said(script, "his")
    assert "hidden" not in said(script, "his")


def test_a_head_that_waits_for_a_site_that_is_away_lets_the_others_pass(begin: Begin) -> None:
    script = grid(begin, "GS").tell(SiteDrained(site=DELFT, by=ANN))
    script.tell(a_job("j1", a_component(4, "delft")), a_job("j2", 4))
    assert order_of_claims(script) == ["j2"]
    assert "passed over" in said(script, "j1")
    script.tell(SiteResumed(site=DELFT, by=ANN))
    assert order_of_claims(script) == ["j1"]


def test_a_job_that_comes_back_goes_to_the_tail_and_is_a_change(begin: Begin) -> None:
    script = grid(begin, "EQ-LF", claiming_step_min_s=1.0)
    script.tell(a_job("j1", 8, queue=DELFT))
    claims = script.claimed("j1")
    script.tell(a_job("j2", 8, queue=DELFT)).expect_nothing()
    script.gone(claims[0], EndKind.REFUSED)
    assert order_of_claims(script) == ["j2"]
    assert [list(line) for line in script.scheduler.queues.lines.values()][1:2] == [["j1"]]


def test_who_pauses_after_a_setback_keeps_nobody_from_his_queue(begin: Begin) -> None:
    script = grid(begin, "GS", claiming_step_min_s=100.0)
    script.tell(a_job("j1", 8))
    script.gone(script.claimed("j1")[0], EndKind.REFUSED)
    script.tell(a_job("j2", 8)).running("j2")
    assert script.scheduler.queues.order()[0] == ["j1"]
    script.at(99).expect_nothing()
    script.at(100)
    assert order_of_claims(script) == ["j1"]


def test_who_has_aged_is_permitted_and_now_and_then_holds_the_door(begin: Begin) -> None:
    script = grid(begin, "GP", idle=4, ageing_s=100.0, scan_interval_s=1000.0)
    script.tell(a_job("wide", 8, 8), a_job("held", 2, queue=LEIDEN)).expect_nothing()
    script.at(99).report("leiden", 5).expect_nothing()
    script.at(101).report("leiden", 6).expect_nothing()  # both are old; `wide` holds the door
    script.at(151).report("leiden", 7)  # not any more
    assert order_of_claims(script) == ["held"]


def test_a_daemon_with_another_discipline_moves_the_jobs_to_its_queues(begin: Begin) -> None:
    script = grid(begin, "LS-DO", idle=0)
    script.tell(
        a_job("j1", 4, 4, queue=DELFT),
        a_job("j2", 4, queue=LEIDEN),
        a_job("j3", 4, 4, queue=LEIDEN),
    )
    script.scheduler.policies = under("LP-LF")
    script.tell(DaemonStarted(epoch=2))
    lines = script.scheduler.queues.lines
    assert {name: list(line) for name, line in lines.items() if line} == {
        "*": ["j1", "j3"],
        "leiden": ["j2"],
    }
    script.scheduler.policies = chosen()
    script.tell(DaemonStarted(epoch=3))
    assert script.scheduler.queues.order() == [[], ["j1", "j2", "j3"], []]


def test_delayed_jobs_that_a_larger_queue_lets_in_go_to_those_of_the_new_discipline(
    begin: Begin,
) -> None:
    """The configuration comes before the life that begins with it."""
    script = grid(begin, "LS-DO", idle=0, queue_jobs_max=1)
    script.tell(a_job("j1", 4, queue=DELFT), a_job("j2", 4, queue=LEIDEN))
    assert script.phase("j2") == "Delayed"
    script.scheduler.policies = chosen()
    larger = replace(script.parameters, queue_jobs_max=10)
    script.tell_together(ParametersChanged(parameters=larger), DaemonStarted(epoch=2))
    assert script.scheduler.queues.order() == [[], ["j1", "j2"], []]


def test_the_papers_pace_visits_all_queues_once_an_interval(begin: Begin) -> None:
    script = grid(begin, "EQ-LF", idle=0, scan="interval", scan_interval_s=240.0)
    script.tell(a_job("j1", 4, queue=DELFT), a_job("j2", 4, 4))
    script.report("delft", 8).report("leiden", 8).expect_nothing()
    script.at(240)
    assert order_of_claims(script) == ["j1", "j2", "j2"]
