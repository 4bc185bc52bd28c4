"""Rows of queued jobs in a saved state: jobs without a history have one, and keep their places."""

from __future__ import annotations

import json

import pytest

from koala.core.digest import digest
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import JobId
from koala.core.policy_api import NO_POLICIES
from koala.core.snapshot import UnreadableSnapshotError, load, save
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script


@pytest.fixture
def queued(script: Script) -> Script:
    """j2 runs among jobs that wait; j5 is cancelled."""
    script.tell(a_site("a", 4), a_job("j1", 8), a_job("j2", 4))
    script.running("j2")
    script.tell(a_job("j3", 8), a_job("j4", 1, 1), a_job("j5", 2)).cancel("j5")
    return script


def test_jobs_with_and_without_rows_keep_their_order(queued: Script) -> None:
    scheduler = queued.scheduler
    plain = json.loads(json.dumps(save(scheduler)))
    assert [row[0] for row in plain["queued"]] == ["j1", "j3", "j4"]
    again = load(plain, NO_POLICIES)
    assert list(again.jobs) == list(scheduler.jobs)
    assert again.queues.order() == scheduler.queues.order()
    assert digest(again) == digest(scheduler)
    for line in again.queues.lines.values():
        assert all(job is again.jobs[name] for name, job in line.items())
    assert again.jobs[JobId("j3")].story == scheduler.jobs[JobId("j3")].story


def test_a_queued_job_with_a_history_is_saved_whole(queued: Script) -> None:
    other = load(save(queued.scheduler), NO_POLICIES)
    other.jobs[JobId("j3")].failures = 1
    plain = save(other)
    assert [row[0] for row in plain["queued"]] == ["j1", "j4"]
    again = load(plain, NO_POLICIES)
    assert again.jobs[JobId("j3")].failures == 1
    assert list(again.jobs) == list(queued.scheduler.jobs)


def test_descriptions_may_be_kept_beside_the_state(queued: Script) -> None:
    specs: list[JobSpec] = []
    plain = save(queued.scheduler, specs)
    assert "specs" not in plain
    assert specs == [job.spec for job in queued.scheduler.jobs.values()]
    assert digest(load(plain, NO_POLICIES, specs)) == digest(queued.scheduler)
    with pytest.raises(UnreadableSnapshotError, match="IndexError"):
        load(plain, NO_POLICIES, specs[:1])


def test_an_order_that_lacks_a_job_is_refused(queued: Script) -> None:
    plain = save(queued.scheduler)
    plain["order"].pop()
    with pytest.raises(UnreadableSnapshotError, match="the order names 4 jobs of 5"):
        load(plain, NO_POLICIES)
