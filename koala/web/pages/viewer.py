"""The user of a page, its rendering, and errors as pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from http import HTTPStatus
from operator import attrgetter
from secrets import compare_digest
from urllib.parse import parse_qs, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from koala.common.runtime import clock
from koala.errors import (
    DeniedError,
    ExhaustedError,
    KoalaError,
    RejectedError,
    SpecError,
    UnauthenticatedError,
    UnknownJobError,
    UnknownSiteError,
    UnreachableError,
)
from koala.views import cells
from koala.web.connections import IDENTITY
from koala.web.identities import Identities, Identity
from koala.web.sessions import Session, Sessions, SignInCode
from koala.web.settings import WebSettings
from koala.web.shares import Share

PAGES = (
    ("grid", "Grid", "/"),
    ("jobs", "Jobs", "/jobs"),
    ("queues", "Queues", "/queues"),
    ("report", "Report", "/report"),
    ("submit", "Submit", "/submit"),
)
"""Key, word and path of the pages in the head of each page."""
Handler = Callable[[Request, "Viewer"], Awaitable[Response]]
STATUS: tuple[tuple[type[KoalaError], int], ...] = (
    (UnknownJobError, 404),
    (UnknownSiteError, 404),
    (DeniedError, 403),
    (SpecError, 422),
    (ExhaustedError, 503),
    (RejectedError, 409),
    (UnreachableError, 503),
)
"""HTTP status of errors; others are 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Services that all handlers share."""

    settings: WebSettings
    cookie: str
    sessions: Sessions
    identities: Identities
    code: SignInCode
    templates: Environment
    pages: Share
    streams: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A signed-in user with the session of this browser."""

    services: Services
    session: Session
    identity: Identity

    def page(self, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        """Render a template for this user."""
        model = self.identity.model
        text = self.services.templates.get_template(template).render(
            user=self.identity.user,
            role=self.identity.role,
            is_operator=self.identity.is_operator,
            csrf=self.session.csrf,
            number=model.number,
            trouble=model.trouble,
            now_at=clock.unix_now(),
            **values,
        )
        return HTMLResponse(text, status_code=status)

    def part(self, template: str, **values: object) -> str:
        """Render a part of a page, the same for all sessions of this user."""
        return self.services.templates.get_template(template).render(
            now_at=clock.unix_now(), **values
        )

    def go(self, path: str) -> RedirectResponse:
        """Send the browser to another page."""
        return RedirectResponse(
            self.services.settings.base + path, status_code=HTTPStatus.SEE_OTHER
        )


def make_templates(settings: WebSettings, *, daemon: str) -> Environment:
    """Load the templates; all values are escaped, and unknown ones are errors."""
    templates = Environment(
        loader=PackageLoader("koala.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        duration=cells.duration,
        milliseconds=cells.milliseconds,
        processor_time=cells.processor_time,
        percent=cells.percent,
        moment=cells.moment,
        iso=cells.iso,
        size=cells.size,
        stage=cells.stage,
        twice=lambda words: [(word, word) for word in words],
        part=partial(quote, safe=""),
    )
    pages = [*PAGES]
    pages += [("replay", "Replay", "/replay")] if settings.journal else []
    pages += [("results", "Results", "/results")] if settings.results else []
    templates.globals.update(base=settings.base, daemon=daemon, head_pages=pages)
    return templates


def signed_in(
    handler: Handler, *, share: Callable[[Services], Share] = attrgetter("pages")
) -> Callable[[Request], Awaitable[Response]]:
    """Decorate a handler: find the session, or ask to sign in; show errors as pages.

    Each answer counts in a share from here to its end, and keeps its connection.
    """

    @wraps(handler)
    async def answer(request: Request) -> Response:
        services: Services = request.app.state.services
        session = services.sessions.find(request.cookies.get(services.cookie))
        identity = None if session is None else services.identities.get(session.identity)
        if session is None or identity is None:
            return ask_to_sign_in(request, services)
        viewer = Viewer(services=services, session=session, identity=identity)
        try:
            request.state.held.enter_context(share(services).taken(identity.key))
            setattr(request.state, IDENTITY, identity.key)
            return await handler(request, viewer)
        except UnauthenticatedError:
            services.sessions.end_all(identity.key)
            return ask_to_sign_in(request, services)
        except KoalaError as error:
            return error_page(request, viewer, error)

    return answer


def followed(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Decorate a handler whose answer stays open, for changes to come."""
    return signed_in(handler, share=attrgetter("streams"))


def action(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Decorate a handler that changes something: it needs the session's secret."""

    @wraps(handler)
    async def answer(request: Request, viewer: Viewer) -> Response:
        shown = request.headers.get("x-csrf") or (await form(request)).get("csrf", "")
        if not compare_digest(shown.encode(), viewer.session.csrf.encode()):
            raise DeniedError("this form is of another session: load the page again")
        return await handler(request, viewer)

    return signed_in(answer)


async def form(request: Request) -> Mapping[str, str]:
    """Read a form; the last of several values counts."""
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}


def ask_to_sign_in(request: Request, services: Services) -> Response:
    """Lead a browser to the sign-in page; scripts get the status 401."""
    if request.method == "GET" and "text/html" in request.headers.get("accept", "text/html"):
        back = quote(request.url.path.removeprefix(services.settings.base), safe="/")
        return RedirectResponse(f"{services.settings.base}/sign-in?back={back}", status_code=303)
    return JSONResponse({"error": "sign in first"}, status_code=401)


def error_page(request: Request, viewer: Viewer, error: KoalaError) -> Response:
    """Show an error of the daemon."""
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 500)
    if "text/html" not in request.headers.get("accept", "text/html"):
        return JSONResponse({"error": str(error)}, status_code=status)
    heading = {403: "Not allowed", 404: "Not found"}.get(status, "This did not work")
    return viewer.page("error.html", status=status, heading=heading, text=str(error), here="")


def whole(text: str | None, *, low: int, high: int, default: int) -> int:
    """Read a number of an address; others count as the default."""
    if text and text.isascii() and text.isdigit() and len(text) < 10:
        return max(low, min(high, int(text)))
    return default


def known(names: Mapping[str, object], name: str, default: str) -> str:
    """Take a word of an address if it is known."""
    return name if name in names else default
