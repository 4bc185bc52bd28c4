"""One job, in parts: overview, timeline, logs, description; and its outputs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from koala.client.records import LogPart, OutputFile, OutputPart
from koala.common.runtime import clock
from koala.errors import DeniedError, KoalaError, RejectedError, SpecError
from koala.job_descriptions import evaluated_tree, write_document
from koala.views.barrier import barrier
from koala.views.cells import job_cells, steps
from koala.views.gantt import KINDS, LETTERS, gantt
from koala.views.gantt_svg import gantt_svg
from koala.views.records.jobs import JobDetails
from koala.views.records.phases import TERMINAL_PHASES
from koala.web.identities import Identity
from koala.web.pages.viewer import Viewer, action, followed, known, signed_in, whole

PARTS = {
    "overview": "Overview",
    "timeline": "Timeline",
    "logs": "Logs",
    "description": "Description",
}
"""Parts of the page, with their words."""
LOG_BYTES_MAX = 32_000_000
"""Most of a job's logs that a page gets; a download has all."""


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show a part of all about a job."""
    name = request.path_params["job"]
    part = known(PARTS, request.query_params.get("part", ""), "overview")
    model = viewer.identity.model
    job = await model.show(name)
    why = await model.why(name)
    now_at = clock.unix_now()
    return viewer.page(
        "job.html",
        here="jobs",
        part=part,
        parts=PARTS,
        job=job,
        cells=job_cells(job),
        steps=steps(job),
        why=why.why,
        gantt=gantt(job, now_at),
        kinds=KINDS.items(),
        letters=LETTERS,
        barrier=barrier(job, now_at),
        is_over=job.is_over,
        yaml=await run_in_threadpool(_yaml, job.description) if part == "description" else "",
        outputs=await _outputs(viewer.identity, job) if part == "overview" else [],
        total={
            "run_s": sum(claim.run_s for claim in job.charges),
            "held_s": sum(claim.held_s for claim in job.charges),
            "wasted_s": sum(claim.wasted_s for claim in job.charges),
        },
    )


def _yaml(description: str) -> str:
    """Write the description in YAML; empty if it has none."""
    return description and write_document(evaluated_tree(description, {}), as_json=False)


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
    parts, sent = identity.client.logs(job, follow=follow), 0
    try:
        async for part in parts:
            sent += len(part.data)
            if sent > LOG_BYTES_MAX:
                most = f"{LOG_BYTES_MAX // 1_000_000} MB"
                text = f"the first {most} are shown here; the download has all"
                yield _log_event("trouble", {"text": text, "is_last": True})
                return
            document = {
                "component": part.component,
                "label": part.label,
                "process": part.process,
                "stream": part.stream,
                "attempt": part.attempt,
                "text": part.text,
            }
            yield _log_event("message", document)
        yield _log_event("end", {})
    except KoalaError as error:
        yield _log_event("trouble", {"text": str(error)})


def _log_event(name: str, document: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(document).encode())


@followed
async def download_logs(request: Request, viewer: Viewer) -> Response:
    """Download what programs have written so far: of the component, process and stream that the
    address names."""
    job, wanted = request.path_params["job"], request.query_params
    process = whole(wanted.get("process"), low=0, high=1_000_000, default=-1)
    component, stream = wanted.get("component", ""), wanted.get("stream") or "both"
    parts = viewer.identity.client.logs(job, component=component, process=process, stream=stream)
    first = await anext(parts, None)  # wrong names are an error, not a file
    is_single = process >= 0 and bool(component) and stream != "both"

    async def text() -> AsyncIterator[bytes]:
        part, begun = first, set[tuple[int, int, int, str]]()
        while part is not None:
            yield part.data if is_single else _prefixed(part, begun)
            part = await anext(parts, None)

    name = quote("-".join(filter(None, (job, component, wanted.get("process"), stream))) + ".log")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(text(), media_type="text/plain; charset=utf-8", headers=headers)


def _prefixed(part: LogPart, begun: set[tuple[int, int, int, str]]) -> bytes:
    """Begin each line of a part with its source; `begun` are sources whose last line goes on."""
    begin = f"{part.label}.{part.process}  ".encode()
    source = (part.attempt, part.component, part.process, part.stream)
    lines = part.data.splitlines(keepends=True)
    text = (b"" if source in begun else begin) + begin.join(lines) if lines else b""
    (begun.discard if text.endswith((b"\n", b"\r")) else begun.add)(source)
    return text


@action
async def cancel(request: Request, viewer: Viewer) -> Response:
    """Cancel a job; the daemon decides who may."""
    job = request.path_params["job"]
    (result,) = await viewer.identity.client.cancel(job)
    if result.error:
        raise DeniedError(result.error)
    return viewer.go(f"/jobs/{job}")
