"""Jobs that wait for others to end (`after`)."""

from __future__ import annotations

import pytest

from koala.core.invariants import check
from koala.core.model.actions import ClaimProcessors, PublishOutputs
from koala.core.model.events import JobCancelRequested, JobSubmitted
from koala.core.model.job import Cancelled
from koala.core.model.job_spec import Deadline
from koala.core.model.parameters import Parameters
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import JobId
from koala.core.scheduler import Scheduler
from koala.policies import chosen
from koala.views.documents import summary
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_job, a_site
from tests.harness.script import ANN, Script


def after(*names: str, ended: Ended = Ended.OK) -> tuple[Predecessor, ...]:
    return tuple(Predecessor(job=JobId(name), ended=ended) for name in names)


def a_successor(name: str, *before: str, ended: Ended = Ended.OK, **more: object) -> JobSubmitted:
    return a_job(name, 1, after=after(*before, ended=ended), **more)


def finish(script: Script, *names: str, status: int = 0) -> None:
    script.ignore(PublishOutputs)
    for name in names:
        for claim in script.running(name):
            script.exits(claim, status)


def test_a_job_waits_until_those_before_it_have_ended_as_asked(script: Script) -> None:
    both = (*after("j1"), *after("j2", ended=Ended.ANY))
    script.tell_together(
        a_site("delft", 8), a_job("j1", 1), a_job("j2", 99), a_job("j3", 1, after=both)
    )
    assert script.phase("j3") == "Waiting"
    finish(script, "j1")
    text = "waits for j2 to end; j2 is Placing now"
    assert why(script.scheduler, JobId("j3"), script.now) == [text]
    script.cancel("j2").expect(ClaimProcessors, claim="j3/1/0/1")


def test_a_list_says_what_a_job_waits_for(script: Script) -> None:
    names = [f"j{n}" for n in range(1, 9)]
    script.tell(*(a_job(name, 1) for name in names), a_successor("last", *names))
    assert summary(script.job("last"))["reason"] == "waits for j1, j2, j3, j4, j5 and 3 more"


@pytest.mark.parametrize(("ended", "phase"), [(Ended.OK, "Cancelled"), (Ended.ANY, "Claiming")])
def test_a_job_that_fails_lets_only_those_go_on_that_take_any_end(
    script: Script, ended: Ended, phase: str
) -> None:
    script.tell_together(a_site("delft", 8), a_job("j1", 1), a_successor("j2", "j1", ended=ended))
    finish(script, "j1", status=3)
    assert script.phase("j2") == phase
    script.drop()


def test_a_whole_chain_is_cancelled_with_its_first_job() -> None:
    """Longer than any recursion could be."""
    scheduler = Scheduler(Parameters(), chosen())
    for event in (a_job("j0", 1), *(a_successor(f"j{n}", f"j{n - 1}") for n in range(1, 1500))):
        scheduler.handle(event, 0.0)
    scheduler.handle(JobCancelRequested(job=JobId("j0"), by=ANN), 1.0)
    assert scheduler.jobs[JobId("j1499")].phase_name == "Cancelled"
    reason = "because j0 was cancelled: it starts only after j0 has ended well"
    assert scheduler.jobs[JobId("j1")].phase == Cancelled(at=1.0, reason=reason)
    check(scheduler, 1.0)


def test_a_job_that_waits_for_several_is_cancelled_by_the_first_that_fails(script: Script) -> None:
    script.tell(a_job("j1", 1), a_job("j2", 1), a_successor("j3", "j1", "j2"))
    script.cancel("j2")
    assert script.reason("j3").startswith("because j2 was cancelled")
    script.cancel("j1")
    assert script.story("j3").count("Cancelled") == 1


def test_a_job_that_waits_can_be_cancelled(script: Script) -> None:
    script.tell(a_job("j1", 1), a_successor("j2", "j1"), a_successor("j3", "j1")).cancel("j2")
    assert (script.phase("j2"), script.phase("j3")) == ("Cancelled", "Waiting")
    assert script.reason("j2") == "by ann"


def test_a_job_after_one_that_is_over_is_placed_at_once(script: Script) -> None:
    """Admission has seen how it ended; here it may be forgotten already."""
    script.tell(a_site("delft", 8), a_job("j1", 1))
    finish(script, "j1")
    script.tell(a_successor("j2", "j1"))
    script.expect(ClaimProcessors, claim="j2/1/0/1")


def test_a_wait_that_is_over_does_not_pass_jobs_that_are_delayed(begin: Begin) -> None:
    script = begin(queue_jobs_max=1)
    script.tell(a_site("delft", 8, idle=1), a_job("j1", 1)).ignore(PublishOutputs)
    claims = script.running("j1")
    script.tell(a_job("j2", 8), a_job("j3", 8), a_successor("j4", "j1"))
    for claim in claims:
        script.exits(claim)
    assert [script.phase(f"j{n}") for n in (2, 3, 4)] == ["Placing", "Delayed", "Delayed"]


def test_a_deadline_may_pass_while_a_job_waits(script: Script) -> None:
    script.tell(a_job("j1", 1), a_successor("j2", "j1", deadline=Deadline(after_s=60.0)))
    script.at(100)
    assert script.reason("j2") == "deadline missed by more than 2 s: it waited for j1"
