"""Policies of other packages are contained: one that errs, takes too long, or answers what cannot
be, is replaced by the default for the rest of this daemon's life, and that is reported.

Only who decides *now* is guarded. What was answered before is in the journal, and a replay asks
nobody. The time limit is an alarm of the operating system, which interrupts Python code that never
ends; it works in the main thread, where the pump runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from koala.core.grid import Assignment, GridView, Part, Placement, PlacementRequest, Unplaceable
from koala.core.slots import PlacementPolicy, Policies
from koala.policies import BUILT_IN, DEFAULT_PLACEMENT

LIMIT_S = 0.5
"""For one answer; the daemon does nothing else meanwhile."""
AGAIN_S = 0.1
"""A policy that lets no exception out is interrupted again after this."""
ROUNDING = 1e-6


class TooLongError(BaseException):
    """Not an Exception, so that no `except Exception` of a policy keeps it."""


def contained(policies: Policies, names: Mapping[str, str]) -> Policies:
    """The same policies, with a placement policy of another package in a guard."""
    name = names.get("placement", DEFAULT_PLACEMENT)
    if name in BUILT_IN["placement"]:
        return policies
    return replace(policies, place=Guard(policies.place, name=name))


def troubles(policies: Policies) -> dict[str, str]:
    """Policies that were replaced, by slot and name, and why."""
    place = policies.place
    if isinstance(place, Guard) and place.trouble:
        return {f"placement.{place.name}": place.trouble}
    return {}


class Guard:
    """A placement policy that is one as long as it behaves; `trouble` says why it no longer is."""

    def __init__(self, policy: PlacementPolicy, *, name: str, limit_s: float = LIMIT_S) -> None:
        self.name = name
        self.trouble = ""
        self._policy = policy
        self._limit_s = limit_s
        self._default: PlacementPolicy = BUILT_IN["placement"][DEFAULT_PLACEMENT]

    def __call__(self, request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        """The policy's answer, or that of the default in its place."""
        if not self.trouble:
            answer = self._ask(request, view)
            if answer is not None:
                return answer
        return self._default(request, view)

    def _ask(self, request: PlacementRequest, view: GridView) -> Placement | Unplaceable | None:
        """The policy's answer, unless it is replaced for what it did."""
        try:
            with _limited(self._limit_s):
                answer: Placement | Unplaceable | None = self._policy(request, view.copy())
            wrong = objection(answer, request, view)
        except TooLongError:
            wrong, answer = f"no answer in {self._limit_s:g} s", None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever others wrote
            wrong, answer = f"{type(error).__name__}: {error}", None
        if not wrong:
            return answer
        self._replace(wrong)
        return None

    def _replace(self, trouble: str) -> None:
        from structlog import get_logger  # noqa: PLC0415 - simulations import this and never log

        self.trouble = trouble
        get_logger(__name__).error(
            "policy.replaced",
            slot="placement",
            policy=self.name,
            by=DEFAULT_PLACEMENT,
            reason=trouble,
        )


def objection(answer: object, request: PlacementRequest, view: GridView) -> str:
    """What is wrong with an answer, or nothing: the core takes what policies say for granted."""
    parts = {part.component: part for part in request.parts}
    match answer:
        case Unplaceable():
            is_known = answer.component in parts
            return "" if is_known else f"no component {answer.component} was asked about"
        case Placement():
            placed = [assignment.component for assignment in answer.assignments]
            if sorted(placed) != sorted(parts):
                return f"placed the components {placed}, asked were {list(parts)}"
            wrong = _without_room(answer, parts, request, view)
            for assignment in answer.assignments:
                wrong = wrong or _wrong_way(assignment, parts[assignment.component], request, view)
            return wrong
        case _:
            return f"answered {type(answer).__name__}: allowed are Placement and Unplaceable"


def _without_room(
    answer: Placement, parts: Mapping[int, Part], request: PlacementRequest, view: GridView
) -> str:
    """Of all components together: processors, job slots, and what is booked of links."""
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


def _wrong_way(
    assignment: Assignment, part: Part, request: PlacementRequest, view: GridView
) -> str:
    """Of one component: its site, and how its file comes there."""
    site, source = assignment.site, assignment.source
    text = f"component {part.component} at {site}: "
    if part.site not in (None, site):
        return f"{text}it is fixed to {part.site}"
    if request.file is not None and (source or site) not in view.holders(request.file):
        return f"{text}{source or site} has no copy of its file"
    if not 0 <= assignment.transfer_s <= request.transfer_s_max:
        return f"{text}a transfer of {assignment.transfer_s} s"
    if not (assignment.mips >= 0 and assignment.booked_bps >= 0):
        return f"{text}a rate below 0"
    return ""


@contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Interrupt what takes longer; elsewhere than in the main thread nothing can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
