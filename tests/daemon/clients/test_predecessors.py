"""Jobs that a submitted one may wait for."""

from __future__ import annotations

import pytest

from koala.core.model.job import Cancelled, Finished, Job, Phase, Placing
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import JobId, UserName
from koala.daemon.clients.submit_service import check_predecessors
from koala.errors import RejectedError
from tests.harness.builders import a_spec

J1 = JobId("j1")
RUNNING = Placing(queued_at=0.0)
CANCELLED = Cancelled(at=1.0, reason="by ann")
FINISHED = Finished(at=1.0, attempt=None)  # type: ignore[arg-type]


def check(phase: Phase, ended: Ended = Ended.OK, *, user: str = "ann", job: JobId = J1) -> None:
    spec = a_spec(1, owner=UserName("ann"))
    known = {J1: Job(id=J1, spec=spec, submitted_at=0.0, phase=phase, claim_fraction=0.0)}
    wanted = a_spec(1, after=(Predecessor(job=job, ended=ended),))
    check_predecessors(wanted, known.get, lambda owner: owner == user)


def test_a_job_may_wait_for_one_that_lives_or_has_ended_as_asked() -> None:
    check(RUNNING)
    check(FINISHED)
    check(CANCELLED, Ended.ANY)


def test_a_job_that_has_ended_otherwise_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(RejectedError, match=r"j1: that job is Cancelled, .*expected j1:any"):
        check(CANCELLED)


def test_a_job_of_another_user_is_answered_like_one_that_does_not_exist() -> None:
    with pytest.raises(RejectedError) as unknown:
        check(RUNNING, job=JobId("j2"))
    with pytest.raises(RejectedError) as hidden:
        check(RUNNING, user="bob")
    assert str(hidden.value) == str(unknown.value).replace("j2", "j1")
