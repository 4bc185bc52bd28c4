"""The application: its routes, and what lives as long as it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from koala.common.runtime import clock
from koala.web.answers import Answers
from koala.web.identities import Identities
from koala.web.pages import (
    events,
    grid,
    job,
    jobs,
    queues,
    replay,
    report,
    results,
    sign_in,
    submit,
    timeline,
)
from koala.web.pages.viewer import Services, make_templates
from koala.web.past_runs import PastRuns
from koala.web.security import RequestGuard
from koala.web.sessions import Sessions, SignInCode
from koala.web.settings import WebSettings
from koala.web.shares import PAGES, STREAMS, Share

STATIC = Path(__file__).parent / "static"


def make_app(
    settings: WebSettings,
    address: str | None,
    *,
    port: int,
    link: Callable[[str], None],
) -> Starlette:
    """Make the application for a daemon.

    `port` is the one that was bound; `link` gets each sign-in link that is good from then on.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with asyncio.TaskGroup() as group:
            sessions = Sessions(clock.now)
            async with (
                Identities(address, sessions, group) as identities,
                PastRuns(settings.journal, group) as past_runs,
            ):
                code = SignInCode(lambda one: link(f"{settings.address(port)}/sign-in?code={one}"))
                app.state.services = Services(
                    settings=settings,
                    cookie=f"koala-{port}",
                    sessions=sessions,
                    identities=identities,
                    code=code,
                    templates=make_templates(settings, daemon=identities.address),
                    pages=Share(PAGES),
                    streams=Share(STREAMS),
                )
                app.state.past_runs = past_runs
                code.publish()
                yield

    return Starlette(
        routes=[Mount(settings.base, routes=_routes())] if settings.base else _routes(),
        lifespan=lifespan,
        middleware=[
            Middleware(RequestGuard, hosts=settings.hosts(port), is_secure=settings.is_secure),
            Middleware(Answers),
        ],
        exception_handlers={404: _not_found},
    )


def _routes() -> list[BaseRoute]:
    return [
        Route("/", grid.show),
        Route("/sites/{site}", grid.site),
        Route("/sites/{site}/{verb:str}", grid.change, methods=["POST"]),
        Route("/timeline", timeline.show),
        Route("/timeline.svg", timeline.picture),
        Route("/jobs", jobs.show),
        Route("/jobs/{job}", job.show),
        Route("/jobs/{job}/timeline.svg", job.timeline),
        Route("/jobs/{job}/logs", job.logs),
        Route("/jobs/{job}/logs.txt", job.download_logs),
        Route("/jobs/{job}/outputs/{name:path}", job.output),
        Route("/jobs/{job}/cancel", job.cancel, methods=["POST"]),
        Route("/queues", queues.show),
        Route("/report", report.show),
        Route("/replay", replay.show),
        Route("/replay/data", replay.data),
        Route("/results", results.show),
        Route("/results/{name}", results.folder),
        Route("/results/{name}/{figure}", results.figure),
        Route("/submit", submit.show),
        Route("/submit", submit.submit, methods=["POST"]),
        Route("/submit/check", submit.check, methods=["POST"]),
        Route("/events", events.stream),
        Route("/sign-in", sign_in.show),
        Route("/sign-in", sign_in.by_token, methods=["POST"]),
        Route("/sign-out", sign_in.out, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


async def _not_found(request: Request, _: Exception) -> Response:
    return PlainTextResponse(f"no page {request.url.path}\n", status_code=404)
