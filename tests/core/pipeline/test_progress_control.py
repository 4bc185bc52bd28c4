"""Progress control of running jobs: reports in, shares of the time out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.core.model.actions import ClaimProcessors, PaceClaim
from koala.core.model.events import ProgressReported
from koala.core.model.progress_reports import POINTS_MAX, MemberReport
from koala.core.model.values import JobId, SiteName
from koala.core.pipeline.progress_control import cycles_between_questions
from koala.policies import chosen
from tests.harness.builders import FREE, a_component, a_job, a_site
from tests.harness.script import Script

A, B = "j1/1/0/1", "j1/1/1/1"


def begun(script: Script, **more: object) -> Script:
    """j1 of one processor at each of two sites, running under synchronous queuing."""
    script.change(progress_cycle_s=0.5).tell(a_site("a", 4), a_site("b", 4))
    parts = [a_component(1, "a"), a_component(1, "b", rate=more.pop("rate", None))]
    script.tell(a_job("j1", *parts, **{"progress": "sq", **more}))
    assert script.running("j1") == [A, B]
    return script


def told(script: Script, cycle: int, *work: float, **more: bool) -> Script:
    """Both components report at the end of this cycle."""
    members = tuple(MemberReport(component=n, work=w, **more) for n, w in enumerate(work))
    return script.tell(ProgressReported(job=JobId("j1"), attempt=1, cycle=cycle, members=members))


def test_a_controlled_job_has_its_components_measured(script: Script) -> None:
    script.tell(a_site("a", 4))
    script.tell(a_job("j1", a_component(1), a_component(1, start_type=FREE), progress="sq"))
    asked = script.take(ClaimProcessors)
    assert [action.progress_s for action in asked] == [script.parameters.progress_cycle_s, 0.0]
    script.tell(a_job("j2", 1))
    assert script.expect(ClaimProcessors, claim="j2/1/0/1").progress_s == 0.0


def test_components_that_advance_together_are_left_alone(script: Script) -> None:
    begun(script)
    told(script, 2, 1.0, 0.9)
    assert script.picture("j1")["progress"]["skew_s"] == pytest.approx(0.1)


def test_the_one_ahead_is_slowed_down_when_the_other_cannot_be_sped_up(script: Script) -> None:
    """Both want all they can get, so that nobody has a dummy: the pivotal point is what counts."""
    begun(script, asynchrony_s=1.0)
    told(script, 8, 4.0, 1.0)
    paced = script.expect(PaceClaim, claim=A)
    assert paced.share == pytest.approx(1 - (4.0 - 2.5) / (4 * 0.5))
    assert script.scheduler.wanted(SiteName("a")).paces == (paced,)
    assert script.scheduler.wanted(SiteName("b")).paces[0].share == 1.0
    told(script, 16, 5.0, 3.0)
    slower = script.expect(PaceClaim, claim=A).share
    assert slower == pytest.approx(paced.share * (1 - 1.0 / 2))
    shown = script.picture("j1")["progress"]
    assert shown["shares"] == {"a": slower}
    assert shown["corrections"] == 2
    assert shown["largest_skew_s"] == 3.0


def test_what_was_slowed_down_is_sped_up_again_as_far_as_it_was(script: Script) -> None:
    begun(script, asynchrony_s=0.5)
    told(script, 8, 4.0, 1.0)
    share = script.expect(PaceClaim, claim=A).share
    told(script, 9, 4.1, 4.7)
    assert script.expect(PaceClaim, claim=A).share == pytest.approx(share + 0.4 * share / 2)
    told(script, 10, 4.7, 5.3)
    assert script.expect(PaceClaim, claim=A).share == pytest.approx(0.3 + 0.3 * 0.3 / 2)
    told(script, 40, 2.8, 12.0)
    assert script.expect(PaceClaim, claim=A).share == 1.0
    assert script.expect(PaceClaim, claim=B).share == pytest.approx(0.02)
    assert list(script.picture("j1")["progress"]["shares"]) == ["b"]


def test_work_counts_against_what_was_agreed(script: Script) -> None:
    begun(script, rate=20.0)
    told(script, 8, 3.9, 80.0, is_told=True)
    assert script.picture("j1")["progress"]["skew_s"] == pytest.approx(0.1)


def test_a_report_that_changes_nothing_is_not_journaled(script: Script) -> None:
    """A point of the skew over time is, and points get rarer."""
    begun(script)
    kept = 0
    for cycle in range(1, 2001):
        before = len(script.journal)
        told(script, cycle, cycle / 2, cycle / 2)
        kept += len(script.journal) - before
    course = script.job("j1").course
    assert course is not None
    assert len(course.points) <= POINTS_MAX
    assert kept < 5 * POINTS_MAX


def test_an_old_job_is_corrected_less_often_and_as_much_in_the_same_time(script: Script) -> None:
    """A job's corrections in the journal are bounded, however far apart its components are."""
    assert [cycles_between_questions(cycle) for cycle in (0, 1199, 1200, 4800, 19_200, 10**9)] == [
        1,
        1,
        2,
        4,
        8,
        8,
    ]
    begun(script, asynchrony_s=0.1)
    told_of = 0
    for cycle in range(20_000, 20_800):
        swing = 1.0 if cycle // 40 % 2 else -1.0
        told(script, cycle, cycle / 4 + swing, cycle / 4)
        told_of += len(script.take(PaceClaim))
    course = script.job("j1").course
    assert course is not None
    assert 20 < course.corrections == told_of <= 2 * 800 / 8


def test_reports_of_another_attempt_or_of_a_job_that_is_over_are_nobodys(script: Script) -> None:
    begun(script)
    other = ProgressReported(job=JobId("j1"), attempt=2, cycle=9, members=())
    script.unchanged_by(other, replace(other, attempt=1), replace(other, job=JobId("j9")))
    script.exits(A)
    script.exits(B)
    assert script.drop().phase("j1") == "Finished"
    late = (MemberReport(component=0, work=9.0), MemberReport(component=1, work=0.0))
    script.unchanged_by(replace(other, attempt=1, members=late))


def test_what_was_slowed_down_for_one_that_is_over_runs_freely(script: Script) -> None:
    """Else it would stay slow for ever: alone it is ahead of nobody."""
    begun(script, asynchrony_s=1.0)
    told(script, 8, 4.0, 1.0)
    script.expect(PaceClaim, claim=A)
    script.exits(B)
    freed = script.expect(PaceClaim, claim=A, share=1.0)
    assert script.scheduler.wanted(SiteName("a")).paces == (freed,)
    told(script, 16, 8.0, 1.0).expect_nothing()
    script.exits(A)
    assert script.drop().phase("j1") == "Finished"


def test_a_policy_that_is_gone_corrects_nothing() -> None:
    policies = chosen()
    script = Script(replace(policies, progress={}))
    told(begun(script), 8, 4.0, 1.0)
    script.close()
