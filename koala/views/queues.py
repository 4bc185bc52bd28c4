"""Builder of the record of the placement queues (docs/api.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from koala.core.model.job import Job, Placing
from koala.core.model.placement_queues import queue_label
from koala.core.model.values import FOREVER
from koala.core.state import State
from koala.views.records import grid
from koala.views.records.base import Moment, moment_of

LOOKED_AT_MAX = 2_000
"""Jobs of a queue that are looked at, from its head on."""
SHOWN_MAX = 50
"""Jobs of a queue that are shown."""


def queues_document(state: State, sees: Callable[[str], bool]) -> grid.Queues:
    """Show all queues, each with its first jobs whose owner passes `sees`.

    Positions count all jobs. Besides the placement queues there are jobs with a deadline, which
    wait for their own instants, and delayed ones, which wait for room in the queues.
    """
    ageing_s = state.parameters.ageing_s
    queues = state.queues
    lines = [("placement", queue_label(name), line) for name, line in queues.lines.items()]
    lines += [("deadline", "deadline", queues.timed), ("delayed", "delayed", queues.delayed)]
    return grid.Queues(
        discipline=queues.discipline,
        ageing_s=None if ageing_s == FOREVER else ageing_s,
        queues=tuple(
            grid.Queue(
                kind=kind,
                queue=name,
                jobs=len(line),
                first=tuple(islice(_places(line.values(), sees), SHOWN_MAX)),
            )
            for kind, name, line in lines
        ),
    )


def _places(line: Iterable[Job], sees: Callable[[str], bool]) -> Iterator[grid.QueuedJob]:
    for position, job in enumerate(islice(line, LOOKED_AT_MAX), 1):
        if sees(job.spec.owner):
            yield grid.QueuedJob(
                position=position,
                job=job.id,
                name=job.spec.name,
                owner=job.spec.owner,
                priority=job.spec.priority.value,
                processors=job.spec.processors,
                components=len(job.spec.components),
                queued_at=moment_of(
                    job.phase.queued_at if isinstance(job.phase, Placing) else None
                ),
                submitted_at=Moment.of(job.submitted_at),
                placement_tries=job.placement_tries,
            )
