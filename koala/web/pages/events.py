"""Streams of changes for open pages (server-sent events).

The id of an event is the number of the watch up to which the model stood. A browser that comes back
shows it as Last-Event-ID, and gets all that came since then; or it is told to load the page again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from koala.client.grid_model import Change
from koala.views.cells import job_cells, site_cells, total_cells
from koala.views.usage import total_use
from koala.web.pages.grid import under_way
from koala.web.pages.viewer import Viewer, followed

TOPIC_MAX = 300
BEAT_S = 15.0
"""Longest silence: proxies cut lines that are silent."""


@followed
async def stream(request: Request, viewer: Viewer) -> Response:
    """Stream the changes of a topic: jobs, grid, a job's id, or `site:NAME`."""
    topic = request.query_params.get("topic", "jobs")[:TOPIC_MAX]
    last = request.headers.get("last-event-id") or request.query_params.get("after")
    number = int(last) if last and last.isascii() and last.isdigit() and len(last) < 19 else None
    events = _events(viewer, topic, number)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(viewer: Viewer, topic: str, number: int | None) -> AsyncGenerator[bytes, None]:
    model = viewer.identity.model
    yield b"retry: 1000\n\n"
    after = model.cursor(number)
    if after is None:
        yield _event("reload", model.number, {})
        after = model.cursor(None)
    assert after is not None
    while _is_signed_in(viewer):
        async with aclosing(_beating(model.changes(after))) as changes:
            async for change in changes:
                if change is None:
                    yield b": still here\n\n"
                elif text := _text(viewer, change, topic):
                    yield text
                if not _is_signed_in(viewer):
                    return
        yield _event("reload", model.number, {})  # this page was too slow
        after = model.cursor(None) or 0


def _is_signed_in(viewer: Viewer) -> bool:
    """Return True while the session lives; an open page counts as a look at it."""
    return viewer.services.sessions.has(viewer.session)


async def _beating(
    changes: AsyncGenerator[Change, None],
) -> AsyncGenerator[Change | None, None]:
    """Yield the changes, and None after each `BEAT_S` without one."""
    async with asyncio.TaskGroup() as group:
        coming: asyncio.Task[Change | None] = group.create_task(_next(changes))
        try:
            while True:
                done, _ = await asyncio.wait((coming,), timeout=BEAT_S)
                if not done:
                    yield None
                    continue
                change = coming.result()
                if change is None:
                    return
                yield change
                coming = group.create_task(_next(changes))
        finally:
            coming.cancel()


async def _next(changes: AsyncGenerator[Change, None]) -> Change | None:
    return await anext(changes, None)


def _text(viewer: Viewer, change: Change, topic: str) -> bytes:
    """Return the events of a change for a topic, which all its streams share."""
    found = change.texts.get(topic)
    if found is None:
        found = change.texts[topic] = _make_text(viewer, change, topic)
    return found


def _make_text(viewer: Viewer, change: Change, topic: str) -> bytes:
    events = []
    if change.trouble is not None:
        events.append(_event("trouble", change.number, {"text": change.trouble}))
    if topic == "grid":
        events += _grid_events(viewer, change)
    elif topic == "jobs":
        if change.jobs:
            document = {"jobs": [job_cells(job) for job in change.jobs]}
            events.append(_event("jobs", change.number, document))
    elif _concerns(change, topic):
        events.append(_event("fresh", change.number, {}))
    return b"".join(events)


def _grid_events(viewer: Viewer, change: Change) -> list[bytes]:
    """Make the events of the page of the grid: cells of sites, and parts as they are now.

    The parts come with the event: pages that read themselves again for them would cost the web
    process a whole page each. The timeline does not: each page may show another period.
    """
    model, events = viewer.identity.model, []
    if change.sites:
        document = {
            "sites": [site_cells(site) for site in change.sites],
            "total": total_cells(total_use(model.sites.values())),
        }
        events.append(_event("grid", change.number, document))
    if change.jobs or change.sites:
        parts = {"under-way": viewer.part("under_way.html", **under_way(model))}
        events.append(_event("parts", change.number, parts))
        events.append(_event("timeline", change.number, {}))
    return events


def _concerns(change: Change, topic: str) -> bool:
    """Return True if the page of a job, a site (`site:NAME`), or of the queues has changed."""
    if topic == "queues":
        return bool(change.jobs)
    kind, _, site = topic.rpartition(":")
    if kind == "site":
        is_there = any(one.site == site for one in change.sites)
        return is_there or any(site in job.sites for job in change.jobs)
    return any(job.job == topic for job in change.jobs)


def _event(name: str, number: int, document: object) -> bytes:
    data = msgspec.json.encode(document)
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), number, data)
