"""The Incremental Claiming Policy (KOALA 3.3); atomic claiming is its case T = 1."""

from __future__ import annotations

from koala.core.model.grid import GridView, Part, Placement, PlacementRequest
from koala.core.model.values import SiteName
from koala.core.policy_api import ClaimPlan, ClaimQuestion, PendingPart, PlacementPolicy
from koala.policies.claiming.preemption import choose_victims


def incremental(question: ClaimQuestion, view: GridView, place: PlacementPolicy) -> ClaimPlan:
    """Claim components that can start; move others to sites that their file reaches by the JST;
    preempt for high priority.

    F is the fraction of components that are held or can start now; below T nothing is claimed.
    """
    startable, blocked = _split(question, view)
    fraction = min(1.0, (question.held + len(startable)) / question.components)
    if fraction < question.threshold:
        return ClaimPlan(fraction=fraction)
    moves = []
    stuck = []
    sites = {part.component: part.site for part in question.pending}
    for part in blocked:
        sites[part.component] = None
        beside = (*question.held_at, *(site for site in sites.values() if site is not None))
        is_movable = part.fixed is None and part.processors <= view.idle_max
        move = place(_anywhere(part, question, beside), view) if is_movable else None
        if isinstance(move, Placement):
            view.take(move.assignments[0].site, part.processors, part.gpus)
            view.book(move.assignments[0])
            moves.append(move.assignments[0])
            sites[part.component] = move.assignments[0].site
        else:
            sites[part.component] = part.site
            stuck.append(part)
    preempting, victims = choose_victims(question, tuple(stuck), view)
    return ClaimPlan(
        fraction=fraction,
        claims=tuple(part.component for part in startable),
        moves=tuple(moves),
        preempting=preempting,
        victims=victims,
    )


def _split(question: ClaimQuestion, view: GridView) -> tuple[list[PendingPart], list[PendingPart]]:
    startable: list[PendingPart] = []
    blocked: list[PendingPart] = []
    for part in sorted(question.pending, key=lambda p: (-p.processors, p.component)):
        if part.site is not None and part.fits(view, part.site):
            view.take(part.site, part.processors, part.gpus)
            startable.append(part)
        else:
            blocked.append(part)
    return startable, blocked


def _anywhere(
    part: PendingPart, question: ClaimQuestion, beside: tuple[SiteName, ...]
) -> PlacementRequest:
    return PlacementRequest(
        parts=(
            Part(
                component=part.component,
                processors=part.processors,
                size_bytes=part.size_bytes,
                file=part.file,
            ),
        ),
        user=question.user,
        transfer_s_max=question.remaining_s,
        demand=question.demand,
        home=question.home,
        beside=beside,
    )
