"""Show the placement queues in order, and the obstacles of their heads."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from koala.client.grid_model import GridModel
from koala.common.runtime import clock
from koala.errors import UnknownJobError
from koala.web.pages.viewer import Viewer, signed_in

HEADS_EXPLAINED = 5
"""Queues whose heads are explained; each costs the daemon a query."""


@signed_in
async def show(_: Request, viewer: Viewer) -> Response:
    """Show the queues that are not empty."""
    model = viewer.identity.model
    found = await model.queues()
    queues = [queue for queue in found.queues if queue.jobs]
    ageing_s, now_at = found.ageing_s, clock.unix_now()
    return viewer.page(
        "queues.html",
        here="queues",
        discipline=found.discipline,
        ageing_s=ageing_s,
        queues=queues,
        why={
            queue.queue: await _why(model, queue.first[0].job)
            for queue in queues[:HEADS_EXPLAINED]
            if queue.first
        },
        aged={
            job.job
            for queue in queues
            for job in queue.first
            if ageing_s is not None
            and job.queued_at is not None
            and now_at - float(job.queued_at) >= ageing_s
        },
    )


async def _why(model: GridModel, job: str) -> tuple[str, ...]:
    try:
        return (await model.why(job)).why
    except UnknownJobError:  # it has left meanwhile
        return ()
