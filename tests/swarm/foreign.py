"""Policies of other packages in the swarm: they behave for a while, and then misbehave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NoReturn

from koala.common.runtime.foreign.guards import Conduct
from koala.core.model.grid import Assignment, Placement
from koala.core.model.progress_reports import Correction
from koala.core.model.values import JobId, SiteName
from koala.core.model.visiting import Discipline
from koala.core.policy_api import (
    ClaimPlan,
    PartPlan,
    Policies,
    ResizePlan,
    ResizeShare,
    TicketPlan,
)
from koala.policies import chosen
from koala.policies.slots import SLOTS

LIVE = Conduct(limit_s=60.0, report=lambda _replacement: None)
"""None of them hangs; a busy machine may leave them alone for a while."""
SEEDS_APART = 13
"""One seed in so many has such policies: none of those that find mutants without them."""
Misdeed = Callable[..., Any]
"""Makes an answer of the right one and the question."""


def drawn(seed: int) -> dict[str, tuple[str, int]]:
    """Draw the slots with such a policy: the misdeed of each, and the answers before it."""
    if seed % SEEDS_APART != SEEDS_APART - 1:
        return {}
    random = Random(f"{seed}/foreign")
    slots = [slot for slot in SLOTS if random.random() < 0.6]
    return {
        slot: (random.choice((*COMMON, *OF_SLOT[slot])), random.choice((0, 1, 5, 20)))
        for slot in slots or [random.choice([*SLOTS])]
    }


def policies_of(names: Mapping[str, str], foreign: Mapping[str, tuple[str, int]]) -> Policies:
    """Make the policies of a scenario."""
    made: dict[str, Any] = dict(names)
    for slot, (misdeed, after) in foreign.items():
        if slot == "tickets" and names.get(slot, "none") == "none":
            continue  # nothing is asked of it
        own = SLOTS[slot].built_in[names.get(slot, SLOTS[slot].default)]
        made[slot] = _policy(own, COMMON.get(misdeed) or OF_SLOT[slot][misdeed], after)
    return chosen(LIVE, **made)


def _policy(own: Any, misdeed: Misdeed, after: int) -> Any:
    """Make a policy with as many arguments as the built-in one in its place."""
    asked = 0

    def answer(function: Callable[..., Any], *question: Any) -> Any:
        nonlocal asked
        asked += 1
        right = function(*question)
        return right if asked <= after else misdeed(right, *question)

    if isinstance(own, Discipline):
        permits = own.permits
        return replace(
            own,
            order=lambda *question: answer(own.order, *question),
            permits=None if permits is None else lambda *question: answer(permits, *question),
        )
    match own.__code__.co_argcount:
        case 1:
            return lambda question: answer(own, question)
        case 2:
            return lambda question, view: answer(own, question, view)
        case _:
            return lambda question, view, place: answer(own, question, view, place)


def errs(*_: Any) -> NoReturn:
    raise KeyError("price")


def ends(*_: Any) -> NoReturn:
    raise SystemExit(7)


def is_silent(*_: Any) -> None:
    return None


def crowds(_right: Any, request: Any, view: Any) -> Placement:
    """Put everything at the first site, without its files."""
    site = view.sites[0].name if view.sites else SiteName("nowhere")
    return Placement(
        assignments=tuple(Assignment(component=part.component, site=site) for part in request.parts)
    )


def late(right: Any, *_: Any) -> Any:
    """Let transfers take for ever."""
    if not isinstance(right, Placement):
        return right
    return Placement(assignments=tuple(replace(a, transfer_s=1e300) for a in right.assignments))


def claims_all(_right: Any, question: Any, *_: Any) -> ClaimPlan:
    """Claim everything, wherever it is, and twice what is there once."""
    claims = tuple(part.component for part in question.pending)
    return ClaimPlan(fraction=9.0, claims=claims + claims)


def moves_away(_right: Any, question: Any, *_: Any) -> ClaimPlan:
    moves = [Assignment(component=p.component, site=SiteName("nowhere")) for p in question.pending]
    return ClaimPlan(fraction=1.0, moves=tuple(moves))


def preempts_all(_right: Any, question: Any, *_: Any) -> ClaimPlan:
    """Preempt jobs that nobody has offered."""
    jobs = tuple(JobId(f"j{n}") for n in range(1, 9))
    return ClaimPlan(
        fraction=1.0, preempting=tuple(p.component for p in question.pending), victims=jobs
    )


def overweights(_right: Any, question: Any) -> tuple[Correction, ...]:
    return tuple(Correction(component=one.component, weight=7.0) for one in question.members)


def queues_many(_right: Any, question: Any) -> Any:
    """Queue more tickets than allowed, for ever."""
    parts = tuple(PartPlan(component=one.component, tickets=99, open=99) for one in question.parts)
    return TicketPlan(parts=parts, hold_s=float("inf"))


def gives_back_all(right: Any, _question: Any) -> Any:
    """Give back what nobody holds."""
    return replace(right, parts=tuple(replace(one, gives_back=True) for one in right.parts))


def gives_all(_right: Any, question: Any) -> Any:
    """Give each job all that there is, and more."""
    shares = [ResizeShare(job=job.job, processors=question.processors) for job in question.jobs]
    return ResizePlan(shares=(*shares, ResizeShare(job=JobId("j99"), processors=1)))


COMMON: dict[str, Misdeed] = {"errs": errs, "ends": ends, "is silent": is_silent}
OF_SLOT: dict[str, dict[str, Misdeed]] = {
    "placement": {"crowds": crowds, "is late": late},
    "claiming": {"claims": claims_all, "moves": moves_away, "preempts": preempts_all},
    "deadlines": {"claims": claims_all, "moves": moves_away, "preempts": preempts_all},
    "tickets": {"queues many": queues_many, "gives back": gives_back_all},
    "resizing": {"gives all": gives_all},
    "progress": {"overweights": overweights},
    "queueing": {"nonsense": lambda *_: ("x", float("nan"))},
}
