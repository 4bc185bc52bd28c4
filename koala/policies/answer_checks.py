"""Check the answers of policies that are not built in.

The core trusts a valid answer. The daemon replaces a policy of another package that gives an
invalid one (`koala.daemon.policy_fallback`); a simulation ends with an error, because its numbers
would be those of another policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Unplaceable,
)
from koala.core.model.progress_reports import Correction, ProgressQuestion
from koala.core.policy_api import Ordering, PlacementPolicy, Policies
from koala.errors import ConfigError
from koala.policies import BUILT_IN
from koala.protocol.ordering import OrderPolicy, QueuedJob, key_error

ROUNDING = 1e-6


def checked(policies: Policies) -> Policies:
    """Make invalid answers of placement policies and orders that are not built in an error."""
    if policies.place not in BUILT_IN["placement"].values():
        policies = replace(policies, place=_checked_placement(policies.place))
    queueing = policies.queueing
    if isinstance(queueing, Ordering) and queueing.order not in BUILT_IN["queueing"].values():
        queueing = replace(queueing, order=_checked_order(queueing.order))
    return replace(policies, queueing=queueing)


def _checked_placement(policy: PlacementPolicy) -> PlacementPolicy:
    def place(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        answer = _asked("placement", policy, request, view.copy())
        if wrong := placement_error(answer, request, view):
            raise ConfigError(f"placement = {_name(policy)}: {wrong}")
        assert isinstance(answer, Placement | Unplaceable), answer
        return answer

    return place


def _checked_order(order: OrderPolicy) -> OrderPolicy:
    def key(job: QueuedJob) -> object:
        answer = _asked("queueing", order, job)
        if wrong := key_error(answer):
            raise ConfigError(f"queueing = {_name(order)}: {wrong}")
        return answer

    return key


def _asked(slot: str, policy: Callable[..., object], *question: object) -> object:
    """Ask a policy; its own errors become ours, with the line that raised them."""
    try:
        return policy(*question)
    except Exception as error:
        trace = error.__traceback__
        assert trace is not None
        while trace.tb_next is not None:
            trace = trace.tb_next
        text = " ".join(str(error).split())  # one line
        raise ConfigError(
            f"{slot} = {_name(policy)}: raised {type(error).__name__}: {text}, in"
            f" {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        ) from error


def _name(function: object) -> str:
    return str(getattr(function, "__name__", function))


def correction_error(answer: object, question: ProgressQuestion) -> str:
    """Return the problem with the corrections; empty if they are valid."""
    if not isinstance(answer, tuple):
        return f"answered {type(answer).__name__}: allowed is a tuple of Correction"
    left = {member.component: member for member in question.members}
    for one in answer:
        if not isinstance(one, Correction):
            return f"{type(one).__name__} among the answers: allowed are Correction"
        member = left.pop(one.component, None)
        if member is None:
            return f"component {one.component} was not asked about, or is corrected twice"
        if not -member.weight - ROUNDING <= one.weight <= member.spare + ROUNDING:
            text = f"allowed is from {-member.weight:g} to {member.spare:g}"
            return f"component {one.component} is given {one.weight:g}: {text}"
    return ""


def placement_error(answer: object, request: PlacementRequest, view: GridView) -> str:
    """Return the problem with an answer; empty if it is valid. The core trusts valid answers."""
    parts = {part.component: part for part in request.parts}
    match answer:
        case Unplaceable():
            is_known = answer.component in parts
            return "" if is_known else f"no component {answer.component} was asked about"
        case Placement():
            placed = [assignment.component for assignment in answer.assignments]
            if sorted(placed) != sorted(parts):
                return f"placed the components {placed}, asked were {list(parts)}"
            wrong = _capacity_error(answer, parts, request, view)
            for assignment in answer.assignments:
                wrong = wrong or _assignment_error(
                    assignment, parts[assignment.component], request, view
                )
            return wrong
        case _:
            return f"answered {type(answer).__name__}: allowed are Placement and Unplaceable"


def _capacity_error(
    answer: Placement, parts: Mapping[int, Part], request: PlacementRequest, view: GridView
) -> str:
    """Check all components together: processors, job slots and bookings of links."""
    idle, slots, free = view.idle(request.user), view.slots(), view.free()
    for assignment in answer.assignments:
        site, link, booked_bps = assignment.site, assignment.link, assignment.booked_bps
        idle[site] = idle.get(site, 0) - parts[assignment.component].processors
        slots[site] = slots.get(site, 1_000_000) - 1
        if idle[site] < 0 or slots[site] < 0:
            return f"component {assignment.component} at {site}: there is no room"
        if booked_bps:
            free[link] = free.get(link, 0.0) - booked_bps
            if not free[link] >= -ROUNDING * booked_bps:
                return f"component {assignment.component}: booked more of {link} than is left"
    return ""


def _assignment_error(
    assignment: Assignment, part: Part, request: PlacementRequest, view: GridView
) -> str:
    """Check one component: its site, and the source of its file."""
    site, source = assignment.site, assignment.source
    text = f"component {part.component} at {site}: "
    if part.site not in (None, site):
        return f"{text}it is fixed to {part.site}"
    files = part.file if isinstance(part.file, tuple) else (part.file,)
    holders = [view.holders(file) for file in files if file is not None]
    enough = any if source else all  # of several files, the source holds one
    if holders and not enough((source or site) in sites for sites in holders):
        return f"{text}{source or site} has no copy of its file"
    if not all(holders):
        return f"{text}no site has one of its files"
    if not 0 <= assignment.transfer_s <= request.transfer_s_max:
        return f"{text}a transfer of {assignment.transfer_s} s"
    if not (assignment.mips >= 0 and assignment.booked_bps >= 0):
        return f"{text}a rate below 0"
    return ""
