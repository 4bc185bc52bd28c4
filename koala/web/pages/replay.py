"""Page that plays back a past run with a slider, and a what-if beside it."""

from __future__ import annotations

import shlex

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from koala.common.runtime.plugins import outside_names
from koala.errors import ConfigError, DeniedError, ExhaustedError, KoalaError
from koala.policies import BUILT_IN, names_of
from koala.web.pages.viewer import Viewer, signed_in
from koala.web.past_runs import Chosen, PastRuns, ReaderGoneError, command
from koala.web.playback import (
    COLUMNS,
    RUNS,
    PastRun,
    figure_rows,
    moved_jobs,
    playback_data,
    run_names,
    sites,
)

GONE = 499
"""Status for a browser that has gone: nobody reads it."""


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show the page with the slider; changes are in the address (`with=KEY=VALUE`)."""
    changes = _changes(request)
    problem: KoalaError | None = None
    try:
        try:
            found = await _read(request, viewer, changes)
        except (ConfigError, ExhaustedError) as error:
            if not changes:
                raise
            problem = error
            found = await _read(request, viewer, ())  # beside which the form stays
    except ReaderGoneError:
        return Response(status_code=GONE)
    return viewer.page(
        "replay.html",
        status=200 if problem is None else 422,
        here="replay",
        run=found,
        runs={name: RUNS[name] for name in run_names(found)},
        sites=sites(found),
        columns=list(COLUMNS.values()),
        figures=figure_rows(found),
        moved=moved_jobs(found) if "changes" in found else [],
        changes=changes,
        others=[word for word in changes if word not in _offered()],
        policies=_policies(),
        problem="" if problem is None else str(problem),
        query="" if problem else request.url.query,
        command=shlex.join(command(_past(request).journal, () if problem else changes)),
    )


@signed_in
async def data(request: Request, viewer: Viewer) -> Response:
    """Send the playback to the page's script."""
    try:
        found = await _read(request, viewer, _changes(request))
    except ReaderGoneError:
        return Response(status_code=GONE)
    return JSONResponse(await run_in_threadpool(playback_data, found))


def _past(request: Request) -> PastRuns:
    past: PastRuns = request.app.state.past_runs
    return past


async def _read(request: Request, viewer: Viewer, changes: Chosen) -> PastRun:
    """Return a run. Raises DeniedError, and what `PastRuns.read` raises."""
    past = _past(request)
    _ = past.journal  # a page that is not there is not denied
    if not viewer.identity.is_operator:
        raise DeniedError(f"{viewer.identity.user}: only operators see the jobs of all users")
    return await past.read(changes, is_gone=request.is_disconnected)


def _changes(request: Request) -> Chosen:
    """Read the changes of an address. Fields that are empty change nothing."""
    return tuple(word for text in request.query_params.getlist("with") for word in text.split())


def _offered() -> set[str]:
    """Chosen that the form has as choices; others are in its field for text."""
    return {f"{slot}={name}" for slot, names in _policies().items() for name in names}


def _policies() -> dict[str, tuple[str, ...]]:
    """Names of policies by slot, those of installed packages included."""
    return {slot: (*names_of(slot), *outside_names(slot)) for slot in BUILT_IN}
