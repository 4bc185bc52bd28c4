"""Released claims that tell no pass: a frozen starter ends its attempt long before its lease."""

from __future__ import annotations

import pytest

from koala.core.awaited_passes import REPORT_S, AwaitedPasses
from koala.core.model.actions import AcknowledgeClaim, StopClaim
from koala.core.model.events import ClaimPassed, SiteReported
from koala.core.model.job import EndKind
from koala.core.model.values import ClaimId, SiteName
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

A, B = SiteName("a"), SiteName("b")
FIRST, SECOND = ClaimId("j1/1/0/1"), ClaimId("j1/1/1/1")
T, LATE_MAX_S, PAUSE_MAX_S = 0.05, 2.0, 5.0
DUE_AT = T + LATE_MAX_S + PAUSE_MAX_S


@pytest.fixture
def released(script: Script) -> Script:
    """j1 is released at a and b, with T = 0.05; nobody has told a pass."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.grant(*script.claimed("j1"))
    script.released("j1")
    return script


class Watch:
    """The passes that are awaited, looked at each second; `silent` are the agents that are not
    heard."""

    def __init__(self, script: Script, started_at: float = 0.0) -> None:
        self.silent: set[SiteName] = set()
        self._script = script
        self._passes = AwaitedPasses(started_at)
        self._looked_at = started_at

    def look(self, now: float) -> list[ClaimId]:
        """Look once; return the overdue claims, which the core handles."""
        self._looked_at = now
        found = []
        for event in self._passes.overdue(
            self._script.scheduler, is_heard=lambda site, _: site not in self.silent, now=now
        ):
            found.append(event.claim)
            self._script.at(now).tell(event)
        return found

    def until(self, now: float) -> list[ClaimId]:
        """Look each second until then; return what was overdue."""
        found = []
        while self._looked_at + 1.0 < now:
            found += self.look(self._looked_at + 1.0)
        return found + self.look(now)


def test_a_frozen_starter_ends_the_attempt_as_a_partial_start(released: Script) -> None:
    watch = Watch(released.passed(FIRST))
    assert watch.until(DUE_AT - 0.01) == []
    assert watch.look(DUE_AT) == [SECOND]
    assert {stop.claim for stop in released.take(StopClaim)} == {FIRST, SECOND}
    assert released.phase("j1") == "Stopping"
    assert released.reason("j1").startswith("partial start: 1 at b: fenced: armed, then told")


def test_the_next_attempt_waits_until_all_of_it_is_gone(released: Script) -> None:
    """It may have passed, and have been frozen before it told: the Stop is owed."""
    watch = Watch(released.passed(FIRST))
    watch.until(DUE_AT)
    released.drop()
    released.gone(FIRST).expect_nothing()
    assert watch.until(DUE_AT + 30.0) == []
    assert released.phase("j1") == "Stopping"
    released.heed(AcknowledgeClaim).gone(SECOND)
    released.drop()
    assert released.phase("j1") in ("Placing", "Claiming")
    assert released.job("j1").attempts == 2 or released.phase("j1") == "Placing"


def test_a_pass_that_was_not_told_makes_a_job_that_may_not_run_again_fail(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4, rerun=False))
    script.grant(*script.claimed("j1"))
    script.released("j1")
    Watch(script).until(DUE_AT)
    script.drop()
    script.tell(ClaimPassed(claim=SECOND, passed_at=T)).gone(SECOND).gone(FIRST)
    assert script.phase("j1") == "Failed"
    script.drop()


def test_a_starter_that_told_its_pass_is_left_to_its_lease(released: Script) -> None:
    released.passed(FIRST, SECOND)
    assert Watch(released).until(300.0) == []
    assert released.phase("j1") == "Running"


def test_a_single_component_that_is_frozen_is_stopped_as_well(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4))
    script.grant(*script.claimed("j1"))
    script.released("j1")
    assert Watch(script).until(DUE_AT) == [FIRST]
    script.drop()
    assert script.phase("j1") == "Stopping"


def test_the_round_trip_to_the_site_is_added(released: Script) -> None:
    released.tell(SiteReported(site=B, idle=0, through=1, rtt_s=1.5))
    watch = Watch(released.passed(FIRST))
    assert watch.until(DUE_AT + 1.49) == []
    assert watch.until(DUE_AT + 1.5) == [SECOND]
    released.drop()


def test_an_agent_that_was_not_heard_has_the_whole_time_again(released: Script) -> None:
    """It may have the report in a queue: SIGSTOP of an agent, a link that stands still."""
    watch = Watch(released.passed(FIRST))
    watch.silent.add(B)
    assert watch.until(20.0) == []
    watch.silent.clear()
    assert watch.until(20.0 + PAUSE_MAX_S - 0.1) == []
    assert watch.until(20.0 + PAUSE_MAX_S) == [SECOND]
    released.drop()


def test_a_site_that_is_away_is_left_to_the_leases(released: Script) -> None:
    watch = Watch(released.passed(FIRST).disconnect("b"))
    assert watch.until(300.0) == []


def test_a_daemon_that_stood_still_waits_for_the_whole_time_again(released: Script) -> None:
    """The reports may be in its own queue."""
    watch = Watch(released.passed(FIRST))
    assert watch.look(60.0) == []
    assert watch.until(60.0 + PAUSE_MAX_S - 0.1) == []
    assert watch.until(60.0 + PAUSE_MAX_S) == [SECOND]
    released.drop()


def test_a_short_pause_leaves_time_for_the_report(released: Script) -> None:
    watch = Watch(released.change(pause_max_s=0.1).passed(FIRST))
    assert watch.until(T + LATE_MAX_S + REPORT_S - 0.01) == []
    assert watch.until(T + LATE_MAX_S + REPORT_S) == [SECOND]
    released.drop()


def test_a_quorum_that_is_left_goes_on_without_the_frozen_component(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4, quorum=1))
    script.grant(*script.claimed("j1"))
    script.released("j1")
    script.passed(FIRST)
    assert Watch(script).until(DUE_AT) == [SECOND]
    assert [stop.claim for stop in script.take(StopClaim)] == [SECOND]
    assert script.phase("j1") == "Running"


def test_the_frozen_claim_is_charged_as_wasted(released: Script) -> None:
    """The time that its processors were held counts, though it never ran."""
    Watch(released.passed(FIRST)).until(DUE_AT)
    released.drop()
    released.at(30.0).gone(FIRST, EndKind.STOPPED).gone(SECOND, EndKind.STOPPED)
    released.drop()
    charges = {charge.claim: charge for charge in released.job("j1").charges}
    assert (charges[SECOND].granted_at, charges[SECOND].ended_at) == (0.0, 30.0)
    assert charges[SECOND].passed_at is None
