"""Sign in by the link that the terminal shows, or by a token; sign out."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from koala.errors import ExhaustedError, KoalaError
from koala.web.identities import OWN
from koala.web.pages.viewer import Services, Viewer, action, form


async def show(request: Request) -> Response:
    """Show the form, or exchange the code of a sign-in link for a session."""
    services: Services = request.app.state.services
    back = _back(request.query_params.get("back", "/"))
    code = request.query_params.get("code")
    if code is None:
        return _form(services, back=back)
    if services.code.use(code):
        return _signed_in(services, OWN, "/")
    text = "This sign-in link was used before. The terminal or the file of links has a new one."
    return _form(services, back=back, text=text, status=403)


async def by_token(request: Request) -> Response:
    """Exchange a token for a session."""
    services: Services = request.app.state.services
    values = await form(request)
    back = _back(values.get("back", "/"))
    token = values.get("token", "").strip()
    try:
        identity = await services.identities.sign_in(token, is_gone=request.is_disconnected)
    except KoalaError as error:
        status = 503 if isinstance(error, ExhaustedError) else 403
        return _form(services, back=back, text=str(error), status=status)
    return _signed_in(services, identity.key, back)


@action
async def out(request: Request, viewer: Viewer) -> Response:
    """End the session of this browser."""
    services = viewer.services
    services.sessions.end(request.cookies.get(services.cookie))
    answer = viewer.go("/sign-in")
    answer.delete_cookie(services.cookie, path=_path(services))
    return answer


def _signed_in(services: Services, identity: str, back: str) -> Response:
    answer = RedirectResponse(services.settings.base + back, status_code=303)
    answer.set_cookie(
        services.cookie,
        services.sessions.begin(identity),
        path=_path(services),
        httponly=True,
        samesite="strict",
        secure=services.settings.is_secure,
    )
    return answer


def _form(services: Services, *, back: str, text: str = "", status: int = 200) -> HTMLResponse:
    page = services.templates.get_template("sign_in.html").render(back=back, text=text)
    return HTMLResponse(page, status_code=status)


def _path(services: Services) -> str:
    return services.settings.base or "/"


def _back(path: str) -> str:
    """Take a path of this server to return to; anything else is the first page."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return quote(path, safe="/%") if is_own and "\\" not in path else "/"
