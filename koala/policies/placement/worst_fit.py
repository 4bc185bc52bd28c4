"""Worst-Fit: a component goes to the site with most idle processors, wherever its file is (KOALA's
other policy).
"""

from __future__ import annotations

from koala.core.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.policies.placement.close_to_files import by_decreasing_size, unplaceable


def worst_fit(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Components in decreasing size, each to the site with most idle processors that its file can
    reach in time; ties: site order. Several components may share a site."""
    idle = view.idle(request.user)
    routes = None
    if request.file is not None:
        near = view.near(request.file, request.user)
        routes = {site: (cost, source) for cost, source, site in near}
    assignments = []
    for part in by_decreasing_size(request.parts):
        best: Assignment | None = None
        for site, processors in idle.items():
            if part.site not in (None, site) or processors < part.processors:
                continue
            if best is not None and processors <= idle[best.site]:
                continue
            cost, source = (0.0, None) if routes is None else routes.get(site, (float("inf"), None))
            transfer_s = cost * part.size_bytes if cost else 0.0
            if transfer_s <= request.transfer_s_max and cost < float("inf"):
                best = Assignment(
                    component=part.component, site=site, source=source, transfer_s=transfer_s
                )
        if best is None:
            return unplaceable(part, request, view, idle)
        idle[best.site] -= part.processors
        assignments.append(best)
    return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))
