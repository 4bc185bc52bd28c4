"""The account of a job counts every processor-second once: by whom, where and when."""

from __future__ import annotations

from typing import Any

import pytest

from koala.common.protocol.messages import Report, ReportState
from koala.core.model.actions import PublishOutputs, StopClaim
from koala.core.model.events import ClaimGone, ClaimGranted, JobCancelRequested
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import ClaimId, JobId, SiteName, UserName
from koala.daemon.agents.reports import report_events
from koala.views.accounting import DAY_S, By, Period, ReportBuilder
from koala.views.explain import why
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

pytestmark = pytest.mark.usefixtures("calm")
ANN, BOB = UserName("ann"), UserName("bob")


@pytest.fixture
def calm(script: Script) -> None:
    """Drop the actions that ask sites to end a job."""
    script.ignore(PublishOutputs, StopClaim)


@pytest.fixture
def finished(script: Script) -> Script:
    """ann's j1 of 4 and 2 processors: checked in at 0 and 4, passed at 12, over at 112."""
    script.tell(a_site("a", 4), a_site("b", 2), a_job("j1", 4, 2, owner=ANN))
    first, second = script.claimed("j1")
    script.tell(ClaimGranted(claim=ClaimId(first), nonce="n1", batch_job="4711"))
    script.after(4).grant(second)
    number, _ = script.armings("j1")
    script.arm(first, number).arm(second, number).drop()
    script.at(12).passed(first)
    script.at(12.5).passed(second)
    script.at(112).exits(first)
    exited = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), ended_at=102.5)
    script.tell(ClaimGone(claim=ClaimId(second), end=exited, batch_job="17"))
    assert script.phase("j1") == "Finished"
    return script


def rows(script: Script, by: By, **period: Any) -> list[dict[str, Any]]:
    return list(ReportBuilder(script.scheduler, by, Period(**period), script.now).report()["rows"])


def total(script: Script, **period: Any) -> dict[str, Any]:
    found = ReportBuilder(script.scheduler, By.USER, Period(**period), script.now).report()["total"]
    assert isinstance(found, dict)
    return found


def seconds(row: dict[str, Any]) -> tuple[float, float, float]:
    return row["run_s"], row["held_s"], row["wasted_s"]


def test_a_claim_is_held_until_it_passes_and_runs_until_it_ends(finished: Script) -> None:
    (row,) = rows(finished, By.USER)
    assert row["user"] == "ann"
    assert seconds(row) == (4 * 100 + 2 * 90, 4 * 12 + 2 * 8.5, 0)
    assert (row["jobs_finished"], row["claims"]) == (1, 2)
    assert row["skew_max_s"] == row["skew_median_s"] == 0.5


def test_a_job_at_two_sites_counts_at_both_and_once_in_the_total(finished: Script) -> None:
    at_a, at_b = rows(finished, By.SITE)
    assert (at_a["site"], at_b["site"]) == ("a", "b")
    assert (seconds(at_a), seconds(at_b)) == ((400, 48, 0), (180, 17, 0))
    assert (at_a["jobs_finished"], at_b["jobs_finished"], total(finished)["jobs_finished"]) == (
        1,
        1,
        1,
    )


def test_why_names_the_batch_jobs_of_a_job_that_is_held_or_runs(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 2), a_job("j1", 4, 2, owner=ANN))
    first, second = script.claimed("j1")
    script.tell(ClaimGranted(claim=ClaimId(first), nonce="n1", batch_job="4711"))
    named = "component 0 at a is batch job 4711"

    def told() -> str:
        lines = why(script.scheduler, JobId("j1"), script.now)
        assert lines[-1] == named
        return lines[0]

    assert told() == "1 of 2 components claimed, 2 needed"
    script.after(4).grant(second)
    assert told().startswith("all components claimed; the start is prepared")
    number, _ = script.armings("j1")
    script.arm(first, number).arm(second, number).drop()
    script.at(12).passed(first)
    script.passed(second)
    assert told().startswith("running for ")


def test_seconds_are_cut_at_the_bounds_of_a_period(finished: Script) -> None:
    parts = [total(finished, since=s, until=s + 20) for s in range(0, 120, 20)]
    whole = total(finished)
    for kind in ("run_s", "held_s", "wasted_s", "jobs_finished", "claims"):
        assert sum(part[kind] for part in parts) == pytest.approx(whole[kind])
    assert seconds(parts[1]) == (20 * 6, 0, 0)
    assert seconds(parts[0]) == (4 * 8 + 2 * 7.5, 48 + 17, 0)
    assert [part["jobs_finished"] for part in parts] == [0, 0, 0, 0, 0, 1]
    assert [part["skew_max_s"] for part in parts] == [0.5, None, None, None, None, None]


def test_a_claim_over_midnight_belongs_to_two_days(script: Script) -> None:
    script.tell(a_site("a", 4)).at(DAY_S - 10).tell(a_job("j1", 4))
    script.running("j1")
    script.at(DAY_S + 20).exits("j1/1/0/1", 0)
    before, after = rows(script, By.DAY)
    assert (before["day"], after["day"]) == ("1970-01-01", "1970-01-02")
    assert before["run_s"] + before["held_s"] == pytest.approx(40)
    assert after["run_s"] == pytest.approx(80)
    assert (before["jobs_finished"], after["jobs_finished"]) == (0, 1)


def test_a_report_of_one_user_or_site_has_only_what_is_theirs(finished: Script) -> None:
    finished.tell(a_job("j2", 4, owner=BOB)).running("j2")
    finished.after(10).exits("j2/1/0/1")
    assert finished.phase("j2") == "Finished"
    everything = {(row["user"], row["site"]) for row in rows(finished, By.CLAIM)}
    assert everything == {("ann", "a"), ("ann", "b"), ("bob", "a")}

    def claims(**only: str) -> list[tuple[str, str]]:
        return [(row["user"], row["site"]) for row in rows(finished, By.CLAIM, **only)]

    assert claims(user="bob") == [("bob", "a")]
    assert claims(site="b") == [("ann", "b")]
    assert claims(user="bob", site="b") == []
    (bob,) = rows(finished, By.USER, user="bob")
    assert (bob["user"], bob["claims"]) == ("bob", 1)
    assert total(finished, user="bob") == {k: v for k, v in bob.items() if k != "user"}
    (at_b,) = rows(finished, By.SITE, site="b")
    (whole,) = [row for row in rows(finished, By.SITE) if row["site"] == "b"]
    assert at_b == whole
    assert total(finished, site="b") == {k: v for k, v in at_b.items() if k != "site"}
    assert total(finished, site="b")["jobs_finished"] == 1, "j2 held nothing there"
    assert [row["user"] for row in rows(finished, By.USER, site="b")] == ["ann"]


def test_what_never_passed_is_wasted_and_the_failing_site_has_the_fault(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 2), a_job("j1", 4, 2, owner=BOB))
    first, second = script.claimed("j1")
    script.grant(first).after(5).gone(second, EndKind.FAILED)
    assert total(script)["setbacks"] == 1
    script.gone(first)
    at_a, at_b = rows(script, By.SITE)
    assert (seconds(at_a), seconds(at_b)) == ((0, 0, 20), (0, 0, 0))
    assert (at_a["failed_claims"], at_b["failed_claims"]) == (0, 1)
    assert (at_a["setbacks"], at_b["setbacks"]) == (1, 1)


def test_what_a_claim_held_until_its_stop_came_is_charged(script: Script) -> None:
    """Its starter checked in while its site was away, and its job was cancelled."""
    script.tell(a_site("a", 4), a_job("j1", 4, owner=BOB))
    (claim,) = map(ClaimId, script.claimed("j1"))
    script.after(3).tell(JobCancelRequested(job=JobId("j1"), by=BOB))
    end = ClaimEnd(kind=EndKind.STOPPED, reason="")
    for report in (
        Report(claim=claim, state=ReportState.GRANTED, nonce="n"),
        Report(claim=claim, state=ReportState.GONE, nonce="n", end=end),
    ):
        script.after(5).tell(
            *report_events(report, SiteName("a"), script.scheduler, rtt_s=0.0, now=script.now)
        )
    (row,) = rows(script, By.JOB)
    assert (row["claims"], seconds(row)) == (1, (0, 0, 20))


def test_an_attempt_that_is_given_up_after_its_start_was_all_waste(finished: Script) -> None:
    finished.tell(a_job("j2", 4, owner=BOB))
    finished.running("j2")
    finished.after(50).gone("j2/1/0/1", EndKind.VANISHED)
    (row,) = [row for row in rows(finished, By.JOB) if row["job"] == "j2"]
    assert row["run_s"] == row["held_s"] == 0
    assert row["wasted_s"] >= 200
    assert (row["failed_claims"], row["setbacks"]) == (1, 1)
