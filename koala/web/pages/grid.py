"""The grid, and one site."""

from __future__ import annotations

from typing import TypedDict

from starlette.requests import Request
from starlette.responses import Response

from koala.client.grid_model import GridModel
from koala.errors import UnknownSiteError
from koala.views.cells import (
    JobCells,
    LinkCells,
    job_cells,
    link_cells,
    site_cells,
    stage,
    total_cells,
)
from koala.views.usage import total_use
from koala.web.pages.timeline import chart_of
from koala.web.pages.viewer import Viewer, action, signed_in

JOBS_SHOWN = 12
LINKS_SHOWN = 50


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show the sites with the use of their processors, and what is under way."""
    model = viewer.identity.model
    await model.is_loaded.wait()
    sites = list(model.sites.values())
    return viewer.page(
        "grid.html",
        here="grid",
        sites=[site_cells(site) for site in sites],
        total=total_cells(total_use(sites)),
        **await chart_of(request, viewer),
        **under_way(model),
    )


class UnderWay(TypedDict):
    """Values of the part `under_way.html`."""

    counts: list[tuple[str, str, int]]
    jobs: list[JobCells]
    alive: int
    links: list[LinkCells]
    all_links: int


def under_way(model: GridModel) -> UnderWay:
    """Collect the values of the part `under_way.html`: jobs under way, and links."""
    counts: dict[str, int] = {}
    for job in model.jobs.values():
        counts[job.phase] = counts.get(job.phase, 0) + 1
    links = link_cells(list(model.sites.values()))
    alive = [job for job in reversed(model.jobs.values()) if job.ended_at is None]
    return {
        "counts": [(phase, stage(phase), count) for phase, count in counts.items()],
        "jobs": [job_cells(job) for job in alive[:JOBS_SHOWN]],
        "alive": len(alive),
        "links": links[:LINKS_SHOWN],
        "all_links": len(links),
    }


@signed_in
async def site(request: Request, viewer: Viewer) -> Response:
    """Show one site, its use over time, and the jobs that are there."""
    model = viewer.identity.model
    await model.is_loaded.wait()
    name = request.path_params["site"]
    found = model.sites.get(name)
    if found is None:
        raise UnknownSiteError(f"no site {name!r}")
    jobs = [job for job in reversed(model.jobs.values()) if name in job.sites]
    return viewer.page(
        "site.html",
        here="grid",
        site=found,
        cells=site_cells(found),
        jobs=[job_cells(job) for job in jobs[:JOBS_SHOWN]],
        **await chart_of(request, viewer, name),
    )


@action
async def change(request: Request, viewer: Viewer) -> Response:
    """Drain or resume a site; the daemon decides who may."""
    name = request.path_params["site"]
    await viewer.identity.client.change_site(name, request.path_params["verb"])
    return viewer.go(f"/sites/{name}")
