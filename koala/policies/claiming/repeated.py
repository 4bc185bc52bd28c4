"""The Repeated Placement Policy for jobs with a required start (Deadlines 2.2).

`koala.core.model.timeline` computes the instants of tries; this is the policy of one try. A try is
all or nothing: the components are placed and claimed together, or none is. At the deadline a job
that may do so gets local jobs killed (the paper's GP; `at_deadline = kill`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koala.core.model.grid import Assignment, GridView, Part, Placement, PlacementRequest
from koala.core.model.values import SiteName
from koala.core.policy_api import ClaimPlan, ClaimQuestion, PendingPart, PlacementPolicy


def repeated(question: ClaimQuestion, view: GridView, place: PlacementPolicy) -> ClaimPlan:
    """Claim all components that the job needs, at their sites or at others that the placement
    policy finds and the file reaches in time; else claim nothing. No job is preempted.
    """
    placed = _placed(question, view, place)
    fraction = min(1.0, (question.held + len(placed)) / question.components)
    if _is_enough(question, placed):
        sites = {part.component: part.site for part in question.pending}
        return ClaimPlan(
            fraction=fraction,
            claims=tuple(a.component for a in placed if a.site == sites[a.component]),
            moves=tuple(a for a in placed if a.site != sites[a.component]),
        )
    return ClaimPlan(
        fraction=fraction, forced=_forced(question, view) if question.reclaimable else ()
    )


def _placed(
    question: ClaimQuestion, view: GridView, place: PlacementPolicy
) -> tuple[Assignment, ...]:
    """Find sites at which the pending parts can start now: their own, else by the policy."""
    assignments: list[Assignment] = []
    blocked: list[PendingPart] = []
    for part in by_decreasing_size(question.pending):
        if part.site is not None and part.fits(view, part.site):
            view.take(part.site, part.processors, part.gpus)
            assignments.append(Assignment(component=part.component, site=part.site))
        else:
            blocked.append(part)
    strict = [part for part in blocked if not part.is_optional]
    for parts in (strict, *([part] for part in blocked if part.is_optional)):
        answer = place(_request(parts, question, assignments), view) if parts else None
        if isinstance(answer, Placement):
            sizes = {part.component: (part.processors, part.gpus) for part in parts}
            for assignment in answer.assignments:
                view.take(assignment.site, *sizes[assignment.component])
                view.book(assignment)
                assignments.append(assignment)
    return tuple(sorted(assignments, key=lambda assignment: assignment.component))


def by_decreasing_size(parts: Iterable[PendingPart]) -> list[PendingPart]:
    """Sort parts: required before optional, then those fixed to one site, which others could fill,
    then the largest.
    """

    def key(part: PendingPart) -> tuple[bool, bool, int, int]:
        return part.is_optional, part.fixed is None, -part.processors, part.component

    return sorted(parts, key=key)


def _request(
    parts: Sequence[PendingPart], question: ClaimQuestion, placed: Sequence[Assignment]
) -> PlacementRequest:
    return PlacementRequest(
        parts=tuple(
            Part(
                component=part.component,
                processors=part.processors,
                site=part.fixed,
                size_bytes=part.size_bytes,
                file=part.file,
            )
            for part in parts
        ),
        user=question.user,
        transfer_s_max=question.remaining_s,
        demand=question.demand,
        home=question.home,
        beside=(*question.held_at, *(assignment.site for assignment in placed)),
    )


def _is_enough(question: ClaimQuestion, placed: Sequence[Assignment]) -> bool:
    components = [assignment.component for assignment in placed]
    has_strict = all(p.is_optional or p.component in components for p in question.pending)
    return has_strict and question.held + len(placed) >= question.components


# --- room among local jobs ---


def _forced(question: ClaimQuestion, view: GridView) -> tuple[Assignment, ...]:
    """Make room for all required parts, or for none. The sizes of local jobs are unknown here; the
    local manager kills the youngest, and no more than needed.
    """
    strict = sum(not part.is_optional for part in question.pending)
    needed = max(strict, question.components - question.held)
    smallest_first = sorted(question.pending, key=lambda p: (p.is_optional, p.processors))
    parts = by_decreasing_size(smallest_first[:needed])
    sites = [site.site for site in question.reclaimable]
    routes = [_routes(part, question, view) for part in parts]
    room = make_room(
        [
            (part.processors, [i for i, site in enumerate(sites) if site in reached])
            for part, reached in zip(parts, routes, strict=True)
        ],
        [site.idle for site in question.reclaimable],
        [(1,) * site.local for site in question.reclaimable],
    )
    if room is None:
        return ()
    return tuple(reached[sites[index]] for index, reached in zip(room.sites, routes, strict=True))


def _routes(part: PendingPart, question: ClaimQuestion, view: GridView) -> dict[str, Assignment]:
    """Map the sites where a part may go to assignments with the route of its file."""
    reached: dict[str, Assignment] = {}
    ways: Iterable[tuple[float, SiteName | None, SiteName]]
    if part.file is None:
        ways = [(0.0, None, site.site) for site in question.reclaimable]
    else:
        ways = view.routes(part.file, question.user)
    for seconds_per_byte, source, site in ways:
        transfer_s = seconds_per_byte * part.size_bytes
        if part.fixed in (None, site) and transfer_s <= question.remaining_s:
            reached[site] = Assignment(
                component=part.component, site=site, source=source, transfer_s=transfer_s
            )
    return reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Site of each component (by index), and the number of each site's youngest local jobs to kill
    for that.
    """

    sites: tuple[int, ...]
    victims: tuple[int, ...]


def make_room(
    parts: Sequence[tuple[int, Sequence[int]]],
    idle: Sequence[int],
    local: Sequence[Sequence[int]],
) -> Room | None:
    """Make room for all parts; None if that is impossible, and no job is to be killed
    (Deadlines 2.2).

    A part is its processors and the sites that may take it, in order. Part by part: the site with
    most idle processors if it fits there, else, of the sites where idle ones and those of local
    jobs suffice, the one with most idle; ties: the first. `local` are the processors of each
    site's local jobs, the youngest first; they go in that order, and no more than needed.
    """
    free = list(idle)
    left = [sum(processors) for processors in local]
    victims = [0] * len(free)
    sites = []
    for processors, candidates in parts:
        fitting = [site for site in candidates if free[site] + left[site] >= processors]
        # Where the part fits on idle processors, the site with most of them is among these, too.
        site = max(fitting, key=free.__getitem__, default=None)
        if site is None:
            return None
        while free[site] < processors:
            victim = local[site][victims[site]]
            victims[site] += 1
            left[site] -= victim
            free[site] += victim
        free[site] -= processors
        sites.append(site)
    return Room(sites=tuple(sites), victims=tuple(victims))
