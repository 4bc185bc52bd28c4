"""Splits of flexible jobs: the sizes of components that fill given rooms, within the job's bounds.

A room is what components of the job may have of a site. Policies choose the order of the rooms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from koala.core.model.grid import GridView, Placement, PlacementRequest, Site, Unplaceable
from koala.core.model.job_spec import ComponentSpec, JobSpec, Split
from koala.core.model.values import SiteName
from koala.core.policy_api import PlacementPolicy
from koala.core.resources import describe_missing, largest_part, needs_resources, occupied

SITES_SHOWN = 6


class Room(NamedTuple):
    """Processors of a site for a job, in at most so many components."""

    site: SiteName
    processors: int
    slots: int

    def usable(self, split: Split) -> int:
        """Return the processors that components of at most `part_max` can have here."""
        most = min(self.slots, self.processors // split.part_min)
        return max(0, min(self.processors, most * split.part_max))


class Share(NamedTuple):
    """A component of a split: the number of its room, and its processors."""

    room: int
    processors: int


def emptiest_first(split: Split, rooms: Sequence[Room]) -> list[Room]:
    """Sort rooms by what a job can have of them, the most first; equal ones keep their order."""
    return sorted(rooms, key=lambda room: -room.usable(split))


def most_of(split: Split, rooms: Sequence[Room]) -> int:
    """Return the processors of the largest split, `total` at most; 0 if `least` cannot be had."""
    filled = _filled(*_in_steps(split, rooms))
    return 0 if filled is None else filled[0] * split.step


def shares_of(split: Split, rooms: Sequence[Room]) -> list[Share] | None:
    """Split a job over the first of these rooms: as many processors as it can have, at as few sites
    as that needs in this order; each is filled before the next, and has as few components as it
    can, of about one size. None if the bounds leave no way. No component is under `part_min`: a
    site gives way to the rest that is left for the next."""
    step = split.step
    split, rooms = _in_steps(split, rooms)
    filled = _filled(split, rooms)
    if filled is None:
        return None
    wanted = replace(split, total=filled[0], least=filled[0])
    within = 0
    for count, room in enumerate(rooms, 1):
        within += room.usable(wanted)
        if within < wanted.total:
            continue
        filled = _filled(wanted, rooms[:count])
        if filled is not None:
            shares = _shared(wanted, rooms[:count], filled[1])
            return [Share(room, processors * step) for room, processors in shares]
    raise AssertionError(wanted)


def _in_steps(split: Split, rooms: Sequence[Room]) -> tuple[Split, Sequence[Room]]:
    """Count bounds and rooms in steps."""
    step = split.step
    if step == 1:
        return split, rooms
    counted = replace(
        split,
        total=split.total // step,
        least=-(-split.least // step),
        part_min=-(-split.part_min // step),
        part_max=split.part_max // step,
        step=1,
    )
    return counted, [room._replace(processors=room.processors // step) for room in rooms]


def _filled(split: Split, rooms: Sequence[Room]) -> tuple[int, list[int]] | None:
    """Return the largest total that can be had, and how many components each room has for it.

    With what components add in order, the first n are the most that n components can have; the
    least is n times `part_min`.
    """
    full, rests = _pieces(split, rooms)
    whole = sum(full)
    parts_max = min(split.parts_max, whole + len(rests), split.total // split.part_min)
    best, best_parts = 0, 0
    sums = whole * split.part_max
    for parts in range(1, parts_max + 1):
        if parts > whole:
            sums += rests[parts - whole - 1][1]
        most = min(split.total, sums if parts > whole else parts * split.part_max)
        if most > best and most >= max(split.least, parts * split.part_min):
            best, best_parts = most, parts
        if best == split.total:
            break
    if not best:
        return None
    counts, left = [], best_parts
    for count in full:
        counts.append(min(count, left))
        left -= counts[-1]
    for index, _ in rests[: max(0, best_parts - whole)]:
        counts[index] += 1
    return best, counts


def _pieces(split: Split, rooms: Sequence[Room]) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the number of components of full size that each room takes, and what one more has of
    the rest of a room, by its number, the largest first."""
    full: list[int] = []
    rests: list[tuple[int, int]] = []
    for index, (_, processors, slots) in enumerate(rooms):
        count, rest = divmod(max(0, processors), split.part_max)
        if count >= slots:
            count, rest = max(0, slots), 0
        full.append(count)
        if rest and (count + 1) * split.part_min <= processors:
            rests.append((index, rest))
    return full, sorted(rests, key=lambda piece: -piece[1])


def _shared(split: Split, rooms: Sequence[Room], counts: Sequence[int]) -> list[Share]:
    """Share the total over the components of the rooms: the last rooms give way to it first."""
    most = [
        min(room.processors, count * split.part_max)
        for room, count in zip(rooms, counts, strict=True)
    ]
    excess = sum(most) - split.total
    for index in reversed(range(len(rooms))):
        less = min(excess, most[index] - counts[index] * split.part_min)
        most[index] -= less
        excess -= less
    shares = []
    for index, count in enumerate(counts):
        for number in range(count):
            more = number < most[index] % count
            shares.append(Share(index, most[index] // count + more))
    return shares


# --- rooms ---


def room_at(spec: JobSpec, site: Site, *, processors: int, gpus: int) -> Room:
    """Return the room of a flexible job at a site with so many processors and GPUs for it."""
    split = spec.split
    assert split is not None
    part = _part(spec, split.part_min)
    if describe_missing(part, site):
        return Room(site.name, 0, 0)
    unit = occupied(_part(spec, 1), site.facts)
    if unit > 1:  # whole machines or cores
        each = min(unit, (part.tasks_per_host or unit) * (part.cpus_per_task or 1))
        units = processors // unit
        processors = units * each
        slots = max(1, units // -(-split.part_max // each))
    else:
        slots = processors
    if part.gpus:
        slots = min(slots, gpus // part.gpus)
    largest = largest_part(part, site.facts)
    if largest < split.part_max:
        processors, slots = min(processors, int(largest)), min(1, slots)
    return Room(site.name, processors, min(1, slots) if spec.distinct else slots)


def empty_rooms(spec: JobSpec, sites: Iterable[Site]) -> list[Room]:
    """Return the rooms of a job at sites where nothing runs, if its owner may use them."""
    return [
        room_at(spec, s, processors=s.facts.processors, gpus=s.facts.resources.gpus)
        for s in sites
        if s.facts.admits(spec.owner)
    ]


def has_place(spec: JobSpec, total: int, sites: Iterable[Site]) -> bool:
    """Return True if a malleable job with another total could be placed at sites where nothing
    runs."""
    assert spec.split is not None
    return most_of(replace(spec.split, total=total), empty_rooms(spec, sites)) > 0


def within_rooms(
    place: PlacementPolicy, spec: JobSpec, sites: Mapping[SiteName, Site]
) -> PlacementPolicy:
    """Make a policy that splits a flexible job over the rooms that it may have: the given one sees
    no more of each site."""
    assert spec.split is not None
    ends = [_part(spec, spec.split.part_min), _part(spec, spec.split.part_max)]
    is_bounded = (
        spec.distinct
        or ends[0].is_exclusive
        or any(site.facts.resources.unit > 1 for site in sites.values())
        or needs_resources(ends, sites.values())
    )
    if not is_bounded:
        return place

    def place_within(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        seen = view.copy()
        for name, idle in view.idle(request.user).items():
            room = room_at(spec, sites[name], processors=idle, gpus=view.gpus_at(name))
            seen.limit(name, processors=room.processors, slots=room.slots)
        return place(request, seen)

    return place_within


def _part(spec: JobSpec, processors: int) -> ComponentSpec:
    return replace(spec.components[0], processors=processors)


# --- texts for people -----------------------------------------------------------------------------


def describe_unsplit(split: Split, rooms: Sequence[Room]) -> str:
    """Explain why a job cannot be split over these rooms, and what could be had of them."""
    usable = [room for room in emptiest_first(split, rooms) if room.usable(split)]
    if not usable:
        most = max(rooms, key=lambda room: room.processors, default=None)
        has = (
            "there is no site" if most is None else f"the most is {most.processors} at {most.site}"
        )
        return f"no site has {split.part_min} for a component ({has})"
    each = ", ".join(f"{room.site} {room.usable(split)}" for room in usable[:SITES_SHOWN])
    more = ", ..." if len(usable) > SITES_SHOWN else ""
    most_had = most_of(replace(split, least=1), usable)
    return f"at most {most_had} could be had ({each}{more})"
