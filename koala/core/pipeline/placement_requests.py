"""Questions for the placement policy about the components of a job, and its recorded answers."""

from __future__ import annotations

from dataclasses import replace

from koala.core import queries
from koala.core.allowances import processors_left
from koala.core.model.grid import GridView, Part, Placement, PlacementRequest
from koala.core.model.job import Job
from koala.core.model.values import FOREVER, Instant
from koala.core.state import State


def whole_request(state: State, job: Job, now: Instant) -> PlacementRequest:
    """Make the request for all components; files must reach a site before a job's deadline. The
    one part of a flexible job stands for all that it is split into."""
    request = shaped_request(state, job, now)
    split = job.spec.split
    if split is None:
        return request
    part = request.parts[0]._replace(
        processors=split.part_min, size_bytes=max([part.size_bytes for part in request.parts])
    )
    left = processors_left(state, job)
    return replace(request, parts=(part,), split=replace(split, total=min(split.total, left)))


def shaped_request(state: State, job: Job, now: Instant) -> PlacementRequest:
    """Make the request for all components, those of a flexible job as it is split now."""
    return PlacementRequest(
        parts=tuple(
            Part(
                component=index,
                processors=component.processors,
                site=queries.fixed_site(job, index),
                size_bytes=queries.part_of_file(state, job, index)[1],
                file=job.spec.input_names(index),
            )
            for index, component in enumerate(job.spec.components)
        ),
        user=job.spec.owner,
        transfer_s_max=FOREVER if job.deadline_at is None else max(0.0, job.deadline_at - now),
        demand=queries.demand_of(job.spec, state.parameters),
        home=job.spec.queue,
    )


def ask_placement(
    state: State, job: Job, request: PlacementRequest, view: GridView
) -> Placement | None:
    """Ask the placement policy and record its answer; None if it finds no place."""

    def ask() -> Placement | None:
        answer = queries.placement_policy(state, job)(request, view)
        return answer if isinstance(answer, Placement) else None

    answer = state.recorder.ask(ask)
    assert answer is None or isinstance(answer, Placement), answer
    return answer
