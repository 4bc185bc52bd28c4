"""Close-to-Files (KOALA 2.6): a component goes where it fits and its file arrives first."""

from __future__ import annotations

from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.values import Inputs, SiteName


def close_to_files(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place components in decreasing size, each at the fitting site with the shortest estimated
    transfer from any replica; ties: more idle processors, then site order. Several components may
    share a site."""
    idle, slots = view.idle(request.user), view.slots()
    assignments = []
    for part in by_decreasing_size(request.parts):
        assignment = _closest(part, request, view, idle)
        if assignment is None:
            return unplaceable(part, request, view, idle)
        idle[assignment.site] -= part.processors
        use_slot(assignment.site, slots, idle)
        assignments.append(assignment)
    return Placement(assignments=tuple(sorted(assignments, key=lambda a: a.component)))


def use_slot(site: SiteName, slots: dict[SiteName, int], idle: dict[SiteName, int]) -> None:
    """Count a part against the job slots of its site, which has no room without one."""
    if site in slots:
        slots[site] -= 1
        if slots[site] <= 0:
            idle[site] = 0


def by_decreasing_size(parts: tuple[Part, ...]) -> list[Part]:
    """Sort parts by decreasing size; equal ones keep the job's order. Parts fixed to one site come
    first, because others could take their processors.
    """
    return sorted(parts, key=lambda part: (part.site is None, -part.processors, part.component))


def _closest(
    part: Part, request: PlacementRequest, view: GridView, idle: dict[SiteName, int]
) -> Assignment | None:
    if part.file is None:
        site = part.site if part.site is not None else max(idle, key=idle.__getitem__, default=None)
        if site is None or idle.get(site, 0) < part.processors:
            return None
        return Assignment(component=part.component, site=site)
    best: tuple[SiteName, SiteName | None] | None = None
    most = part.processors - 1  # idle processors that a site must exceed
    latest_s = request.transfer_s_max
    for seconds_per_byte, source, site in view.routes(part.file, request.user):
        transfer_s = seconds_per_byte * part.size_bytes
        if transfer_s > latest_s:
            break
        if idle.get(site, 0) > most and part.site in (None, site):
            best, most, latest_s = (site, source), idle[site], transfer_s
    if best is None:
        return None
    site, source = best
    return Assignment(component=part.component, site=site, source=source, transfer_s=latest_s)


def unplaceable(
    part: Part, request: PlacementRequest, view: GridView, idle: dict[SiteName, int]
) -> Unplaceable:
    """Make the refusal of a part that fits nowhere, with the reason for people."""
    if part.site is not None and part.site not in idle:
        reason = f"its site {part.site} is not usable now"
    elif part.site is not None and idle[part.site] < part.processors:
        reason = f"its site {part.site} has {idle[part.site]} idle"
    elif not idle:
        reason = "no site is usable now"
    elif max(idle.values()) < part.processors:
        site = max(idle, key=idle.__getitem__)
        reason = f"largest idle site is {site} with {idle[site]}"
    elif part.file is not None and not view.routes(part.file, request.user):
        reason = f"no usable site holds its input file {named(part.file)}"
    else:
        reason = f"no site with enough idle processors gets {named(part.file)} in time"
    return Unplaceable(component=part.component, reason=reason)


def named(file: Inputs | None) -> str:
    """Format the names of input files for people."""
    if not isinstance(file, tuple):
        return str(file)
    more = f" and {len(file) - 3} more" if len(file) > 3 else ""
    return f"{', '.join(file[:3])}{more}"
