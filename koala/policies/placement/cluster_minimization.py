"""Cluster Minimization (CM) and Flexible Cluster Minimization (FCM), from Sonmez, Mohamed, Epema:
Communication-Aware Job Placement Policies for the KOALA Grid Scheduler (e-Science 2006).

From the paper's abstract: CM minimizes the number of clusters of a job whose components are given,
FCM that of a flexible job, so that fewer messages go between clusters; both fill the clusters with
most idle processors. The rest is our reading of it: the order of components, files, and the bounds
of a split, which the paper does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.values import SiteName
from koala.core.splitting import Room, describe_unsplit, emptiest_first, shares_of
from koala.policies.placement.close_to_files import by_decreasing_size, unplaceable, use_slot
from koala.policies.placement.worst_fit import Routes, routes_to


def cm(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place components in decreasing size, each at a site that has one of the job's already, if it
    fits there, else at the one with most idle processors; ties: site order."""
    idle, slots = view.idle(request.user), view.slots()
    routes = routes_to(request, view)
    used: dict[SiteName, None] = dict.fromkeys(request.beside)
    assignments = []
    for part in by_decreasing_size(request.parts):
        ways = _ways(routes[part.file], idle, part.size_bytes, request.transfer_s_max)
        fits = [
            site
            for site, processors in idle.items()
            if part.site in (None, site) and site in ways and processors >= part.processors
        ]
        if not fits:
            return unplaceable(part, request, view, idle)
        best = max(fits, key=lambda site: (site in used, idle[site]))
        used[best] = None
        idle[best] -= part.processors
        use_slot(best, slots, idle)
        source, transfer_s = ways[best]
        assignments.append(
            Assignment(component=part.component, site=best, source=source, transfer_s=transfer_s)
        )
    return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))


def fcm(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Split a flexible job over the fewest sites, those with most idle processors first, each
    filled before the next; place the components of others as `cm` does."""
    if request.split is None:
        return cm(request, view)
    rooms, ways = rooms_of(request, view)
    return placed(request, view, emptiest_first(request.split, rooms), ways)


Ways = dict[SiteName, tuple[SiteName | None, float]]
"""The source of a part's files for each site that they reach in time, and how long that takes."""


def rooms_of(request: PlacementRequest, view: GridView) -> tuple[list[Room], Ways]:
    """Return the rooms of a flexible job at sites that its files reach in time, in site order."""
    (part,) = request.parts
    idle, slots = view.idle(request.user), view.slots()
    ways = _ways(routes_to(request, view)[part.file], idle, part.size_bytes, request.transfer_s_max)
    rooms = [Room(site, n, min(n, slots.get(site, n))) for site, n in idle.items() if site in ways]
    return rooms, ways


def placed(
    request: PlacementRequest, view: GridView, rooms: Sequence[Room], ways: Ways
) -> Placement | Unplaceable:
    """Place a flexible job in the first of these rooms."""
    assert request.split is not None
    if not rooms:  # no site is usable, or has its files in time
        return unplaceable(request.parts[0], request, view, view.idle(request.user))
    shares = shares_of(request.split, rooms)
    if shares is None:
        return Unplaceable(component=0, reason=describe_unsplit(request.split, rooms))
    return Placement(
        assignments=tuple(
            [
                Assignment(
                    component=component,
                    site=(site := rooms[share.room].site),
                    source=ways[site][0],
                    transfer_s=ways[site][1],
                    processors=share.processors,
                )
                for component, share in enumerate(shares)
            ]
        )
    )


def _ways(
    routes: Routes | None, idle: dict[SiteName, int], size_bytes: int, transfer_s_max: float
) -> Ways:
    if routes is None:
        return dict.fromkeys(idle, (None, 0.0))
    timed = {site: (source, cost * size_bytes) for site, (cost, source) in routes.items()}
    return {site: way for site, way in timed.items() if way[1] <= transfer_s_max}


fcm.splits = True  # type: ignore[attr-defined]
