"""Placement by communication: the sites of a job are close to one another.

Sonmez, Mohamed, Epema (Communication-Aware Job Placement Policies for the KOALA Grid Scheduler,
e-Science 2006) place jobs by measured communication between clusters. Of the paper we have the
abstract; how the two measures are weighed, and the search, are our own. The cost of two sites is
the time of one message: their round trip, and what MESSAGE_BYTES take at the estimated bandwidth
between them, the slower way. A placement is as costly as its costliest pair, then better with fewer
sites, then with more idle processors. For each of some sites as the first, others are added in the
order of their cost to those that are in.
"""

from __future__ import annotations

from collections.abc import Iterable

from koala.core.model.grid import GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.values import SiteName
from koala.policies.placement.cluster_minimization import cm, placed, rooms_of

MESSAGE_BYTES = 1_000_000
FIRST_SITES_MAX = 20
"""Number of sites that are tried as the first, those with most idle processors."""


def communication(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place or split a job at sites that are close to one another, each filled before the next."""
    idle = view.idle(request.user)
    fixed = dict.fromkeys(part.site for part in request.parts if part.site is not None)
    begun = [site for site in dict.fromkeys((*request.beside, *fixed)) if site in idle]
    firsts = sorted(idle, key=lambda site: -idle[site])[:FIRST_SITES_MAX]
    best: tuple[tuple[float, int, int], Placement] | None = None
    for number, first in enumerate(firsts if not begun else firsts[:1]):
        order = _by_cost(begun or [first], idle, view)
        answer = _within(request, view, order)
        if not isinstance(answer, Placement):
            continue
        sites = dict.fromkeys(assignment.site for assignment in answer.assignments)
        cost = _costliest((*request.beside, *sites), view)
        if best is None or (cost, len(sites), number) < best[0]:
            best = (cost, len(sites), number), answer
        if cost == 0.0:
            break
    return _within(request, view, list(idle)) if best is None else best[1]


communication.splits = True  # type: ignore[attr-defined]


def cost_s(one: SiteName, other: SiteName, view: GridView) -> float:
    """Return the cost of communication between two sites: the seconds of one message."""
    if one == other:
        return 0.0
    slower = min(view.bandwidth((one, other)), view.bandwidth((other, one)))
    return view.round_trip_s((one, other)) + MESSAGE_BYTES / slower


def _costliest(sites: Iterable[SiteName], view: GridView) -> float:
    known = list(dict.fromkeys(sites))
    pairs = [(a, b) for number, a in enumerate(known) for b in known[:number]]
    return max([cost_s(a, b, view) for a, b in pairs], default=0.0)


def _by_cost(begun: list[SiteName], idle: dict[SiteName, int], view: GridView) -> list[SiteName]:
    """Return the sites in the order in which they join these: the closest first, by the costliest
    of its ways to those that are in; then the one with most idle processors."""
    order = list(begun)
    costs = {
        site: max(cost_s(site, begun_at, view) for begun_at in order)
        for site in idle
        if site not in order
    }
    while costs:
        site = min(costs, key=lambda site: (costs[site], -idle[site]))
        del costs[site]
        order.append(site)
        costs = {left: max(known, cost_s(left, site, view)) for left, known in costs.items()}
    return order


def _within(
    request: PlacementRequest, view: GridView, order: list[SiteName]
) -> Placement | Unplaceable:
    """Place a job at the first of these sites that have room for it."""
    if request.split is not None:
        rooms, ways = rooms_of(request, view)
        places = {site: number for number, site in enumerate(order)}
        return placed(request, view, sorted(rooms, key=lambda room: places[room.site]), ways)
    low, high = 1, len(order)
    answer = cm(request, view)
    while isinstance(answer, Placement) and low < high:  # the fewest of them
        middle = (low + high) // 2
        fewer = cm(request, _without(view, order[middle:]))
        if isinstance(fewer, Placement):
            answer, high = fewer, middle
        else:
            low = middle + 1
    return answer


def _without(view: GridView, sites: Iterable[SiteName]) -> GridView:
    seen = view.copy()
    seen.close(sites)
    return seen
