"""The claims of all jobs over the sites, as a chart in a page, a part of one, and a picture.

The period and the opened sites are in the address, so links move and zoom without a script.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from koala.common.runtime import clock
from koala.views.cells import duration
from koala.views.grid_chart import GridChart, Links
from koala.views.records.chart import ChartClaim
from koala.web.pages.viewer import Viewer, signed_in

SPAN_S = 1_800
SPANS_S = (600, 1_800, 7_200, 43_200)
SPAN_MIN_S, SPAN_MAX_S = 10, 30 * 86_400
OPENED_MAX = 20
ROWS_MAX = 200
"""Newest claims in the table."""
CHARTS_MAX = 20
"""Drawings that are kept for the other pages of a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Period of a chart and its opened sites. Without an end it moves with the time."""

    span_s: int = SPAN_S
    until: int | None = None
    opened: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: QueryParams) -> Window:
        """Read the window of an address; what is wrong counts as the default."""
        span_s, until = _whole(values.get("span")), _whole(values.get("until"))
        return cls(
            span_s=SPAN_S if span_s is None else max(SPAN_MIN_S, min(SPAN_MAX_S, span_s)),
            until=until,
            opened=tuple(dict.fromkeys(values.getlist("open")))[:OPENED_MAX],
        )

    @property
    def query(self) -> str:
        """The window as a part of an address."""
        found: list[tuple[str, str | int]] = [("span", self.span_s)]
        found += [] if self.until is None else [("until", self.until)]
        return urlencode([*found, *(("open", site) for site in self.opened)])

    def zoomed(self, factor: float) -> Window:
        """Return a window of another length: around the same middle, or up to now."""
        span_s = round(max(SPAN_MIN_S, min(SPAN_MAX_S, self.span_s * factor)))
        until = None if self.until is None else self.until + (span_s - self.span_s) // 2
        return replace(self, span_s=span_s, until=until)

    def moved(self, share: float) -> Window:
        """Return an earlier or later window; one that would reach beyond now ends now."""
        until = round((self.until or clock.unix_now()) + share * self.span_s)
        return replace(self, until=until if until < clock.unix_now() else None)

    def toggled(self, site: str) -> Window:
        """Return the window with a site opened, or closed again."""
        others = tuple(one for one in self.opened if one != site)
        return replace(self, opened=others if site in self.opened else (*self.opened, site))


class Chart(TypedDict):
    """Values of the part `timeline.html`."""

    chart: GridChart
    drawn: str
    window: Window
    moves: list[tuple[str, str, str, bool]]
    query: str
    chart_site: str
    claims: list[ChartClaim]
    count: int
    left_out: int


async def chart_of(request: Request, viewer: Viewer, site: str = "") -> Chart:
    """Draw the chart that an address wants, of one site or of all."""
    base = viewer.services.settings.base
    window = Window.of(request.query_params)
    page = f"{base}/sites/{quote(site, safe='')}" if site else f"{base}/"
    found = await viewer.identity.model.grid_timeline(window.span_s, window.until, site)

    def path(changed: Window) -> str:
        return f"{page}?{changed.query}#timeline"

    known = viewer.identity.charts
    key = f"{site}?{window.query}"
    if key in known and known[key][0] is found:
        drawn = known[key][1]
    else:
        drawn = GridChart(
            found,
            opened=[site] if site else window.opened,
            links=Links(
                job=lambda job: f"{base}/jobs/{quote(job, safe='')}",
                site=lambda name: f"{base}/" if site else path(window.toggled(name)),
            ),
        )
        known.pop(key, None)
        known[key] = (found, drawn)
        while len(known) > CHARTS_MAX:
            del known[next(iter(known))]
    moves = [
        ("−", "Zoom out", path(window.zoomed(2)), False),
        ("+", "Zoom in", path(window.zoomed(0.5)), False),
        ("←", "Earlier", path(window.moved(-0.5)), False),
        ("→", "Later", path(window.moved(0.5)), False),
        ("Now", "Up to now", path(replace(window, until=None)), window.until is None),
    ]
    moves += [
        (duration(span_s), f"The last {duration(span_s)}", path(replace(window, span_s=span_s)),
         window.span_s == span_s)
        for span_s in SPANS_S
    ]  # fmt: skip
    return {
        "chart": drawn,
        "drawn": drawn.fragment(),
        "window": window,
        "moves": moves,
        "query": window.query + (f"&{urlencode({'site': site})}" if site else ""),
        "chart_site": site,
        "claims": list(reversed(found.claims[-ROWS_MAX:])),
        "count": len(found.claims),
        "left_out": found.left_out,
    }


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Send the part of a page."""
    values = await chart_of(request, viewer, request.query_params.get("site", ""))
    return HTMLResponse(viewer.part("timeline.html", **values))


@signed_in
async def picture(request: Request, viewer: Viewer) -> Response:
    """Send the chart as a picture of its own."""
    window, site = Window.of(request.query_params), request.query_params.get("site", "")
    found = await viewer.identity.model.grid_timeline(window.span_s, window.until, site)
    opened = [site] if site else window.opened
    return Response(GridChart(found, opened=opened).document(), media_type="image/svg+xml")


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else None
