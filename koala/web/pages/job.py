"""One job: its course, barrier, components, logs and outputs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from koala.client.records import OutputFile, OutputPart
from koala.common.runtime import clock
from koala.errors import DeniedError, KoalaError, RejectedError, SpecError
from koala.views.barrier import barrier
from koala.views.cells import job_cells, steps
from koala.views.gantt import KINDS, LETTERS, gantt
from koala.views.gantt_svg import gantt_svg
from koala.views.records.jobs import JobDetails
from koala.views.records.phases import TERMINAL_PHASES
from koala.web.identities import Identity
from koala.web.pages.viewer import Viewer, action, followed, signed_in


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show all about a job."""
    name = request.path_params["job"]
    model = viewer.identity.model
    job = await model.show(name)
    why = await model.why(name)
    now_at = clock.unix_now()
    return viewer.page(
        "job.html",
        here="jobs",
        job=job,
        cells=job_cells(job),
        steps=steps(job),
        why=why.why,
        gantt=gantt(job, now_at),
        kinds=KINDS.items(),
        letters=LETTERS,
        barrier=barrier(job, now_at),
        is_over=job.is_over,
        outputs=await _outputs(viewer.identity, job),
        total={
            "run_s": sum(claim.run_s for claim in job.charges),
            "held_s": sum(claim.held_s for claim in job.charges),
            "wasted_s": sum(claim.wasted_s for claim in job.charges),
        },
    )


@signed_in
async def timeline(request: Request, viewer: Viewer) -> Response:
    """Draw the course of a job as a picture."""
    job = await viewer.identity.model.show(request.path_params["job"])
    return Response(gantt_svg(gantt(job, clock.unix_now())), media_type="image/svg+xml")


async def _outputs(identity: Identity, job: JobDetails) -> list[OutputFile]:
    """Names and sizes of the output files; none before the job has finished."""
    if job.phase != "Finished":
        return []
    try:
        return await identity.client.list_outputs(job.job)
    except RejectedError:
        return []


async def _parts(identity: Identity, job: str, component: str) -> AsyncGenerator[OutputPart, None]:
    async for part in identity.client.outputs(job, component=component):
        yield part


@signed_in
async def output(request: Request, viewer: Viewer) -> Response:
    """Download an output file."""
    job, name = request.path_params["job"], request.path_params["name"]
    parts = _parts(viewer.identity, job, name.partition("/")[0])
    async for part in parts:
        if part.name == name:
            size = part.size_bytes
            break
    else:
        raise SpecError(f"job {job} has no output file {name!r}")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name.rsplit('/', 1)[-1])}",
        "content-length": str(size),
    }
    return StreamingResponse(
        _content(parts, size), media_type="application/octet-stream", headers=headers
    )


async def _content(parts: AsyncGenerator[OutputPart, None], size: int) -> AsyncIterator[bytes]:
    """Yield the content that follows the first part of a file."""
    async with aclosing(parts):
        while size > 0:
            part = await anext(parts)
            size -= len(part.data)
            yield part.data


@followed
async def logs(request: Request, viewer: Viewer) -> Response:
    """Stream what the programs of a job write, from the begin on, as server-sent events."""
    job = request.path_params["job"]
    summary = await viewer.identity.client.why(job)  # an unknown job is an error, not a stream
    is_over = summary.phase in TERMINAL_PHASES
    return StreamingResponse(
        _log_events(viewer.identity, job, follow=not is_over), media_type="text/event-stream"
    )


async def _log_events(identity: Identity, job: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
    parts = identity.client.logs(job, follow=follow)
    try:
        async for part in parts:
            document = {
                "component": part.component,
                "label": part.label,
                "process": part.process,
                "stream": part.stream,
                "attempt": part.attempt,
                "text": part.data.decode("utf-8", "replace"),
            }
            yield b"data: " + json.dumps(document).encode() + b"\n\n"
        yield b"event: end\ndata: {}\n\n"
    except KoalaError as error:
        yield b"event: trouble\ndata: " + json.dumps({"text": str(error)}).encode() + b"\n\n"


@action
async def cancel(request: Request, viewer: Viewer) -> Response:
    """Cancel a job; the daemon decides who may."""
    job = request.path_params["job"]
    (result,) = await viewer.identity.client.cancel(job)
    if result.error:
        raise DeniedError(result.error)
    return viewer.go(f"/jobs/{job}")
