"""Read the answers of policies of other packages.

A reader makes plain values of an answer, so that nothing of the other package enters the core, or
raises InvalidAnswerError with what is allowed. The core trusts a valid answer. The policies of
Koala itself need no reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, isfinite
from operator import index
from typing import Any, TypeVar

from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.job_spec import Split
from koala.core.model.progress_reports import Correction, ProgressQuestion
from koala.core.model.values import JobId, Priority, Seconds, SiteName
from koala.core.policy_api import (
    ClaimPlan,
    ClaimQuestion,
    PartPlan,
    PendingPart,
    ResizePlan,
    ResizeQuestion,
    ResizeShare,
    TicketPart,
    TicketPlan,
    TicketQuestion,
)
from koala.errors import InvalidAnswerError
from koala.policies.claiming.preemption import choose_victims

ROUNDING = 1e-6
CAUTION = 10.0
"""A transfer may be estimated at so many times what the view of the grid says."""
_REASON_MAX = 500
One = TypeVar("One")


# --- plain values ---


def _kind(value: object) -> str:
    return str(type(value).__name__)


def _number(value: Any, name: str) -> float:  # noqa: ANN401 - an answer
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise InvalidAnswerError(f"{name} is {_kind(value)} (expected a number)")
    return float.__float__(float(value))


def _whole(value: Any, name: str) -> int:  # noqa: ANN401
    if not hasattr(value, "__index__"):
        raise InvalidAnswerError(f"{name} is {_kind(value)} (expected a whole number)")
    return int.__int__(index(value))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidAnswerError(f"{name} is {_kind(value)} (expected a string)")
    return str.__str__(value)


def _several(value: object, name: str, most: int) -> tuple[Any, ...]:
    """Return the members of a collection or an iterator, which may be endless."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidAnswerError(f"{name} is {_kind(value)} (expected a tuple)")
    members = tuple(islice(value, most + 1))
    if len(members) > most:
        raise InvalidAnswerError(f"{name} has too many members (expected at most {most})")
    return members


# --- placement ---


def read_placement(
    answer: object, request: PlacementRequest, view: GridView
) -> Placement | Unplaceable:
    """Read the answer of a placement policy: sites for all parts, or a part that fits nowhere."""
    if request.split is not None and isinstance(answer, Placement):
        return _read_split(answer, request.split, request, view)
    parts = {part.component: part for part in request.parts}
    if isinstance(answer, Unplaceable):
        component = _whole(answer.component, "the component")
        if component not in parts:
            raise InvalidAnswerError(f"no component {component} was asked about")
        reason = " ".join(_text(answer.reason, "the reason").split())[:_REASON_MAX]
        return Unplaceable(component=component, reason=reason)
    if not isinstance(answer, Placement):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected a Placement or Unplaceable)")
    assignments = _assignments(answer.assignments, "assignments", len(parts))
    placed = [assignment.component for assignment in assignments]
    if sorted(placed) != sorted(parts):
        raise InvalidAnswerError(f"placed the components {placed}, asked were {list(parts)}")
    _require_capacity(assignments, parts, request, view)
    for assignment in assignments:
        _require_possible(assignment, parts[assignment.component], request, view)
    return Placement(assignments=assignments)


def _read_split(
    answer: Placement, split: Split, request: PlacementRequest, view: GridView
) -> Placement:
    """Read the components that a flexible job is split into, within its bounds."""
    assignments = tuple(
        [
            replace(
                _assignment(item, "assignments"), processors=_whole(item.processors, "processors")
            )
            for item in _several(answer.assignments, "assignments", split.parts_max)
        ]
    )
    sizes = [assignment.processors for assignment in assignments]
    if [assignment.component for assignment in assignments] != list(range(len(sizes))):
        raise InvalidAnswerError(
            "the components of a split are not numbered in order (expected 0, 1, ...)"
        )
    is_within = all(split.part_min <= n <= split.part_max and n % split.step == 0 for n in sizes)
    if not is_within or not split.least <= sum(sizes) <= split.total:
        raise InvalidAnswerError(f"split into {sizes} (expected {split.describe()})")
    (part,) = request.parts
    parts = {n: part._replace(component=n, processors=size) for n, size in enumerate(sizes)}
    _require_capacity(assignments, parts, request, view)
    for assignment in assignments:
        _require_possible(assignment, parts[assignment.component], request, view)
    return Placement(assignments=assignments)


def _assignments(answer: object, name: str, most: int) -> tuple[Assignment, ...]:
    return tuple(_assignment(item, name) for item in _several(answer, name, most))


def _assignment(assignment: object, name: str) -> Assignment:
    if not isinstance(assignment, Assignment):
        raise InvalidAnswerError(f"{_kind(assignment)} among {name} (expected Assignments)")
    return Assignment(
        component=_whole(assignment.component, "the component"),
        site=SiteName(_text(assignment.site, "the site")),
        source=None
        if assignment.source is None
        else SiteName(_text(assignment.source, "the source")),
        transfer_s=_number(assignment.transfer_s, "transfer_s"),
        mips=_number(assignment.mips, "mips"),
        booked_bps=_number(assignment.booked_bps, "booked_bps"),
    )


def _require_capacity(
    assignments: Iterable[Assignment],
    parts: Mapping[int, Part],
    request: PlacementRequest,
    view: GridView,
) -> None:
    """Check all components together: processors, job slots and bookings of links."""
    idle, slots, free = view.idle(request.user), view.slots(), view.free()
    for assignment in assignments:
        site, link, booked_bps = assignment.site, assignment.link, assignment.booked_bps
        idle[site] = idle.get(site, 0) - parts[assignment.component].processors
        slots[site] = slots.get(site, 1_000_000) - 1
        if idle[site] < 0 or slots[site] < 0:
            raise InvalidAnswerError(
                f"component {assignment.component} at {site} does not fit (expected room)"
            )
        if booked_bps:
            free[link] = free.get(link, 0.0) - booked_bps
            if not (isfinite(booked_bps) and free[link] >= -ROUNDING * booked_bps):
                raise InvalidAnswerError(
                    f"component {assignment.component}: booked more of {link} than is left"
                )


def _require_possible(
    assignment: Assignment, part: Part, request: PlacementRequest, view: GridView
) -> None:
    """Check one component: its site, and the source of its file."""
    site, source = assignment.site, assignment.source
    text = f"component {part.component} at {site}: "
    if part.site not in (None, site):
        raise InvalidAnswerError(f"{text}it is fixed to {part.site}")
    files = part.file if isinstance(part.file, tuple) else (part.file,)
    holders = [view.holders(file) for file in files if file is not None]
    enough = any if source else all  # of several files, the source holds one
    if holders and not enough((source or site) in sites for sites in holders):
        raise InvalidAnswerError(f"{text}{source or site} has no copy of its file")
    if not all(holders):
        raise InvalidAnswerError(f"{text}no site has one of its files")
    if source is not None and not holders:
        raise InvalidAnswerError(f"{text}{source} is the source of no file")
    longest_s = min(request.transfer_s_max, _transfer_s_max(assignment, part, holders, view))
    if not (0 <= assignment.transfer_s <= longest_s and isfinite(assignment.transfer_s)):
        raise InvalidAnswerError(f"{text}a transfer of {assignment.transfer_s} s")
    if not (assignment.mips >= 0 and assignment.booked_bps >= 0):
        raise InvalidAnswerError(f"{text}a rate below 0")
    if not isfinite(assignment.mips):
        raise InvalidAnswerError(f"{text}a rate of {assignment.mips} MIPS")


def _transfer_s_max(
    assignment: Assignment,
    part: Part,
    holders: Sequence[Sequence[SiteName]],
    view: GridView,
) -> float:
    """Return the longest transfer that may be estimated: a multiple of what the slowest link, or
    the booked part of a link, takes. The job is claimed by this estimate."""
    links = [view.bandwidth((holder, assignment.site)) for sites in holders for holder in sites]
    slowest_bps = min(links, default=inf)
    if assignment.booked_bps:
        slowest_bps = min(slowest_bps, assignment.booked_bps)
    return CAUTION * part.size_bytes / slowest_bps


# --- claiming ---


@dataclass(slots=True, kw_only=True)
class _Try:
    """A claiming try as its plan leaves it: parts without a claim so far, and the grid."""

    question: ClaimQuestion
    view: GridView
    left: dict[int, PendingPart]

    def take(self, component: int, what: str) -> PendingPart:
        """Take a part that is pending, once."""
        part = self.left.pop(component, None)
        if part is None:
            raise InvalidAnswerError(
                f"{what}: component {component} is not pending, or is named twice"
            )
        return part

    def book(self, part: PendingPart, site: SiteName, what: str) -> None:
        """Take the room of a part at a site."""
        is_admitted = site in self.view.idle(self.question.user)
        if not is_admitted or not part.fits(self.view, site):
            raise InvalidAnswerError(
                f"{what}: component {part.component} at {site} does not fit (expected room)"
            )
        self.view.take(site, part.processors, part.gpus)


def read_plan(
    answer: object, question: ClaimQuestion, view: GridView, offers: Collection[Assignment]
) -> ClaimPlan:
    """Read the plan of a claiming policy.

    - `claims` fit at their sites now.
    - `moves` are answers that the placement policy gave in this try (`offers`), and fit.
    - `preempting` and `victims` are what `choose_victims` chooses for these components.
    - `forced` fit into the reclaimable processors.
    - Below the threshold nothing is claimed.
    """
    if not isinstance(answer, ClaimPlan):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected a ClaimPlan)")
    most = len(question.pending)
    plan = ClaimPlan(
        fraction=_number(answer.fraction, "fraction"),
        claims=_components(answer.claims, "claims", most),
        moves=_assignments(answer.moves, "moves", most),
        preempting=_components(answer.preempting, "preempting", most),
        victims=_victims(answer.victims, question),
        forced=_assignments(answer.forced, "forced", most),
    )
    if not 0 <= plan.fraction <= 1:
        raise InvalidAnswerError(f"fraction = {plan.fraction} (expected 0 to 1)")
    pending = {part.component: part for part in question.pending}
    state = _Try(question=question, view=view.copy(), left=dict(pending))
    for component in plan.claims:
        part = state.take(component, "claims")
        if part.site is None:
            raise InvalidAnswerError(f"claims: component {component} has no site")
        state.book(part, part.site, "claims")
    _require_moves(plan.moves, state, offers)
    _require_victims(plan, state)
    _require_forced(plan.forced, state)
    if plan.moves and question.is_distinct:
        _require_distinct(plan.moves, question)
    begun = len(plan.claims) + len(plan.moves) + len(plan.preempting)
    share = min(1.0, (question.held + begun) / question.components)
    if begun and share < question.threshold - ROUNDING:
        raise InvalidAnswerError(
            f"claims {share:g} of the components (expected at least {question.threshold:g})"
        )
    return plan


def _components(answer: object, name: str, most: int) -> tuple[int, ...]:
    return tuple(_whole(component, name) for component in _several(answer, name, most))


def _victims(answer: object, question: ClaimQuestion) -> tuple[JobId, ...]:
    names = _several(answer, "victims", len(question.victims))
    return tuple(JobId(_text(name, "a victim")) for name in names)


def _require_moves(
    moves: Iterable[Assignment], state: _Try, offers: Collection[Assignment]
) -> None:
    question = state.question
    for move in moves:
        part = state.take(move.component, "moves")
        if move not in offers:
            raise InvalidAnswerError(
                f"moves: component {move.component} to {move.site} (expected an answer of the"
                " placement policy in this try)"
            )
        _require_possible(move, _part(part), _request(question, part), state.view)
        _require_capacity(
            [move], {part.component: _part(part)}, _request(question, part), state.view
        )
        state.book(part, move.site, "moves")
        state.view.book(move)


def _part(part: PendingPart) -> Part:
    return Part(
        component=part.component,
        processors=part.processors,
        site=part.fixed,
        size_bytes=part.size_bytes,
        file=part.file,
    )


def _request(question: ClaimQuestion, part: PendingPart) -> PlacementRequest:
    return PlacementRequest(
        parts=(_part(part),), user=question.user, transfer_s_max=question.remaining_s
    )


def _require_victims(plan: ClaimPlan, state: _Try) -> None:
    """Check that the victims are those that the rules leave: latest JST first, no more than needed,
    and with `complete` only if all can then be claimed."""
    stuck = tuple(state.take(component, "preempting") for component in plan.preempting)
    question = state.question
    allowed = choose_victims(question, stuck, state.view)
    if (plan.preempting, plan.victims) != allowed:
        raise InvalidAnswerError(
            f"preempts {_named(plan.victims)} for the components {list(plan.preempting)} (expected"
            f" {_named(allowed[1])} for {list(allowed[0])})"
        )
    if stuck and question.preempt == "complete" and state.left:
        raise InvalidAnswerError(
            f"preempts and leaves out the components {list(state.left)} (expected to claim all)"
        )


def _named(jobs: Sequence[str]) -> str:
    return ", ".join(jobs) or "no jobs"


def _require_forced(forced: Iterable[Assignment], state: _Try) -> None:
    question = state.question
    room = {site.site: site.idle + site.local for site in question.reclaimable}
    for assignment in forced:
        part = state.take(assignment.component, "forced")
        room[assignment.site] = room.get(assignment.site, 0) - part.processors
        if room[assignment.site] < 0:
            raise InvalidAnswerError(
                f"forced: component {assignment.component} at {assignment.site} does not fit"
                " (expected room)"
            )
        _require_possible(assignment, _part(part), _request(question, part), state.view)


def _require_distinct(moves: Iterable[Assignment], question: ClaimQuestion) -> None:
    sites = {part.component: part.site for part in question.pending}
    sites.update((move.component, move.site) for move in moves)
    used = [*question.held_at, *(site for site in sites.values() if site is not None)]
    if len(used) != len(dict.fromkeys(used)):
        raise InvalidAnswerError("moves two components to one site (expected distinct sites)")


# --- tickets ---


def read_ticket_plan(answer: object, question: TicketQuestion) -> TicketPlan:
    """Read a plan of tickets: each component at each of its sites once; no more tickets than
    allowed, of which no more are open; only what is held is given back, and only sites that book
    are booked."""
    if not isinstance(answer, TicketPlan):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected a TicketPlan)")
    left = {(part.component, part.site): part for part in question.parts}
    parts = []
    for plan in _several(answer.parts, "parts", len(left)):
        if not isinstance(plan, PartPlan):
            raise InvalidAnswerError(f"{_kind(plan)} among the parts (expected PartPlan)")
        component = _whole(plan.component, "the component")
        site = SiteName(_text(plan.site, "the site"))
        part = left.pop((component, site), None)
        if part is None:
            where = f" at {site}" if site else ""
            raise InvalidAnswerError(
                f"component {component}{where} was not asked about, or comes twice"
            )
        tickets, open_ = _whole(plan.tickets, "tickets"), _whole(plan.open, "open")
        if not 0 <= open_ <= tickets <= question.tickets_max:
            raise InvalidAnswerError(
                f"component {component} has {tickets} tickets, {open_} open (expected at most"
                f" {question.tickets_max})"
            )
        gives_back = read_permission(plan.gives_back)
        if gives_back and part.held_s is None:
            raise InvalidAnswerError(f"component {component} gives back what it does not hold")
        parts.append(
            PartPlan(
                component=component,
                site=site,
                tickets=tickets,
                open=open_,
                gives_back=gives_back,
                begin_s=_begin_s(plan.begin_s, part),
            )
        )
    if left:
        raise InvalidAnswerError(f"the plan leaves out the component {next(iter(left))[0]}")
    hold_s = _number(answer.hold_s, "hold_s")
    if not 0 < hold_s <= question.hold_max_s:
        raise InvalidAnswerError(
            f"hold_s = {hold_s:g} (expected more than 0, up to {question.hold_max_s:g})"
        )
    again_s = _number(answer.again_s, "again_s")
    if not again_s > 0:
        raise InvalidAnswerError(f"again_s = {again_s:g} (expected more than 0)")
    return TicketPlan(parts=tuple(parts), hold_s=hold_s, again_s=again_s)


# --- resizing ---


def read_resize_plan(answer: object, question: ResizeQuestion) -> ResizePlan:
    """Read a plan of a resize: each job once, within what it may take or give back, and no more
    than there is."""
    if not isinstance(answer, ResizePlan):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected a ResizePlan)")
    jobs = {job.job: job for job in question.jobs}
    left, shares = question.processors, []
    for item in _several(answer.shares, "shares", len(jobs)):
        if not isinstance(item, ResizeShare):
            raise InvalidAnswerError(f"{_kind(item)} among the shares (expected ResizeShare)")
        name, processors = JobId(_text(item.job, "the job")), _whole(item.processors, "processors")
        job = jobs.pop(name, None)
        if job is None:
            raise InvalidAnswerError(f"job {name} was not asked about, or comes twice")
        most = job.spare if question.wants_back else job.room
        if not 0 <= processors <= min(most, left):
            raise InvalidAnswerError(
                f"job {name} is given {processors} processors (expected 0 to {min(most, left)})"
            )
        left -= processors
        shares.append(ResizeShare(job=name, processors=processors))
    return ResizePlan(shares=tuple(shares))


def _begin_s(answer: object, part: TicketPart) -> Seconds | None:
    """Read the time until a booking begins."""
    if answer is None:
        return None
    begin_s = _number(answer, "begin_s")
    is_possible = part.books and part.held_s is None and 0 <= begin_s < inf
    if begin_s != part.begins_s and not is_possible:
        raise InvalidAnswerError(
            f"component {part.component} is booked {begin_s:g} s from now (expected a site that"
            " books and is not held, and a time from 0 on)"
        )
    return begin_s


# --- progress ---


def read_corrections(answer: object, question: ProgressQuestion) -> tuple[Correction, ...]:
    """Read the corrections of a progress policy: each component once, within its weights."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected a tuple of Corrections)")
    left = {member.component: member for member in question.members}
    corrections = []
    for item in _several(answer, "the answer", len(question.members)):
        if not isinstance(item, Correction):
            raise InvalidAnswerError(f"{_kind(item)} among the answers (expected Corrections)")
        component, weight = _whole(item.component, "the component"), _number(item.weight, "weight")
        member = left.pop(component, None)
        if member is None:
            raise InvalidAnswerError(
                f"component {component} was not asked about, or is corrected twice"
            )
        if not -member.weight - ROUNDING <= weight <= member.spare + ROUNDING:
            raise InvalidAnswerError(
                f"component {component} is given {weight:g} (expected {-member.weight:g} to"
                f" {member.spare:g})"
            )
        corrections.append(Correction(component=component, weight=weight))
    return tuple(corrections)


# --- queueing ---


def read_turn(answer: object) -> Priority:
    """Read the queue that the next scan visits."""
    try:
        return Priority(_text(answer, "the answer"))
    except ValueError:
        expected = " or ".join(Priority)
        raise InvalidAnswerError(f"answered {answer!r:.80} (expected {expected})") from None


def read_order(answer: object, queues: Sequence[One], released: Sequence[One]) -> tuple[One, ...]:
    """Read the order in which queues are visited: all of them, and nothing else."""
    known = {queue: queue for queue in (*released, *queues)}
    ordered = []
    for queue in _several(answer, "the order", len(queues) + len(released)):
        if queue not in known:
            raise InvalidAnswerError(f"no queue {queue!r:.80} (expected one of the question)")
        ordered.append(known[queue])
    left = [queue for queue in queues if queue not in ordered]
    if left:
        raise InvalidAnswerError(
            f"the order leaves out the queue {left[0]!r} (expected all queues of the question)"
        )
    return tuple(ordered)


def read_permission(answer: object) -> bool:
    """Read the permission to start the head of a queue."""
    if not isinstance(answer, bool):
        raise InvalidAnswerError(f"answered {_kind(answer)} (expected True or False)")
    return answer
