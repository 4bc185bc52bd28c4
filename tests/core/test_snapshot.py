"""Snapshots of the state: saved and loaded it is the same, with its digest and without purged jobs.

Every script of the core's tests is also saved and loaded on its way, and replayed by a core that
forgets (tests/harness/script.py)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from koala.core.digest import digest
from koala.core.model.values import ClaimId, JobId
from koala.core.policy_api import NO_POLICIES
from koala.core.purge import CHUNK, purge_ended_jobs
from koala.core.scheduler import Scheduler
from koala.core.snapshot import UnreadableSnapshotError, load, save
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script


@pytest.fixture
def busy(script: Script) -> Script:
    """j1 runs, j2 waits, j3 is cancelled, with a key."""
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4))
    script.running("j1")
    script.tell(a_job("j2", 4), a_job("j3", 2)).cancel("j3")
    return script


def through_text(plain: Any) -> Any:
    return json.loads(json.dumps(plain, allow_nan=False))


def test_what_was_saved_is_the_same_state(busy: Script) -> None:
    again = load(through_text(save(busy.scheduler)), NO_POLICIES)
    assert digest(again) == digest(busy.scheduler)
    assert save(again) == save(busy.scheduler)
    assert again.placed[JobId("j1")] is again.jobs[JobId("j1")].attempt
    assert again.wake_at == busy.scheduler.wake_at
    assert isinstance(next(iter(again.jobs)), str)


def test_what_was_saved_does_not_change_with_the_state(busy: Script) -> None:
    before = json.dumps(save(busy.scheduler))
    again = load(json.loads(before), NO_POLICIES)
    busy.cancel("j2")
    assert json.dumps(save(again)) == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"submitted_at":', '"was_submitted_at":', "Job has no field 'was_submitted_at'"),
        ('"submitted_at": 0.0, ', "", "Job was saved without 'submitted_at'"),
        ('"Job"', '"Task"', "unknown class 'Task'"),
        ('"Job"', '"os.system"', "unknown class 'os.system'"),
        ('"site_budgets":', '"site_purses":', "the state has no 'site_purses'"),
        ('["r", 1]', '["r", 999]', "IndexError"),
        ('["e", ', '["?", ', "KeyError"),
    ],
)
def test_what_cannot_be_understood_is_refused(busy: Script, old: str, new: str, said: str) -> None:
    text = json.dumps(save(busy.scheduler))
    assert old in text
    with pytest.raises(UnreadableSnapshotError, match=said):
        load(json.loads(text.replace(old, new)), NO_POLICIES)


# --- forgetting -----------------------------------------------------------------------------------


def ended_jobs(script: Script, count: int) -> Scheduler:
    for number in range(count):
        script.tell(a_job(f"j{number}", 1))
        script.cancel(f"j{number}").after(1.0)
    return copied(script)


def copied(script: Script) -> Scheduler:
    """Save and load the state; the script goes on without what a snapshot forgets."""
    return load(through_text(save(script.scheduler)), NO_POLICIES)


def test_jobs_are_forgotten_in_lots_the_oldest_first(script: Script) -> None:
    scheduler = ended_jobs(script, 250)
    assert purge_ended_jobs(scheduler, script.now, keep=250 - CHUNK + 1, keep_s=1e9) == []
    gone = purge_ended_jobs(scheduler, script.now, keep=150, keep_s=1e9)
    assert [one.job.id for one in gone] == [f"j{n}" for n in range(100)]
    assert gone[0].ended_at == 0.0
    assert next(iter(scheduler.jobs)) == "j100"
    assert digest(scheduler) == digest(script.scheduler)


def test_jobs_are_forgotten_when_they_are_old(script: Script) -> None:
    scheduler = ended_jobs(script, 150)
    assert purge_ended_jobs(scheduler, script.now, keep=1000, keep_s=60.0) == []
    gone = purge_ended_jobs(scheduler, script.now, keep=1000, keep_s=20.0)
    assert len(gone) == 131
    assert purge_ended_jobs(scheduler, script.now, keep=1000, keep_s=20.0) == []


def test_a_job_whose_claim_has_a_pending_stop_stays(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4))
    script.running("j1")
    script.cancel("j1").drop()
    assert ClaimId("j1/1/0/1") in script.scheduler.ledger
    assert purge_ended_jobs(copied(script), script.now + 1, keep=0, keep_s=0.0, chunk=1) == []
    script.gone("j1/1/0/1")
    (gone,) = purge_ended_jobs(copied(script), script.now + 1, keep=0, keep_s=0.0, chunk=1)
    assert gone.job.phase_name == "Cancelled"


def test_the_key_of_a_job_goes_with_it(script: Script) -> None:
    script.tell(replace(a_job("j1", 1), key="ann:1", digest="d")).cancel("j1")
    scheduler = copied(script)
    (gone,) = purge_ended_jobs(scheduler, script.now + 1, keep=0, keep_s=0.0, chunk=1)
    assert (gone.key, gone.digest) == ("ann:1", "d")
    assert scheduler.keys == {}
    assert digest(scheduler) == digest(script.scheduler)
