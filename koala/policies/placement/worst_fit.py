"""Worst-Fit: a component goes to the site with most idle processors, wherever its file is (KOALA's
other policy), and its variant on distinct sites (Multiple queues 2.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.values import Inputs, SiteName
from koala.policies.placement.close_to_files import by_decreasing_size, unplaceable, use_slot

Routes = dict[SiteName, tuple[float, SiteName | None]]
"""Where an input file comes from, and at how many seconds a byte."""


def worst_fit(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place components in decreasing size, each at the site with most idle processors that its file
    can reach in time; ties: site order. Several components may share a site."""
    return _fit(request, view, is_distinct=False)


def worst_fit_distinct(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place components as `worst_fit` does, but no two of a job at one site."""
    return _fit(request, view, is_distinct=True)


def spread(sizes: Sequence[int], idle: Sequence[int]) -> list[int] | None:
    """Place components on distinct sites, for bare numbers: the index of each component's site, or
    None if they do not fit. `sizes` are in decreasing order. The n-th component goes to the site
    with the n-th most idle processors; a stable sort keeps ties in site order."""
    most = max(idle)
    if most < sizes[0]:
        return None
    if len(sizes) == 1:
        return [idle.index(most)]
    ranking = sorted(range(len(idle)), key=idle.__getitem__, reverse=True)
    del ranking[len(sizes) :]
    for size, site in zip(sizes, ranking, strict=True):
        if idle[site] < size:
            return None
    return ranking


def pack(components: int, size: int, idle: Sequence[int]) -> list[int] | None:
    """Place components of one size as `worst_fit` does, for bare numbers: the index of each
    component's site, or None if they do not fit."""
    free = list(idle)
    sites = []
    for _ in range(components):
        most = max(free)
        if most < size:
            return None
        site = free.index(most)
        free[site] -= size
        sites.append(site)
    return sites


def _fit(
    request: PlacementRequest, view: GridView, *, is_distinct: bool
) -> Placement | Unplaceable:
    idle, slots = view.idle(request.user), view.slots()
    routes = routes_to(request, view)
    assignments: list[Assignment] = []
    used = [site for site in request.beside if is_distinct]
    for site in used:
        idle.pop(site, None)
    for part in by_decreasing_size(request.parts):
        best = _emptiest(part, idle, routes[part.file], transfer_s_max=request.transfer_s_max)
        if best is None:
            return _taken(part, used, idle) or unplaceable(part, request, view, idle)
        idle[best.site] -= part.processors
        use_slot(best.site, slots, idle)
        if is_distinct:
            del idle[best.site]
            used.append(best.site)
        assignments.append(best)
    return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))


def routes_to(request: PlacementRequest, view: GridView) -> dict[Inputs | None, Routes | None]:
    """Map the input files of the parts to the sites that they can reach; None without files."""
    routes: dict[Inputs | None, Routes | None] = {None: None}
    for part in request.parts:
        if part.file is not None and part.file not in routes:
            near = view.routes(part.file, request.user)
            routes[part.file] = {site: (cost, source) for cost, source, site in near}
    return routes


def _taken(part: Part, used: list[SiteName], idle: dict[SiteName, int]) -> Unplaceable | None:
    """Make the refusal of a part that only finds sites with another component of its job."""
    if part.site in used:
        reason = f"its site {part.site} has another component, and may have one of a job"
    elif used and not idle:
        reason = f"a site may have one component of a job, and all {len(used)} have one"
    else:
        return None
    return Unplaceable(component=part.component, reason=reason)


def _emptiest(
    part: Part, idle: dict[SiteName, int], routes: Routes | None, *, transfer_s_max: float
) -> Assignment | None:
    best: Assignment | None = None
    for site, processors in idle.items():
        if part.site not in (None, site) or processors < part.processors:
            continue
        if best is not None and processors <= idle[best.site]:
            continue
        cost, source = (0.0, None) if routes is None else routes.get(site, (float("inf"), None))
        transfer_s = cost * part.size_bytes if cost else 0.0
        if transfer_s <= transfer_s_max and cost < float("inf"):
            best = Assignment(
                component=part.component, site=site, source=source, transfer_s=transfer_s
            )
    return best
