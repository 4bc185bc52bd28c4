"""Submit a job from a form, checked while it is typed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from koala.errors import RejectedError, SpecError
from koala.web.pages.viewer import Viewer, action, form, signed_in

EXAMPLE = """\
+(&(executable=/bin/hostname)(count=2)(label=left))
 (&(executable=/bin/hostname)(count=2)(label=right))
"""


@signed_in
async def show(_: Request, viewer: Viewer) -> Response:
    """Show the form."""
    return viewer.page("submit.html", here="submit", text=EXAMPLE, error=None)


@action
async def check(request: Request, viewer: Viewer) -> Response:
    """Check a description as a dry run of a submission does."""
    text = (await form(request)).get("text", "")
    try:
        result = await viewer.identity.client.submit(text, dry_run=True)
    except (SpecError, RejectedError) as error:
        return JSONResponse({"is_good": False, **_mistake(error)})
    answer = {"is_good": True, "warnings": list(result.warnings), "expected": result.expected}
    return JSONResponse(answer)


@action
async def submit(request: Request, viewer: Viewer) -> Response:
    """Submit the description, and show the job."""
    values = await form(request)
    text = values.get("text", "")
    try:
        result = await viewer.identity.client.submit(text, key=values.get("key", "")[:256])
    except (SpecError, RejectedError) as error:
        return viewer.page(
            "submit.html", status=422, here="submit", text=text, error=_mistake(error)
        )
    return viewer.go(f"/jobs/{result.job}")


def _mistake(error: SpecError | RejectedError) -> dict[str, object]:
    """Describe a mistake and its place in the text."""
    position = error.position if isinstance(error, SpecError) else None
    line, column = (position.line, position.column) if position is not None else (0, 0)
    return {"text": str(error), "line": line, "column": column}
