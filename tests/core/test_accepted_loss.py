"""After a loss of events that an operator accepted: nothing is believed that the lost part may have
changed, and no number is given twice."""

import pytest

from koala.core.model import events as ev
from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.job_spec import Deadline
from koala.core.model.values import ClaimId, JobId
from koala.core.pipeline.requeueing import LOST_ATTEMPTS_MAX
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

LOSS = ev.DaemonStarted(epoch=1001, after_loss=True)


@pytest.fixture
def granted(script: Script) -> Script:
    """j1 has two components, at a and b, both granted."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.grant(*script.claimed("j1")).drop()
    return script


def test_an_attempt_that_was_not_released_here_may_have_been(granted: Script) -> None:
    """Its next attempt waits for the end of all its claims, as if it had been released."""
    granted.tell(LOSS)
    assert granted.phase("j1") == "Stopping"
    assert {stop.claim for stop in granted.take(StopClaim)} == {"j1/1/0/1", "j1/1/1/1"}
    assert all(granted.scheduler.ledger[ClaimId(c)].may_run for c in ("j1/1/0/1", "j1/1/1/1"))
    granted.gone("j1/1/0/1").expect_nothing()
    assert granted.phase("j1") == "Stopping"
    granted.gone("j1/1/1/1")
    assert granted.phase("j1") == "Placing"


def test_the_next_attempt_comes_after_the_fence_with_a_number_that_nobody_had(
    granted: Script,
) -> None:
    granted.tell(LOSS).drop().tell(a_site("a", 4), a_site("b", 4))
    granted.gone("j1/1/0/1").gone("j1/1/1/1").expect_nothing()
    fence_s = granted.parameters.fence_s
    granted.after(fence_s - 1).expect_nothing()
    granted.after(2)
    assert granted.claimed("j1")[0] == f"j1/{1 + LOST_ATTEMPTS_MAX}/0/1"


def test_a_job_that_waits_may_have_run_so_it_waits_for_the_fence_too(script: Script) -> None:
    script.tell(a_job("j1", 4), LOSS, a_site("a", 4)).expect_nothing()
    script.after(script.parameters.fence_s + 1)
    assert script.claimed("j1") == [f"j1/{LOST_ATTEMPTS_MAX}/0/1"]


def test_a_job_with_a_deadline_is_not_tried_before_the_fence_either(begin: Begin) -> None:
    """An unknown attempt of it may run at a site that is away."""
    script = begin(run_lease_s=60.0)
    script.tell(a_site("a", 4), a_job("j1", 4, deadline=Deadline(at=100.0))).at(50.0)
    script.tell(LOSS, a_site("a", 4)).at(100.0).expect_nothing()  # it was to be tried at 94.1
    assert script.phase("j1") == "Placing"
    script.at(102.0)
    assert "deadline missed" in script.reason("j1")


def test_a_job_with_a_deadline_is_tried_once_the_fence_is_over(begin: Begin) -> None:
    script = begin(run_lease_s=60.0)
    script.tell(a_site("a", 4), a_job("j1", 4, deadline=Deadline(at=100.0))).at(29.0)
    script.tell(LOSS, a_site("a", 4)).at(100.0)
    fence_at = 29.0 + script.parameters.fence_s
    script.expect(ClaimProcessors, at=fence_at, claim=f"j1/{LOST_ATTEMPTS_MAX}/0/1")


def test_it_is_told_why_a_job_that_waits_is_not_tried(begin: Begin) -> None:
    """Only its owner can say that nothing of it lives, where leases never end."""
    script = begin().tell(a_job("j1", 4), LOSS, a_site("a", 4))
    lives = "an attempt of it that a lost part of the journal knew may live"
    assert any(f"not tried for 10 min: {lives}" in line for line in told(script))
    script = begin(run_lease_s=float("inf")).tell(a_job("j1", 4), LOSS, a_site("a", 4)).at(1e5)
    assert any(f"never tried: {lives} (run_lease_s = inf); cancel" in line for line in told(script))


def told(script: Script) -> list[str]:
    return why(script.scheduler, JobId("j1"), script.now)


def test_what_was_known_as_running_runs_on(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    claims = script.running("j1")
    script.tell(LOSS, a_site("a", 4, idle=0), a_site("b", 4, idle=0)).expect_nothing()
    assert script.phase("j1") == "Running"
    for claim in claims:
        script.exits(claim)
    assert script.drop().phase("j1") == "Finished"
