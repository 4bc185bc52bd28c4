"""Rows of queued jobs in a saved state: most jobs of a long queue have no history yet.

Such a job is one flat list of the few facts that are its own; all others are as in a new job. A job
with any other fact has no row, and is saved like every object (`koala.core.snapshot`).
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, TypeAlias

from koala.core.model.job import Delayed, Job, Placing
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import JobId

QueuedRow: TypeAlias = list[Any]
"""id, number of its description, submitted_at, queued_at (None: delayed), claim_fraction, queue,
placement_tries, not_before, then instant and text of each line of its story."""
FACTS = 8
"""Values of a row before those of its story."""
_LINE = 2  # values of a line
_OWN = frozenset(
    {"id", "spec", "submitted_at", "phase", "claim_fraction", "queue", "placement_tries"}
    | {"not_before", "story"}
)
_REST = [field for field in fields(Job) if field.init and field.name not in _OWN]
_rest_of = attrgetter(*[field.name for field in _REST])
_REST_NEW = tuple(
    [
        field.default if field.default_factory is MISSING else field.default_factory()
        for field in _REST
    ]
)
"""Rest of a new job, as `_rest_of` returns it."""


def row_of(job: Job, number: int) -> QueuedRow | None:
    """Return the row of a job with this description; None for a job that has none."""
    phase = job.phase
    queued_at = phase.queued_at if type(phase) is Placing else None
    if queued_at is None and type(phase) is not Delayed:
        return None
    if _rest_of(job) != _REST_NEW or not math.isfinite(job.not_before):
        return None
    row: QueuedRow = [
        *(job.id, number, job.submitted_at, queued_at, job.claim_fraction, job.queue),
        *(job.placement_tries, job.not_before),
    ]
    for line in job.story:
        row += line
    return row


def job_of(row: QueuedRow, specs: list[JobSpec]) -> Job:
    """Return the job of a row. Raises TypeError, ValueError, IndexError."""
    name, number, submitted_at, queued_at, fraction, queue, tries, not_before = row[:FACTS]
    story = row[FACTS:]
    lines = (  # a job that waits mostly has one
        [(story[0], story[1])]
        if len(story) == _LINE
        else list(zip(story[::2], story[1::2], strict=True))
    )
    return Job(
        id=JobId(name),
        spec=specs[number],
        submitted_at=submitted_at,
        phase=Delayed() if queued_at is None else Placing(queued_at=queued_at),
        claim_fraction=fraction,
        queue=queue,
        placement_tries=tries,
        not_before=not_before,
        story=lines,
    )
