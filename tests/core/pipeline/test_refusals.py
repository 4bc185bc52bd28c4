"""A site that will not have a job: for how long the job leaves it alone, and who is tried
meanwhile."""

from __future__ import annotations

from itertools import pairwise

import pytest

from koala.core.model.actions import CancelTransfer, ClaimProcessors, StartTransfer
from koala.core.model.events import Event, SiteResumed
from koala.core.model.job import EndKind
from koala.core.model.values import FOREVER, JobId, SiteName
from koala.core.pipeline.refusals import sites_closed_to
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import HIGH, a_component, a_job, a_site
from tests.harness.script import ANN, Script

WORD = "accounts.map: no account for ann"
A = SiteName("a")


def refuse(script: Script, *claims: str) -> None:
    """For good: at once, with a reason."""
    for claim in claims:
        script.gone(claim, EndKind.REFUSED, reason=WORD)


def asked_at(script: Script, until: float) -> list[float]:
    """List the times at which j1 was claimed, refused at once each time."""
    instants = []
    while script.now < until:
        for claim in [action.claim for action in script.take(ClaimProcessors)]:
            instants.append(script.now)
            refuse(script, claim)
        wake_at = script.scheduler.wake_at
        script.at(until if wake_at is None else min(until, wake_at))
    script.drop()
    return instants


@pytest.fixture
def shut(script: Script) -> Script:
    """a, the only site, has refused j1 five times in a row; the pause is 32 s."""
    script.tell(a_site("a"), a_job("j1", 4))
    assert asked_at(script, 31.0) == [0.0, 2.0, 6.0, 14.0, 30.0]
    return script


def test_a_site_that_refuses_for_good_is_asked_more_and_more_seldom(begin: Begin) -> None:
    """Each try is events in a journal that is kept."""
    script = begin().tell(a_site("a"), a_job("j1", 4))
    instants = asked_at(script, 7200.0)
    pauses = [after - before for before, after in pairwise(instants)]
    assert pauses[:7] == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    assert set(pauses[7:]) == {240.0}  # scan_interval_s
    assert script.phase("j1") == "Placing"


def test_the_pause_grows_no_longer_than_scans_are_apart(begin: Begin) -> None:
    script = begin(scan_interval_s=5.0).tell(a_site("a"), a_job("j1", 4))
    assert asked_at(script, 20.0) == [0.0, 2.0, 6.0, 11.0, 16.0]


def test_another_site_is_tried_instead_and_at_once(begin: Begin) -> None:
    """Placement alone would choose the site that refused it again and again."""
    script = begin().tell(a_site("a", 8), a_site("b", 4), a_job("j1", 4))
    assert script.expect(ClaimProcessors, at=0.0).site == "a"
    refuse(script, "j1/1/0/1")
    assert script.at(1.0).expect(ClaimProcessors, claim="j1/2/0/1", at=1.0).site == "b"


def test_another_site_is_tried_as_soon_as_it_has_room(shut: Script) -> None:
    shut.tell(a_site("b", 4)).expect(ClaimProcessors, site="b", at=31.0)


@pytest.mark.parametrize(
    "word", [a_site("a"), SiteResumed(site=A, by=ANN)], ids=["registered", "resumed"]
)
def test_a_site_that_may_have_been_changed_is_asked_at_once(shut: Script, word: Event) -> None:
    """And the pauses begin again."""
    shut.tell(word).expect(ClaimProcessors, claim="j1/6/0/1", at=31.0)
    refuse(shut, "j1/6/0/1")
    shut.at(33.0).expect(ClaimProcessors, claim="j1/7/0/1", at=33.0)


def test_what_waited_in_vain_in_the_queue_pauses_no_longer(begin: Begin) -> None:
    """Such a refusal passes by itself; it is what claiming tries are for."""
    script = begin().tell(a_site("a"), a_job("j1", 4))
    for attempt in range(1, 6):
        claim = script.expect(ClaimProcessors, at=script.now).claim
        assert claim == f"j1/{attempt}/0/1"
        script.after(4.9)
        script.gone(claim, EndKind.REFUSED, reason="not started within 5 s").after(1.0)
    assert not sites_closed_to(script.scheduler, script.job("j1"), script.now)
    script.drop()


def test_components_that_are_refused_together_count_once(begin: Begin) -> None:
    script = begin().tell(a_site("a", 8), a_job("j1", 4, 4))
    refuse(script, *script.claimed("j1"))
    assert len(script.at(2.0).claimed("j1")) == 2


def test_pauses_begin_again_once_all_was_claimed(shut: Script) -> None:
    """It was set back for another reason since."""
    shut.at(62.0).grant(*shut.claimed("j1")).drop().gone("j1/6/0/1", EndKind.SITE).at(63.0)
    refuse(shut, *shut.claimed("j1"))
    shut.at(65.0).expect(ClaimProcessors, claim="j1/8/0/1", at=65.0)


def test_other_jobs_are_claimed_there(shut: Script) -> None:
    shut.tell(a_job("j2", 4)).expect(ClaimProcessors, claim="j2/1/0/1", site="a")


def test_a_job_that_is_refused_does_not_slow_down_the_others(begin: Begin) -> None:
    """The window is for sites that cannot begin so much at a time."""
    script = begin().tell(a_site("a"), a_job("j1", 4))
    asked_at(script, 100.0)
    assert script.scheduler.sites[A].window == 8.0


def test_nobody_waits_behind_it(begin: Begin) -> None:
    script = begin(chosen(queueing="GS"), ageing_s=FOREVER)
    script.tell(a_site("a"), a_job("j1", 4))
    asked_at(script, 31.0)
    script.tell(a_job("j2", 4)).expect(ClaimProcessors, claim="j2/1/0/1", at=31.0)
    script.grant("j2/1/0/1").drop().cancel("j2").drop().gone("j2/1/0/1")
    script.at(62.0).expect(ClaimProcessors, claim="j1/6/0/1", at=62.0)


def test_it_holds_no_door(begin: Begin) -> None:
    script = begin(ageing_s=0.0, claiming_step_min_s=100.0).tell(a_site("a"), a_job("j1", 4))
    refuse(script, *script.claimed("j1"))
    script.at(100.2).tell(a_job("j2", 4)).expect(ClaimProcessors, claim="j2/1/0/1", at=100.2)


def test_nobody_is_stopped_for_a_job_that_the_site_refused(begin: Begin) -> None:
    """It is asked again when its pause is over, but others do not die for it."""
    for reason in ("", WORD):
        script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer, CancelTransfer)
        script.tell(a_site("home", 1), a_site("a", 8, starts_after_stop=True), a_job("low", 8))
        script.running("low")
        script.replica("data", "home", 10).report("a", 8)  # it seems idle
        script.tell(a_job("high", 8, priority=HIGH, file="data"))
        for instant in (0.75, 1.0):
            (claim,) = script.at(instant).claimed("high")
            script.gone(claim, EndKind.REFUSED, reason=reason)
        script.report("a", 0).at(10.0).report("a", 8).report("a", 0).at(10.9)
        assert script.phase("high") == "Claiming"
        script.drop()
        assert script.phase("low") == ("Running" if reason else "Stopping")


def test_it_is_told_what_the_site_said_and_when_it_is_asked_again(shut: Script) -> None:
    said = why(shut.scheduler, JobId("j1"), shut.now)
    assert said[1].startswith("component 0 (4 processors): no other site can take it now; ")
    assert f"not tried at a for 31 s: it refused the job ({WORD})" in said


def test_the_end_of_all_tries_names_what_sites_said(begin: Begin) -> None:
    script = begin(claiming_tries_max=3).tell(a_site("a"), a_job("j1", a_component(4, "a")))
    asked_at(script, 60.0)
    assert script.reason("j1") == f"not claimed in 3 claiming tries; a refused it: {WORD}"
