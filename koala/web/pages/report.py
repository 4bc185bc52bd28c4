"""The report: what jobs have cost, by user, site or day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from koala.errors import SpecError
from koala.views.records.accounts import ReportRow
from koala.web.pages.viewer import Viewer, known, signed_in

BY = {"user": "User", "site": "Site", "day": "Day"}
KINDS = ("run_s", "held_s", "wasted_s")


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show the report of a period."""
    query = request.query_params
    by = known(BY, query.get("by", ""), "user")
    since, until = query.get("since", ""), query.get("until", "")
    report = await viewer.identity.client.report(
        by,
        since=_day(since),
        until=_day(until, days=1),
        user=query.get("user", "").strip(),
        site=query.get("site", "").strip(),
    )
    most = max((row.run_s + row.held_s + row.wasted_s for row in report.rows), default=0.0)
    return viewer.page(
        "report.html",
        here="report",
        by=by,
        names=BY,
        since=since,
        until=until,
        wanted_user=query.get("user", ""),
        wanted_site=query.get("site", ""),
        sites=sorted(viewer.identity.model.sites),
        report=report,
        bars=[_bar(row, most) for row in report.rows],
    )


def _bar(row: ReportRow, most: float) -> list[dict[str, str]]:
    """Parts of the bar of a row, in per cent of the greatest."""
    parts, at = [], 0.0
    for kind in KINDS:
        share = 100 * getattr(row, kind) / most if most > 0 else 0.0
        parts.append({"kind": kind, "left": f"{at:.2f}%", "width": f"{share:.2f}%"})
        at += share
    return parts


def _day(text: str, *, days: int = 0) -> float | None:
    """Read a day in UTC, as the begin of it or so many days later. Raises SpecError."""
    if not text:
        return None
    try:
        begin = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
        return (begin + timedelta(days=days)).timestamp()
    except (ValueError, OverflowError) as error:
        raise SpecError(f"day {text[:20]!r} (expected a day as in 2026-11-21)") from error
