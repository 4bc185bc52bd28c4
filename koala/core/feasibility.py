"""Feasibility of a job on an empty grid: all components that it needs must fit at once.

A job is infeasible only by proof: a component is too large, there are too many of a size (exact for
equal components), or an exhaustive search failed. A search that exceeds its limit proves nothing,
and the job counts as feasible.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from koala.core.model.grid import (
    GridView,
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

LOOKS_MAX = 5_000
"""Limit of site checks in a search, some 30 ms: most jobs have few components and fit at once."""
DEPTH_MAX = 100
"""With more components only sums and sizes are checked."""
SIZES_MAX = 50
"""Number of different sizes that are counted, the largest ones."""
SITES_TOLD = 6
ANY = float("inf")


class Room(NamedTuple):
    """Capacity of an idle site; unlimited for one that never registered."""

    name: SiteName
    processors: float
    slots: float = ANY


class Piece(NamedTuple):
    """Component to fit: `site` fixes its place; the job can start without an optional one."""

    processors: int
    site: SiteName | None = None
    is_optional: bool = False


def rooms_of(sites: Iterable[Site], owner: UserName, most: float) -> list[Room]:
    """Capacities of the sites open to this user's jobs, for at most `most` components each."""
    return [
        Room(
            site.name,
            site.facts.processors,
            most if site.facts.slots is None else min(most, site.facts.slots),
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
) -> GridView:
    """Make the view of the grid that a policy would see if nothing ran there."""
    views = [
        SiteView(
            name=site.name,
            processors=site.facts.processors,
            idle=site.facts.processors,
            owner=site.facts.owner,
            users=site.facts.users,
            mips=site.facts.mips,
            slots=site.facts.slots,
            gpus=site.facts.resources.gpus,
        )
        for site in sites
        if site.name not in closed
    ]
    return GridView(
        views,
        replicas={} if files is None else files.replicas,
        bandwidth={} if files is None else files.bandwidth,
        bandwidth_default=bandwidth_default,
        free={} if files is None else files.bookable,
    )


def most_at_a_site(place: PlacementPolicy) -> float:
    """Number of components of a job that a policy puts at one site: one, or any number."""
    site = SiteView(name=SiteName("one"), processors=2, idle=2)
    answers = []
    for count in (1, 2):
        view = GridView([site], replicas={}, bandwidth={}, bandwidth_default=1.0)
        parts = tuple(Part(component=index, processors=1) for index in range(count))
        answers.append(place(PlacementRequest(parts=parts), view))
    alone, together = answers
    return 1 if isinstance(alone, Placement) and isinstance(together, Unplaceable) else ANY


def pieces_of(spec: JobSpec, only_at: SiteName | None = None) -> list[Piece]:
    """Components of a job; `only_at` is the site of its local queue, if it has one component."""
    return [
        Piece(
            one.processors,
            one.site or only_at,
            spec.quorum is not None or one.start_type is not StartType.STRICT,
        )
        for one in spec.components
    ]


def gpu_pieces_of(spec: JobSpec) -> list[Piece]:
    """GPUs that the job needs, as pieces; empty if it can start without some of them."""
    if spec.needed < len(spec.components):
        return []
    return [Piece(one.gpus, one.site) for one in spec.components if one.gpus]


def gpu_rooms_of(sites: Iterable[Site]) -> list[Room]:
    """GPUs of the sites, idle or not, as rooms."""
    return [Room(site.name, site.facts.resources.gpus) for site in sites]


def fits(pieces: Sequence[Piece], needed: int, rooms: Sequence[Room]) -> bool:
    """Return False if the pieces certainly do not fit, else True."""
    must = [piece for piece in pieces if not piece.is_optional]
    may = sorted((p for p in pieces if p.is_optional), key=lambda piece: piece.processors)
    more = max(0, needed - len(must))
    if more > len(may) or _is_too_much([*must, *may[:more]], rooms):
        return False
    total = sum(piece.processors for piece in pieces)
    if all(piece.site is None for piece in pieces) and any(
        room.processors >= total and room.slots >= len(pieces) for room in rooms
    ):
        return True  # as most jobs do
    return _Search(rooms, may, more).find(must) is not False


def _is_too_much(pieces: Iterable[Piece], rooms: Sequence[Room]) -> bool:
    """Return True if the pieces need more processors than there are, or if there are more pieces of
    a size (or larger) than places of that size."""
    sizes = sorted((piece.processors for piece in pieces), reverse=True)
    if sum(sizes) > sum(room.processors for room in rooms):
        return True
    count = 0
    for size, same in islice(groupby(sizes), SIZES_MAX):
        count += len(list(same))
        places: float = 0
        for room in rooms:
            places += min(room.slots, room.processors // size if room.processors != ANY else ANY)
            if places >= count:
                break
        if places < count:
            return True
    return False


class _Search:
    """Backtracking search that puts pieces into rooms, the largest first."""

    def __init__(self, rooms: Sequence[Room], may: Sequence[Piece], more: int) -> None:
        self._places = {room.name: place for place, room in enumerate(rooms)}
        self._left = [room.processors for room in rooms]
        self._slots = [room.slots for room in rooms]
        self._may = may
        self._more = more
        self._is_by_name = any(piece.site is not None for piece in may)
        self._looks = 0
        self._dead: set[Hashable] = set()  # configurations that were tried without success

    def find(self, must: Sequence[Piece]) -> bool | None:
        """Search for a fit; None if the search exceeded its limit."""
        for piece in must:
            if piece.site is not None and not self._take(self._place_of(piece), piece):
                return False
        free = [piece.processors for piece in must if piece.site is None]
        free.sort(reverse=True)
        if len(free) + len(self._may) > DEPTH_MAX:
            return None
        return self._put(free, 0)

    def _put(self, free: Sequence[int], index: int) -> bool | None:
        """Put the pieces of `free` from `index` on, then enough optional ones."""
        if index == len(free):
            return self._put_more(0, self._more)
        key = (index, *self._rooms())
        if key in self._dead:
            return False
        least, needed = free[-1], sum(free[index:])
        if sum(left for left in self._left if left >= least) < needed:
            return False
        piece = Piece(free[index])
        for place in self._rooms_for(piece):
            self._take(place, piece)
            found = self._put(free, index + 1)
            if found is not False:
                return found
            self._give(place, piece)
        return self._is_dead(key)

    def _put_more(self, first: int, more: int) -> bool | None:
        """Put `more` optional pieces, from the smallest on, each used or left out."""
        if not more:
            return True
        if len(self._may) - first < more:
            return False
        key = (-1, first, more, *self._rooms())
        if key in self._dead:
            return False
        piece = self._may[first]
        for place in self._rooms_for(piece):
            self._take(place, piece)
            found = self._put_more(first + 1, more - 1)
            if found is not False:
                return found
            self._give(place, piece)
        found = self._put_more(first + 1, more)
        return found if found is not False else self._is_dead(key)

    def _is_dead(self, key: Hashable) -> bool | None:
        self._dead.add(key)
        return False if self._looks <= LOOKS_MAX else None

    def _rooms(self) -> list[tuple[float, float]]:
        """Remaining capacities as a search key; their order matters only if pieces name sites."""
        rooms = list(zip(self._left, self._slots, strict=True))
        return rooms if self._is_by_name else sorted(rooms)

    def _rooms_for(self, piece: Piece) -> list[int]:
        """Rooms where a piece fits, the fullest first; only one of several equal ones."""
        self._looks += len(self._left)
        if piece.site is not None:
            place = self._place_of(piece)
            is_open = place >= 0 and self._has_room(place, piece)
            return [place] if is_open else []
        alike = {
            (left, self._slots[place], place if self._is_by_name else 0): place
            for place, left in enumerate(self._left)
            if self._has_room(place, piece)
        }
        return [place for _, place in sorted(alike.items())]

    def _place_of(self, piece: Piece) -> int:
        return -1 if piece.site is None else self._places.get(piece.site, -1)

    def _has_room(self, place: int, piece: Piece) -> bool:
        return self._left[place] >= piece.processors and self._slots[place] >= 1

    def _take(self, place: int, piece: Piece) -> bool:
        if place < 0 or not self._has_room(place, piece):
            return False
        self._left[place] -= piece.processors
        self._slots[place] -= 1
        return True

    def _give(self, place: int, piece: Piece) -> None:
        self._left[place] += piece.processors
        self._slots[place] += 1


# --- texts for people -----------------------------------------------------------------------------


def describe_misfit(pieces: Sequence[Piece], needed: int, rooms: Sequence[Room]) -> str:
    """Describe the requested pieces and the available rooms."""
    groups: dict[str, int] = {}
    for piece in sorted(pieces, key=lambda piece: -piece.processors):
        at = f" at {piece.site}" if piece.site is not None else ""
        word = f"{piece.processors}{at}"
        groups[word] = groups.get(word, 0) + 1
    words = [f"{count} x {word}" if count > 1 else word for word, count in groups.items()]
    told = " + ".join(words[:SITES_TOLD]) + (" + ..." if len(words) > SITES_TOLD else "")
    if len(pieces) == 1:
        (one,) = pieces
        at = "" if one.site is None else f" at {one.site}"
        return f"its component ({one.processors} processors{at}) does not {_room_text(rooms)}"
    asked = sum(piece.processors for piece in pieces)
    of = "" if needed == len(pieces) else f", of which it needs {needed},"
    return (
        f"its {len(pieces)} components ({told} = {asked} processors){of} do not {_room_text(rooms)}"
    )


def _room_text(rooms: Sequence[Room]) -> str:
    if not rooms:
        return "find a site"
    largest = max(rooms, key=lambda room: room.processors)
    if len(rooms) == 1:
        return f"fit into {largest.name}, which has {largest.processors:g}{_slots(largest)}"
    ordered = sorted(rooms, key=lambda room: -room.processors)
    each = ", ".join(f"{r.name} {r.processors:g}{_slots(r)}" for r in ordered[:SITES_TOLD])
    more = ", ..." if len(ordered) > SITES_TOLD else ""
    total = sum(room.processors for room in rooms)
    return (
        f"fit into {len(rooms)} idle sites: the largest is {largest.name} with"
        f" {largest.processors:g}, all have {total:g} ({each}{more})"
    )


def _slots(room: Room) -> str:
    if room.slots == ANY:
        return ""
    return " for one component" if room.slots == 1 else f" for {room.slots:g} components"
