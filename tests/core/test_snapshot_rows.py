"""Rows of queued jobs: a job comes back from its row, with each line of its story."""

import json
from dataclasses import fields

import pytest

from koala.core.model.job import Delayed, Job, Phase, Placing
from koala.core.model.values import JobId
from koala.core.snapshot_rows import QueuedRow, job_of, row_of
from tests.harness.builders import a_spec

STORY = [(1.0, "submitted"), (2.5, "the placement queues are full"), (4.0, "queued")]


@pytest.mark.parametrize("lines", range(4))
@pytest.mark.parametrize("phase", [Delayed(), Placing(queued_at=4.0)])
def test_a_job_comes_back_from_its_row_with_its_story(phase: Phase, lines: int) -> None:
    job = Job(
        id=JobId("j1"),
        spec=a_spec(4),
        submitted_at=1.0,
        phase=phase,
        claim_fraction=0.75,
        placement_tries=2,
        story=STORY[:lines],
    )
    again = job_of(saved(job), [job.spec])
    assert [getattr(again, one.name) for one in fields(Job)] == [
        getattr(job, one.name) for one in fields(Job)
    ]


def test_a_row_with_half_a_line_is_refused() -> None:
    job = Job(id=JobId("j1"), spec=a_spec(), submitted_at=1.0, phase=Delayed(), claim_fraction=0.75)
    for cut in (STORY[:1], STORY[:2]):
        job.story = cut
        with pytest.raises(ValueError, match="zip"):
            job_of(saved(job)[:-1], [job.spec])


def saved(job: Job) -> QueuedRow:
    """Return the row of a job as a saved state has it."""
    row: QueuedRow = json.loads(json.dumps(row_of(job, 0)))
    return row
