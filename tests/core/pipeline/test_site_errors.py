"""Failures of claims, sites and transfers, and what counts against a site (KOALA 3.4; design:
Failure).
"""

from __future__ import annotations

import pytest

from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import JobCancelRequested, SiteResumed, TransferFailed
from koala.core.model.grid import Site
from koala.core.model.job import EndKind
from koala.core.model.values import JobId, SiteName, TransferId, UserName
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

ANN = UserName("ann")


def site(script: Script, name: str) -> Site:
    return script.scheduler.sites[SiteName(name)]


@pytest.fixture
def running(script: Script) -> Script:
    """j1 runs on a and b."""
    script.ignore(PublishOutputs).tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.running("j1")
    return script


def test_a_failed_claim_returns_the_whole_job_and_counts_against_its_site(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4)).claimed("j1")
    script.grant("j1/1/0/1").gone("j1/1/1/1", EndKind.FAILED)
    script.expect(StopClaim, claim="j1/1/0/1")
    assert script.phase("j1") == "Placing"
    assert (site(script, "a").errors, site(script, "b").errors) == (0, 1)


def test_an_attempt_fails_once_however_many_components_vanish(running: Script) -> None:
    """`koala show` counts these, and figure 3 of the paper does."""
    running.gone("j1/1/0/1", EndKind.VANISHED).drop().gone("j1/1/1/1", EndKind.VANISHED)
    assert (running.picture("j1")["failures"], running.picture("j1")["preemptions"]) == (1, 0)


def test_what_is_nobodys_fault_is_no_failure_of_the_job(running: Script) -> None:
    running.gone("j1/1/0/1", EndKind.SITE).drop()
    assert running.phase("j1") == "Stopping"
    assert running.picture("j1")["failures"] == 0


@pytest.mark.parametrize(("at", "blamed"), [("home", "home"), ("a", "a"), (None, None)])
def test_a_transfer_that_fails_returns_the_job_and_counts_at_its_end(
    begin: Begin, at: str | None, blamed: str | None
) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data")).at(10)
    script.tell(
        TransferFailed(
            transfer=TransferId("j1/1/t1"),
            at=None if at is None else SiteName(at),
            reason="disk full",
        )
    )
    assert "transfer of data from home to a failed: disk full" in script.story("j1")
    found = {name for name in ("home", "a") if site(script, name).errors}
    assert found == ({blamed} if blamed else set())
    assert script.job("j1").attempts == 1


def test_a_failed_transfer_stops_the_claims_that_were_made(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer, CancelTransfer)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data")).at(75).grant(*script.claimed("j1"))
    script.tell(TransferFailed(transfer=TransferId("j1/1/t1"), at=None, reason="cut"))
    script.expect(StopClaim, claim="j1/1/0/1")


@pytest.mark.parametrize(
    "kind", [EndKind.FAILED, EndKind.VANISHED, EndKind.FENCED], ids=lambda kind: kind.value
)
def test_these_ends_count_against_a_site(running: Script, kind: EndKind) -> None:
    running.gone("j1/1/0/1", kind).drop()
    assert site(running, "a").errors == 1


@pytest.mark.parametrize(
    "kind",
    [EndKind.REFUSED, EndKind.SITE, EndKind.STOPPED, EndKind.HOLD, EndKind.LATE, EndKind.UNKNOWN],
    ids=lambda kind: kind.value,
)
def test_these_ends_count_not(running: Script, kind: EndKind) -> None:
    running.gone("j1/1/0/1", kind).drop()
    assert site(running, "a").errors == 0


@pytest.mark.parametrize(
    "kind",
    [EndKind.EXITED, EndKind.UNEXECUTABLE, EndKind.WALL_TIME, EndKind.OUTPUT],
    ids=lambda kind: kind.value,
)
def test_the_programs_own_end_fails_the_job_and_is_no_error_of_the_site(
    running: Script, kind: EndKind
) -> None:
    running.gone("j1/1/0/1", kind, statuses=(3,))
    running.expect(StopClaim, claim="j1/1/1/1")
    assert running.phase("j1") == "Failed"
    assert site(running, "a").errors == 0
    assert running.picture("j1")["status"] == 3


def test_a_job_that_no_site_would_take_fails_before_it_starts_and_is_no_error_of_a_site(
    script: Script,
) -> None:
    """As one whose staged files the agent refuses."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4)).claimed("j1")
    script.grant("j1/1/0/1").gone("j1/1/1/1", EndKind.UNEXECUTABLE, reason="no tar file")
    script.expect(StopClaim, claim="j1/1/0/1")
    assert script.phase("j1") == "Failed"
    assert script.reason("j1") == "component 1 at b: unexecutable: no tar file"
    assert (site(script, "a").errors, site(script, "b").errors) == (0, 0)


def test_a_lost_lease_counts_unless_the_daemon_itself_was_away(begin: Begin) -> None:
    script = begin(run_lease_s=60.0).tell(a_site("a", 4), a_job("j1", 4))
    script.running("j1")
    script.at(30).gone("j1/1/0/1", EndKind.LEASE).cancel("j1")
    assert site(script, "a").errors == 0
    script.at(100).tell(a_job("j2", 1)).drop()
    script.gone("j2/1/0/1", EndKind.LEASE).drop()
    assert site(script, "a").errors == 1


def fail_at(script: Script, name: str, times: int) -> None:
    """So many consecutive failed claims at the site."""
    for _ in range(times):
        job = f"bad{len(script.scheduler.jobs)}"
        script.tell(a_job(job, a_component(1, name)))
        assert script.phase(job) == "Claiming", script.story(job)
        script.gone(script.claimed(job)[0], EndKind.FAILED).cancel(job)


def keep_failing(script: Script, job: str, times: int) -> None:
    """The job is claimed so often, and each time its claim fails."""
    for _ in range(times):
        while not script.kinds():
            wake_at = script.scheduler.wake_at
            assert wake_at is not None, script.story(job)
            script.at(wake_at)
        for claim in script.claimed(job):
            script.gone(claim, EndKind.FAILED)


def test_a_job_that_fails_everywhere_takes_no_site_from_others(script: Script) -> None:
    """It is at fault itself, as far as anybody can tell: its errors count once at each site."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("ill", 4))
    keep_failing(script, "ill", 12)
    assert [(one.errors, one.unusable_until) for one in script.scheduler.sites.values()] == [
        (1, None),
        (1, None),
    ]
    script.tell(a_job("j1", 4))
    assert script.claimed("j1") == ["j1/1/0/1"]


def test_several_components_that_fail_at_a_site_are_one_job(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", *(a_component(2, "a") for _ in range(4))))
    for claim in script.running("j1"):
        script.gone(claim, EndKind.VANISHED).drop()
    assert site(script, "a").errors == 1


def test_errors_of_other_jobs_count_whoever_erred_between(script: Script) -> None:
    script.tell(a_site("a", 4))
    fail_at(script, "a", 1)
    script.tell(a_job("ill", 4))
    keep_failing(script, "ill", 3)
    assert site(script, "a").unusable_until is None
    script.cancel("ill")
    fail_at(script, "a", 1)
    assert site(script, "a").errors == 3
    assert site(script, "a").unusable_until is not None


def test_a_component_that_ends_well_clears_what_a_job_did_before(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("ill", 4))
    keep_failing(script, "ill", 1)
    script.ignore(PublishOutputs).tell(a_job("well", 4)).exits(script.running("well")[0])
    assert site(script, "a").errors == 0
    keep_failing(script, "ill", 1)
    assert site(script, "a").errors == 1


def test_a_job_that_erred_at_a_site_goes_elsewhere_and_comes_back_more_and_more_seldom(
    script: Script,
) -> None:
    """Else one with a single site would use up its tries in a minute and a half."""
    script.tell(a_site("a", 4), a_job("ill", 4))
    instants = []
    for _ in range(6):
        keep_failing(script, "ill", 1)
        instants.append(script.now)
    assert instants == [0.0, 2.0, 6.0, 14.0, 30.0, 62.0]
    said = why(script.scheduler, JobId("ill"), script.now)
    assert "not tried at a for 64 s: it erred with the job (failed)" in said
    script.tell(a_site("b", 4)).at(63.0)
    assert script.claimed("ill") == ["ill/7/0/1"]


def test_a_probe_by_a_job_that_had_erred_there_says_nothing_new(script: Script) -> None:
    """It may not keep the site from the next one for another rest."""
    script.tell(a_site("a", 4), a_job("ill", 4))
    keep_failing(script, "ill", 1)
    fail_at(script, "a", 2)
    assert site(script, "a").unusable_until is not None
    keep_failing(script, "ill", 1)
    assert script.now >= 600
    script.tell(a_job("j1", 4))
    assert script.claimed("j1") == ["j1/1/0/1"]
    assert site(script, "a").is_probing


def test_as_the_paper_has_it_each_error_counts(begin: Begin) -> None:
    script = begin(errors_counted="all").tell(a_site("a", 4), a_job("ill", 4))
    keep_failing(script, "ill", 3)
    assert script.now < 10
    assert (site(script, "a").errors, site(script, "a").unusable_until) == (3, script.now + 600)
    (told,) = [line for line in why(script.scheduler, JobId("ill"), script.now) if "not u" in line]
    assert told == (
        "sites not usable: a (unusable for 0 ms after 3 consecutive errors, 3 of them with this"
        " job, tried again in 10 min)"
    )


def test_a_file_is_copied_from_elsewhere_when_its_source_errs(begin: Begin) -> None:
    """One job's errors do not close the source, and the job would else ask for it for ever."""
    script = begin(bandwidth_default_bps=10.0).ignore(CancelTransfer)
    script.tell(a_site("a", 4), a_site("home", 1), a_site("next", 1))
    script.replica("data", "home").replica("data", "next").tell(a_job("j1", 4, file="data"))
    copy = script.expect(StartTransfer, source=SiteName("home"))
    script.tell(TransferFailed(transfer=copy.transfer, at=SiteName("home"), reason="unreadable"))
    script.at(1.5)
    copy = script.expect(StartTransfer, source=SiteName("next"))
    script.tell(TransferFailed(transfer=copy.transfer, at=SiteName("next"), reason="unreadable"))
    script.at(3.0).expect(StartTransfer, source=SiteName("home"))
    assert (site(script, "home").errors, site(script, "next").errors) == (1, 1)
    script.drop()


def test_it_is_told_where_a_file_is_that_nobody_can_give_and_how_that_ends(begin: Begin) -> None:
    script = begin(probe_after_s=float("inf")).tell(a_site("a", 8), a_site("b"), a_site("c"))
    script.replica("data", "b").replica("data", "c").at(10.0)
    fail_at(script, "b", 3)
    script.disconnect("c").at(3700.0).tell(a_job("j1", 4, file="data"))
    said = why(script.scheduler, JobId("j1"), script.now)
    assert said[1].startswith("component 0 (4 processors): no usable site holds its input file")
    assert said[2:] == [
        "data is at b and c only; the job waits until one of them can be used again",
        "sites not usable: b (unusable for 62 min after 3 consecutive errors, until an"
        " administrator resumes it (koala resume b)), c (disconnected for 62 min, until its agent"
        " connects)",
    ]


def test_an_unusable_site_rests_and_comes_back_through_one_probe(script: Script) -> None:
    script.tell(a_site("a", 4))
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1), a_job("j2", 1)).at(599).expect_nothing()
    script.at(600)
    assert script.claimed("j1") == ["j1/1/0/1"]
    script.expect_nothing()
    assert script.phase("j2") == "Placing"
    script.grant("j1/1/0/1")
    script.passed(*script.released("j1")).ignore(PublishOutputs).exits("j1/1/0/1")
    assert site(script, "a").unusable_until is None
    assert script.claimed("j2") == ["j2/1/0/1"]


def test_a_probe_that_runs_as_long_as_the_rest_was_is_enough(script: Script) -> None:
    """It may run for days. One that has run since before the rest proves nothing, and closes no
    site to a probe."""
    script.tell(a_site("a", 4), a_job("old", 1)).running("old")
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1), a_job("j2", 1)).at(600)
    script.grant(*script.claimed("j1")).passed(*script.released("j1"))
    script.at(1199).expect_nothing()
    script.at(1201)
    assert site(script, "a").unusable_until is None
    assert script.claimed("j2") == ["j2/1/0/1"]


def test_a_probe_that_fails_makes_the_site_rest_again(script: Script) -> None:
    script.tell(a_site("a", 4))
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1)).at(600)
    script.gone(script.claimed("j1")[0], EndKind.FAILED).at(601).expect_nothing()
    assert site(script, "a").unusable_until == 1200


def test_a_job_of_several_components_can_be_the_probe(begin: Begin) -> None:
    """One job, not one claim: else a site with nothing but such jobs would rest for ever."""
    script = begin(claim_threshold=1.0).tell(a_site("a", 4))
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1, 1), a_job("j2", 1)).at(600)
    assert len(script.claimed("j1")) == 2
    script.expect_nothing()


def test_an_operator_resumes_an_unusable_site(script: Script) -> None:
    script.tell(a_site("a", 4))
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1)).tell(SiteResumed(site=SiteName("a"), by=ANN))
    script.claimed("j1")
    assert site(script, "a").errors == 0


def test_without_probes_only_an_operator_brings_a_site_back(begin: Begin) -> None:
    script = begin(probe_after_s=float("inf")).tell(a_site("a", 4))
    fail_at(script, "a", 3)
    script.tell(a_job("j1", 1)).at(1e5).expect_nothing()
    script.tell(SiteResumed(site=SiteName("a"), by=ANN))
    script.claimed("j1")


def test_a_failed_job_goes_back_to_the_tail_of_its_own_queue(running: Script) -> None:
    running.report("a", 0).report("b", 0).tell(a_job("j2", 4))
    running.gone("j1/1/0/1", EndKind.VANISHED).drop()
    running.gone("j1/1/1/1").drop()
    assert running.scheduler.queues.order()[1] == ["j2", "j1"]


# --- retry, rerun ---


def test_retry_sends_a_failed_program_back_so_often(begin: Begin) -> None:
    script = begin().tell(a_site("a", 4), a_job("j1", 4, retries=2))
    for attempt in (1, 2, 3):
        script.running("j1")
        script.exits(f"j1/{attempt}/0/1", 9)
        script.after(1.0) if attempt < 3 else None
    assert script.phase("j1") == "Failed"
    assert script.reason("j1") == "component 0 at a: exit status 9"
    assert script.job("j1").retries == 2


def test_a_job_whose_programs_were_done_before_the_stop_came_is_finished(script: Script) -> None:
    """Not run once more; the site that fell silent was heard again before the fence."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.running("j1")
    script.gone("j1/1/0/1", EndKind.UNKNOWN).take(StopClaim)
    assert script.phase("j1") == "Stopping"
    script.exits("j1/1/1/1", 0)
    assert script.phase("j1") == "Stopping"
    script.exits("j1/1/0/1", 0)
    assert script.phase("j1") == "Finished"
    script.expect(PublishOutputs, job="j1", attempt=1)
    assert "Finished: all had ended well before they were stopped" in script.story("j1")
    assert script.job("j1").setbacks == []


def test_a_job_of_which_one_program_was_stopped_runs_again(running: Script) -> None:
    running.gone("j1/1/0/1", EndKind.SITE).take(StopClaim)
    running.exits("j1/1/1/1", 0).drop()
    assert running.phase("j1") == "Placing"


def test_a_failed_program_gives_its_signal(running: Script) -> None:
    running.exits("j1/1/0/1", -9).drop()
    assert running.reason("j1") == "component 0 at a: signal 9"


def test_rerun_no_forbids_a_new_attempt_after_a_pass(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.running("j1")
    script.gone("j1/1/0/1", EndKind.VANISHED)
    assert script.phase("j1") == "Failed"
    assert script.reason("j1").startswith("rerun=no, and it had started")


def test_rerun_no_allows_one_before_a_pass(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.gone(script.claimed("j1")[0], EndKind.FAILED)
    assert script.phase("j1") == "Placing"


def test_rerun_no_takes_a_fenced_member_for_one_that_ran(script: Script) -> None:
    """Nobody will ever know whether it passed."""
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.started("j1")
    script.disconnect("a").fence("j1/1/0/1")
    assert script.phase("j1") == "Failed"


def test_rerun_no_takes_a_member_that_vanished_after_the_release_for_one_that_ran(
    script: Script,
) -> None:
    """Its pass may have been lost with whoever could tell of it."""
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.started("j1")
    script.gone("j1/1/0/1", EndKind.VANISHED)
    assert script.phase("j1") == "Failed"


def test_rerun_no_allows_another_attempt_when_a_starter_vanished_before_the_release(
    script: Script,
) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.grant(*script.claimed("j1")).take(ArmClaim)
    script.gone("j1/1/0/1", EndKind.VANISHED)
    assert script.phase("j1") == "Placing"


def test_rerun_no_after_a_release_that_came_too_late(script: Script) -> None:
    """Aborted at D: it certainly did not pass."""
    script.tell(a_site("a", 4), a_job("j1", 4, rerun=False))
    script.started("j1")
    script.gone("j1/1/0/1", EndKind.LATE)
    assert script.phase("j1") == "Placing"


# --- cancel in every phase ---


def in_phase(begin: Begin, phase: str) -> Script:
    script = begin(queue_jobs_max=1).ignore(PublishOutputs)
    script.tell(a_site("a", 4, idle=0))
    if phase == "Delayed":
        return script.tell(a_job("other", 1), a_job("j1", 1))
    script.tell(a_job("j1", 2, 2))
    if phase == "Placing":
        return script
    claims = script.report("a", 4).claimed("j1")
    if phase == "Claiming":
        return script.grant(claims[0])
    script.grant(*claims)
    if phase == "Starting":
        return script.drop()
    claims = script.released("j1")
    if phase == "Releasing":
        return script.passed(claims[0])
    script.passed(*claims)
    if phase == "Stopping":
        script.gone(claims[0], EndKind.VANISHED).drop()
    return script


@pytest.mark.parametrize(
    ("phase", "stops"),
    [
        ("Delayed", 0),
        ("Placing", 0),
        ("Claiming", 2),
        ("Starting", 2),
        ("Releasing", 2),
        ("Running", 2),
        ("Stopping", 0),
    ],
)
def test_a_job_can_be_cancelled_in_every_phase(begin: Begin, phase: str, stops: int) -> None:
    script = in_phase(begin, phase)
    assert script.phase("j1") == phase
    script.cancel("j1")
    assert len(script.take(StopClaim)) == stops
    assert script.phase("j1") == "Cancelled"
    for claim in list(script.scheduler.ledger):
        script.gone(claim)
    assert script.phase("j1") == "Cancelled"
    script.ignore(ClaimProcessors, ArmClaim).unchanged_by()
    errors = [s.errors for s in script.scheduler.sites.values()]
    assert errors == ([1] if phase == "Stopping" else [0])


def test_cancelling_twice_or_after_the_end_changes_nothing(running: Script) -> None:
    running.exits("j1/1/0/1").exits("j1/1/1/1")
    assert running.phase("j1") == "Finished"
    running.unchanged_by(JobCancelRequested(job=JobId("j1"), by=ANN))
    running.unchanged_by(JobCancelRequested(job=JobId("nobody"), by=ANN))


def test_a_cancel_ends_transfers(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0)
    script.tell(a_site("home", 1), a_site("a", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, file="data"))
    script.expect(StartTransfer)
    script.cancel("j1")
    script.expect(CancelTransfer, transfer="j1/1/t1", source="home", target="a")


def test_a_site_where_batch_jobs_cannot_begin_rests_for_all_and_ever_longer(
    script: Script,
) -> None:
    """As one whose prolog fails: each further job would take a machine out of service."""
    script.ignore(StopClaim, PublishOutputs).tell(a_site("a", 4))
    for job in ("j1", "j2"):
        script.tell(a_job(job, 1)).claimed(job)
    script.gone("j1/1/0/1", EndKind.LAUNCH, reason="its prolog failed")
    assert site(script, "a").unusable_until == script.now + 120.0
    script.gone("j2/1/0/1", EndKind.LAUNCH)  # it was under way
    assert site(script, "a").unusable_until == script.now + 120.0
    assert script.take(ClaimProcessors) == []
    assert any("prolog failed" in line for line in why(script.scheduler, JobId("j1"), script.now))
    for rest_s in (120.0, 240.0):
        script.after(rest_s)
        (probe,) = script.take(ClaimProcessors)
        script.gone(probe.claim, EndKind.LAUNCH)
        assert site(script, "a").unusable_until == script.now + 2 * rest_s
