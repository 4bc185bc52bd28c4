"""Best-Fit: each component to the site where the fewest processors stay idle, so that large
components find room later. Worst-Fit does the opposite, and spreads the load.
"""

from __future__ import annotations

from koala.core.model.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.values import SiteName


def best_fit(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Components in decreasing size; ties: site order. All are placed, or none.

    The policy is asked again at each scan and in claiming tries, always with the grid as it is
    then. It keeps nothing between two questions and changes nothing: `view.idle` gives a copy.
    """
    idle = view.idle(request.user)  # of the sites that this user may use
    slots = view.slots()  # of sites with a limit: how many parts more they take
    found = []
    for part in sorted(request.parts, key=lambda part: (part.site is None, -part.processors)):
        routes: dict[SiteName, tuple[float, SiteName | None]] = dict.fromkeys(idle, (0.0, None))
        if part.file is not None:  # seconds a byte and file site, where its file can come from
            near = view.routes(part.file, request.user)
            routes = {site: (cost, source) for cost, source, site in near}
        fitting = []
        for site, free in idle.items():
            if part.site not in (None, site) or free < part.processors or site not in routes:
                continue
            if slots.get(site, 1) < 1:
                continue
            if routes[site][0] * part.size_bytes <= request.transfer_s_max:
                fitting.append(site)
        if not fitting:
            reason = f"no site has {part.processors} idle processors that its file can reach"
            return Unplaceable(component=part.component, reason=reason)
        site = min(fitting, key=idle.__getitem__)
        idle[site] -= part.processors
        if site in slots:
            slots[site] -= 1
        cost, source = routes[site]
        found.append(
            Assignment(
                component=part.component,
                site=site,
                source=source,
                transfer_s=cost * part.size_bytes,
            )
        )
    return Placement(assignments=tuple(found))
