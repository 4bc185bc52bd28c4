"""A past run as a film with a slider."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from koala.errors import DeniedError, RejectedError
from koala.web.film import film
from koala.web.pages.viewer import Viewer, signed_in


class Films:
    """The film of the journal, read at the first request."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._found: dict[str, Any] | None = None

    async def read(self, viewer: Viewer) -> dict[str, Any]:
        """Return the film. Raises RejectedError, DeniedError, ConfigError, JournalError."""
        journal = viewer.services.settings.journal
        if journal is None:
            raise RejectedError("no past run is shown here: start `koala web --journal STATE`")
        if not viewer.identity.is_operator:
            raise DeniedError(f"{viewer.identity.user}: only operators see the jobs of all users")
        async with self._lock:
            found = self._found
            if found is None:
                found = self._found = await run_in_threadpool(film, journal)
            return found


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show the page with the slider."""
    found = await request.app.state.films.read(viewer)
    journal = viewer.services.settings.journal
    return viewer.page("replay.html", here="replay", film=found, journal=str(journal))


@signed_in
async def data(request: Request, viewer: Viewer) -> Response:
    """Send the film to the page's script."""
    return JSONResponse(await request.app.state.films.read(viewer))
