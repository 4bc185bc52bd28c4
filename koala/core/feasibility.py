"""Feasibility of a job on an empty grid: all components that it needs must fit at once.

A job is infeasible only by proof: a component is too large, there are too many of a size (exact for
equal components), or all need more than there is, anywhere or at the sites to which some are
limited. Whatever these do not prove counts as feasible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from koala.core.model.grid import (
    GridView,
    Link,
    Part,
    Placement,
    PlacementRequest,
    Site,
    SiteView,
    Unplaceable,
)
from koala.core.model.job_spec import JobSpec, StartType
from koala.core.model.replicas import ReplicaCatalogue
from koala.core.model.values import SiteName, UserName
from koala.core.policy_api import PlacementPolicy

SIZES_MAX = 50
"""Number of different sizes that are counted, the largest ones."""
SITES_SHOWN = 6
ANY = float("inf")


class Capacity(NamedTuple):
    """Capacity of an idle site, which gives a multiple of a `unit`; unlimited for one that never
    registered."""

    name: SiteName
    processors: float
    slots: float = ANY
    unit: int = 1

    def taken_by(self, processors: int) -> int:
        """Return the processors that a component of this size takes."""
        return -(-processors // self.unit) * self.unit


class Requirement(NamedTuple):
    """Component to fit: `site` fixes its place, `sites` limit it unless empty; the job can start
    without an optional one."""

    processors: int
    site: SiteName | None = None
    is_optional: bool = False
    sites: tuple[SiteName, ...] = ()

    @property
    def place(self) -> str:
        """Name where it must be; empty: anywhere."""
        names = self.sites if self.site is None else (self.site,)
        return f" at {' or '.join(names)}" if names else ""


def capacities_of(sites: Iterable[Site], owner: UserName, most: float) -> list[Capacity]:
    """Return the capacities of the sites open to this user's jobs, for at most `most` components
    each."""
    return [
        Capacity(
            site.name,
            site.facts.processors,
            most if site.facts.slots is None else min(most, site.facts.slots),
            site.facts.resources.unit or 1,
        )
        for site in sites
        if site.facts.admits(owner)
    ]


def empty_view(
    sites: Iterable[Site],
    *,
    files: ReplicaCatalogue | None = None,
    bandwidth_default: float = 1.0,
    closed: Collection[SiteName] = (),
    room: Callable[[Site], int] | None = None,
    free: Mapping[Link, float] | None = None,
) -> GridView:
    """Make the view of the grid that a policy would see if nothing ran there, with this `room` at
    its sites and `free` bandwidth on its links."""
    views = [
        SiteView(
            name=site.name,
            processors=site.facts.processors,
            idle=site.facts.processors if room is None else room(site),
            owner=site.facts.owner,
            users=site.facts.users,
            mips=site.facts.mips,
            slots=site.facts.slots,
            gpus=site.facts.resources.gpus,
            unit=site.facts.resources.unit or 1,
        )
        for site in sites
        if site.name not in closed
    ]
    return GridView(
        views,
        replicas={} if files is None else files.replicas,
        bandwidth={} if files is None else files.bandwidth,
        round_trips={} if files is None else files.round_trips,
        bandwidth_default=bandwidth_default,
        free=files.bookable if free is None and files is not None else free,
    )


def components_per_site_max(place: PlacementPolicy) -> float:
    """Return the number of components of a job that a policy puts at one site: one, or any
    number."""
    site = SiteView(name=SiteName("one"), processors=2, idle=2)
    answers = []
    for count in (1, 2):
        view = GridView([site], replicas={}, bandwidth={}, bandwidth_default=1.0)
        parts = tuple(Part(component=index, processors=1) for index in range(count))
        answers.append(place(PlacementRequest(parts=parts), view))
    alone, together = answers
    return 1 if isinstance(alone, Placement) and isinstance(together, Unplaceable) else ANY


def requirements_of(spec: JobSpec, only_at: SiteName | None = None) -> list[Requirement]:
    """Return the components of a job; `only_at` is the site of its local queue, if it has one
    component."""
    return [
        Requirement(
            component.processors,
            component.site or only_at,
            spec.quorum is not None or component.start_type is not StartType.STRICT,
            component.sites,
        )
        for component in spec.components
    ]


def gpu_requirements_of(spec: JobSpec) -> list[Requirement]:
    """Return the GPUs that the job needs, as requirements; empty if it can start without some of
    them."""
    if spec.needed < len(spec.components):
        return []
    return [Requirement(part.gpus, part.site) for part in spec.components if part.gpus]


def gpu_capacities_of(sites: Iterable[Site]) -> list[Capacity]:
    """Return the GPUs of the sites, idle or not, as capacities."""
    return [Capacity(site.name, site.facts.resources.gpus) for site in sites]


def may_fit(
    requirements: Sequence[Requirement], needed: int, capacities: Sequence[Capacity]
) -> bool:
    """Return False if the requirements certainly do not fit, else True."""
    must = [need for need in requirements if not need.is_optional]
    may = sorted((p for p in requirements if p.is_optional), key=lambda need: need.processors)
    more = max(0, needed - len(must))
    left = _without([need for need in must if need.site is not None], capacities)
    if left is None or more > len(may):
        return False
    free = [need for need in must if need.site is None]
    for sites in filter(None, dict.fromkeys([need.sites for need in free])):
        within = [need for need in free if need.sites and set(sites).issuperset(need.sites)]
        if _is_too_much(within, [capacity for capacity in left if capacity.name in sites]):
            return False
    return not _is_too_much([*free, *may[:more]], left)


def _without(fixed: Iterable[Requirement], capacities: Sequence[Capacity]) -> list[Capacity] | None:
    """Return the capacities without what is fixed at a site; None if that does not fit there."""
    left = {capacity.name: capacity for capacity in capacities}
    for need in fixed:
        here = None if need.site is None else left.get(need.site)
        if here is None:
            return None
        here = here._replace(
            processors=here.processors - here.taken_by(need.processors), slots=here.slots - 1
        )
        if here.processors < 0 or here.slots < 0:
            return None
        left[here.name] = here
    return list(left.values())


def _is_too_much(requirements: Iterable[Requirement], capacities: Sequence[Capacity]) -> bool:
    """Return True if the requirements need more processors than there are, or if some size and
    the larger ones are wanted more often than they fit."""
    sizes = sorted((need.processors for need in requirements), reverse=True)
    units = {capacity.unit for capacity in capacities} or {1}
    least = sum(min(-(-size // unit) * unit for unit in units) for size in sizes)
    if least > sum(capacity.processors for capacity in capacities):
        return True
    count = 0
    for size, same in islice(groupby(sizes), SIZES_MAX):
        count += len(list(same))
        places: float = 0
        for capacity in capacities:
            taken = capacity.taken_by(size)
            places += min(
                capacity.slots, capacity.processors // taken if capacity.processors != ANY else ANY
            )
            if places >= count:
                break
        if places < count:
            return True
    return False


# --- texts for people -----------------------------------------------------------------------------


def describe_misfit(
    requirements: Sequence[Requirement], needed: int, capacities: Sequence[Capacity]
) -> str:
    """Describe the requirements and the available capacities."""
    groups: dict[str, int] = {}
    for need in sorted(requirements, key=lambda need: -need.processors):
        word = f"{need.processors}{need.place}"
        groups[word] = groups.get(word, 0) + 1
    words = [f"{count} x {word}" if count > 1 else word for word, count in groups.items()]
    listed = " + ".join(words[:SITES_SHOWN]) + (" + ..." if len(words) > SITES_SHOWN else "")
    if len(requirements) == 1:
        (only,) = requirements
        needs = f"its component ({only.processors} processors{only.place})"
        return f"{needs} does not {_capacity_text(capacities)}"
    asked = sum(need.processors for need in requirements)
    of = "" if needed == len(requirements) else f", of which it needs {needed},"
    return (
        f"its {len(requirements)} components ({listed} = {asked} processors){of}"
        f" do not {_capacity_text(capacities)}"
    )


def _capacity_text(capacities: Sequence[Capacity]) -> str:
    if not capacities:
        return "find a site"
    largest = max(capacities, key=lambda capacity: capacity.processors)
    if len(capacities) == 1:
        return f"fit into {largest.name}, which has {largest.processors:g}{_slots(largest)}"
    ordered = sorted(capacities, key=lambda capacity: -capacity.processors)
    each = ", ".join(f"{r.name} {r.processors:g}{_slots(r)}" for r in ordered[:SITES_SHOWN])
    more = ", ..." if len(ordered) > SITES_SHOWN else ""
    total = sum(capacity.processors for capacity in capacities)
    return (
        f"fit into {len(capacities)} idle sites: the largest is {largest.name} with"
        f" {largest.processors:g}, all have {total:g} ({each}{more})"
    )


def _slots(capacity: Capacity) -> str:
    if capacity.slots == ANY:
        return ""
    return " for one component" if capacity.slots == 1 else f" for {capacity.slots:g} components"
