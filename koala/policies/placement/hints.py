"""Placement by processing power and bandwidth booking (Hints 4): NoNetwork, PreferLocal and
Service.

A part runs at MIPSeff = min(MIPS of the site, MI x BW / DATASIZE). BW is the free bandwidth of the
link between its data and its processors: more power would starve, more bandwidth idle (Hints 4.2).
A part without a file needs no link. Local sites are those that hold the file; for a job without
one, the site at whose queue it was submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from koala.core.model.grid import (
    Assignment,
    Demand,
    GridView,
    Link,
    Part,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.values import SiteName
from koala.policies.placement.close_to_files import by_decreasing_size, unplaceable

ROUNDING = 1e-9
"""Rates that differ by less than this share are equal: booking and release leave rounding
errors."""
UNDEMANDING = Demand(preferred_mips=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Offer of a site to a part: `mips` of the site alone, `effective` with its data."""

    mips: float
    effective: float
    is_local: bool
    way: Assignment


Choice: TypeAlias = Callable[[tuple[Offer, ...], Demand], Offer | None]


def no_network(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place parts at the fastest local site, else at the fastest remote one, with the preferred
    rate as a hard minimum; links and hints are ignored, and nothing is booked (Hints 4.1)."""
    return _place(request, view, _no_network, is_booking=False)


def prefer_local(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place parts at the local site with the highest MIPSeff, else at the best remote one, with the
    preferred rate as a hard minimum; the link is booked, hints are ignored (Hints 4.2)."""
    return _place(request, view, _prefer_local, is_booking=True)


def service(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place parts by hint (Hints 4.3): `cpu` at the highest MIPSeff anywhere, `io` at the best
    local site, each down to the acceptable deviation from the preferred rate; `io` at a remote site
    only at the full rate. Without a hint, PreferLocal."""
    return _place(request, view, _service, is_booking=True)


# --- the choice among offers ---


def _no_network(offers: tuple[Offer, ...], demand: Demand) -> Offer | None:
    least = demand.preferred_mips

    def power(offer: Offer) -> float:
        return offer.mips

    return _best(_local(offers), power, least) or _best(_remote(offers), power, least)


def _prefer_local(offers: tuple[Offer, ...], demand: Demand) -> Offer | None:
    least = demand.preferred_mips
    return _best(_local(offers), _rate, least) or _best(_remote(offers), _rate, least)


def _service(offers: tuple[Offer, ...], demand: Demand) -> Offer | None:
    accepted = (1.0 - demand.deviation) * demand.preferred_mips
    match demand.hint:
        case "cpu":
            return _best((*_local(offers), *_remote(offers)), _rate, accepted)
        case "io":
            remote = _remote(offers)
            return _best(_local(offers), _rate, accepted) or _best(
                remote, _rate, demand.preferred_mips
            )
        case _:
            return _prefer_local(offers, demand)


def _local(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    return tuple(offer for offer in offers if offer.is_local)


def _remote(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    return tuple(offer for offer in offers if not offer.is_local)


def _rate(offer: Offer) -> float:
    return offer.effective


def _best(offers: Iterable[Offer], rate: Callable[[Offer], float], least: float) -> Offer | None:
    """Best offer with a sufficient rate above zero; ties: the first. The rest that rounding leaves
    of a full link counts as zero: a file would take ages over it.
    """
    best: Offer | None = None
    for offer in offers:
        if rate(offer) <= offer.mips * ROUNDING or rate(offer) < least * (1 - ROUNDING):
            continue
        if best is None or rate(offer) > rate(best) * (1 + ROUNDING):
            best = offer
    return best


# --- offers and bookings ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Remaining capacity while the parts of one request are placed one after the other."""

    view: GridView
    idle: dict[SiteName, int]
    slots: dict[SiteName, int]
    free: dict[Link, float]
    mips: dict[SiteName, float]

    def take(self, part: Part, assignment: Assignment) -> None:
        self.idle[assignment.site] -= part.processors
        if assignment.site in self.slots:
            self.slots[assignment.site] -= 1
        if assignment.link in self.free:
            self.free[assignment.link] -= assignment.booked_bps

    def has_room(self, site: SiteName, part: Part) -> bool:
        is_allowed = part.site in (None, site) and self.slots.get(site, 1) > 0
        return is_allowed and self.idle[site] >= part.processors

    def bandwidth(self, link: Link) -> float:
        """Bandwidth of a link for a part: the free rest of a bookable link, else the estimate; a
        site's own link is unlimited unless a limit is declared."""
        if link in self.free:
            return max(0.0, self.free[link])
        return float("inf") if link[0] == link[1] else self.view.bandwidth(link)

    def source(self, site: SiteName, holders: tuple[SiteName, ...]) -> SiteName | None:
        """Source of a file for a site: itself, or the usable holder with the fastest link."""
        if site in holders:
            return site
        usable = [h for h in holders if h in self.idle and self.view.is_source(h)]
        return max(usable, key=lambda holder: self.bandwidth((holder, site)), default=None)


def _place(
    request: PlacementRequest, view: GridView, choose: Choice, *, is_booking: bool
) -> Placement | Unplaceable:
    """Place components in decreasing size, each at the offer that the policy chooses."""
    demand = request.demand or UNDEMANDING
    grid = _Grid(
        view=view,
        idle=view.idle(request.user),
        slots=view.slots(),
        free=view.free(),
        mips={site.name: site.mips for site in view.sites},
    )
    assignments = []
    for part in by_decreasing_size(request.parts):
        offers = tuple(_offers(part, request, grid, is_booking=is_booking))
        chosen = choose(offers, demand)
        if chosen is None:
            return _refusal(part, request, grid, offers)
        grid.take(part, chosen.way)
        assignments.append(chosen.way)
    return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))


def _offers(
    part: Part, request: PlacementRequest, grid: _Grid, *, is_booking: bool
) -> Iterator[Offer]:
    """Yield the sites with room for a part that its files reach in time, in order."""
    holders = grid.view.holders(part.file)
    for site in grid.idle:
        if not grid.has_room(site, part):
            continue
        source = site if part.file is None else grid.source(site, holders)
        offer: Offer | None = None
        if source is not None:
            offer = _offer(part, request, grid, (source, site), is_booking=is_booking)
        elif isinstance(part.file, tuple):
            offer = _scattered_offer(part, request, grid, site, is_booking=is_booking)
        if offer is not None and offer.way.transfer_s <= request.transfer_s_max:
            yield offer


def _offer(
    part: Part, request: PlacementRequest, grid: _Grid, link: Link, *, is_booking: bool
) -> Offer:
    """Make the offer of a part over a link; it books no more than MIPSeff can use (Hints 4.2)."""
    source, site = link
    length_mi = request.demand.length_mi if request.demand else 0.0
    mips = effective = grid.mips[site]
    reads = part.file is not None and part.size_bytes > 0
    if reads and length_mi:
        effective = min(mips, length_mi * grid.bandwidth(link) / part.size_bytes)
    booked_bps = 0.0
    if reads and length_mi and is_booking and link in grid.free:
        booked_bps = part.size_bytes * effective / length_mi
    transfer_s = 0.0
    if reads and source != site:
        rate_bps = booked_bps or grid.view.bandwidth(link)
        transfer_s = part.size_bytes / rate_bps
    return Offer(
        mips=mips,
        effective=effective,
        is_local=site == request.home if part.file is None else source == site,
        way=Assignment(
            component=part.component,
            site=site,
            source=None if source == site else source,
            transfer_s=transfer_s,
            mips=effective if is_booking else mips,
            booked_bps=booked_bps,
        ),
    )


def _scattered_offer(
    part: Part, request: PlacementRequest, grid: _Grid, site: SiteName, *, is_booking: bool
) -> Offer | None:
    """Make the offer of a part whose files no usable site holds together. Each is copied from where
    it arrives first, over several links, so nothing is booked (the paper has one file a job)."""
    assert part.file is not None
    routes = grid.view.routes(part.file, request.user)
    route = next((route for route in routes if route[2] == site), None)
    if route is None:
        return None
    byte_s, source, _ = route
    transfer_s = byte_s * part.size_bytes
    mips = effective = grid.mips[site]
    if transfer_s and request.demand and request.demand.length_mi:
        effective = min(mips, request.demand.length_mi / transfer_s)
    way = Assignment(
        component=part.component,
        site=site,
        source=source,
        transfer_s=transfer_s,
        mips=effective if is_booking else mips,
    )
    return Offer(mips=mips, effective=effective, is_local=False, way=way)


def _refusal(
    part: Part, request: PlacementRequest, grid: _Grid, offers: tuple[Offer, ...]
) -> Unplaceable:
    """Make the refusal of a part: no room, or none fast enough, with the reason for people."""
    if not offers or request.demand is None:
        full = [site for site, slots in grid.slots.items() if slots <= 0]
        idle = {site: 0 if site in full else n for site, n in grid.idle.items()}
        return unplaceable(part, request, grid.view, idle)
    best = max(offers, key=_rate)
    demand = request.demand
    reason = (
        f"the best rate now is {best.effective:.4g} MIPS, at {best.way.site};"
        f" {demand.preferred_mips:.4g} are preferred"
    )
    if demand.hint:
        reason += f" (hint {demand.hint}, deviation {demand.deviation:g})"
    return Unplaceable(component=part.component, reason=reason)
