"""Policy for jobs some of whose sites book processors for a known start.

A common start is planned: the instant at which all other components are expected through their
queues, or that some time from now if they hold already, and a margin, because what is booked begins
late. For that instant all sites that can are booked; the others are queued for as by `dodge`, which
knows the bookings as expected starts. A ticket of a booked component may still come up first.

A site that refuses is asked for a later instant, each time twice as far behind the others. All
bookings move along: to a later instant where the others will not be there while a booking holds,
and to an earlier one where much is gained; where that is refused, back to the one before. A job
whose sites all book starts at the first instant that all of them accept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from koala.core.model.values import FOREVER, Seconds
from koala.core.policy_api import PartPlan, TicketPart, TicketPlan, TicketQuestion
from koala.policies.tickets.queues import dodge, expected_last_s, held_components, hold_of

MARGIN_S = 60.0
"""Time by which a booking begins after the others are expected, at most a quarter of a hold: what
holds already must still do so when a late booking begins."""
HOLD_S = 90.0
"""Shortest hold where a component is booked, if the job and its sites allow as much: real sites
were seen to begin up to 64 s late."""
ADVANCE_S = 2 * 86_400.0
"""A site that refuses until so long after the others is not booked, but waited for in its queue."""
EARLIER = 1 / 4
"""Share of the time until a booking, by which it must begin earlier to be moved."""


def book(question: TicketQuestion) -> TicketPlan:
    """Book the sites that can for a common start, and queue for the others as by `dodge`."""
    if any(part.books or part.begins_s is not None for part in question.parts):
        hold_min_s = min(max(question.hold_min_s, HOLD_S), question.hold_max_s)
        question = replace(question, hold_min_s=hold_min_s)
    begin_s, chosen = _common_start(question, _bookable(question))
    parts = [_expected(part, begin_s) if part in chosen else part for part in question.parts]
    plan = dodge(replace(question, parts=tuple(parts)))
    margin_s = _margin_s(question)
    is_any_held = bool(held_components(question))
    plans = [
        _booked(planned, part, begin_s, margin_s, is_any_held=is_any_held)
        if part in chosen
        else planned
        for planned, part in zip(plan.parts, question.parts, strict=True)
    ]
    return replace(plan, parts=tuple(plans))


def _booked(
    plan: PartPlan,
    part: TicketPart,
    begin_s: Seconds | None,
    margin_s: Seconds,
    *,
    is_any_held: bool,
) -> PartPlan:
    """Add the booking of a component to its plan. It counts as a ticket, and stands for all where
    there is no gate; where no start is told its tickets stay gated until the others may hold."""
    if not part.can_gate:
        plan = replace(plan, tickets=0, open=0)
    if begin_s is None:
        return plan
    begins_s = part.begins_s
    if begins_s is None or not begin_s - margin_s <= begins_s <= begin_s:
        begins_s = max(begin_s, margin_s)
    tickets = max(0, plan.tickets - 1)
    is_shut = part.start_s is None and not is_any_held
    return replace(
        plan, tickets=tickets, open=0 if is_shut else min(plan.open, tickets), begin_s=begins_s
    )


def _margin_s(question: TicketQuestion) -> Seconds:
    return min(MARGIN_S, hold_of(question) / 4)


def _expected(part: TicketPart, begin_s: Seconds | None) -> TicketPart:
    """Return a part as it is expected: when its booking begins, or its ticket comes up before. What
    waits for the others to be booked is in nobody's way."""
    if begin_s is None:
        return part if part.can_gate else replace(part, start_s=0.0, is_known=True)
    first_s = begin_s if part.start_s is None else min(part.start_s, begin_s)
    return replace(part, start_s=max(0.0, first_s), is_known=True)


def _bookable(question: TicketQuestion) -> list[TicketPart]:
    """Return the parts that may be booked: of each component that holds nowhere one site, the one
    that is booked already or the first."""
    held = held_components(question)
    by_component: dict[int, TicketPart] = {}
    for part in question.parts:
        if part.component not in held and (part.books or part.begins_s is not None):
            known = by_component.get(part.component)
            if known is None or (known.begins_s is None and part.begins_s is not None):
                by_component[part.component] = part
    return list(by_component.values())


def _common_start(
    question: TicketQuestion, bookable: list[TicketPart]
) -> tuple[Seconds | None, Collection[TicketPart]]:
    """Return the time until the common start, and the parts that are booked for it; None while
    another component may start at any time."""
    while bookable:
        others_s = _others_s(question, bookable)
        far = [part for part in bookable if _refused_until(part, others_s) > ADVANCE_S]
        if not far:
            return _kept_or_moved(question, bookable, others_s), bookable
        bookable = [part for part in bookable if part not in far]
    return None, ()


def _others_s(question: TicketQuestion, bookable: Collection[TicketPart]) -> Seconds | None:
    """Return the time until all other components are expected that the job needs, and all files
    are there; None while that is unknown."""
    booked = {part.component for part in bookable}
    held = held_components(question)
    told = {part.component for part in question.parts if part.start_s is not None}
    for part in question.parts:
        is_unknown = part.component not in booked | held | told
        if is_unknown and not part.is_optional:
            return None
    parts = [
        replace(part, start_s=0.0) if part.component in booked else part for part in question.parts
    ]
    return expected_last_s(replace(question, parts=tuple(parts)))


def _refused_until(part: TicketPart, others_s: Seconds | None) -> Seconds:
    """Return the time after the others until the next instant for which a site is asked: twice as
    long as the one that was refused last, but not beyond a later one that it had accepted."""
    refused_s, had_s = part.not_booked_s, part.moved_from_s
    if refused_s is None or others_s is None:
        return 0.0
    next_s = 2 * max(0.0, refused_s - others_s)
    return next_s if had_s is None or had_s <= refused_s else min(next_s, had_s - others_s)


def _kept_or_moved(
    question: TicketQuestion, bookable: Collection[TicketPart], others_s: Seconds | None
) -> Seconds | None:
    """Return the time until the common start: that of the bookings that exist, if they are still
    good, or the first one possible."""
    begins = [part.begins_s for part in bookable if part.begins_s is not None]
    current_s = max(begins, default=None)
    if others_s is None:
        return current_s
    after_s = max([_margin_s(question), *(_refused_until(part, others_s) for part in bookable)])
    first_s = others_s + after_s
    hold_s = hold_of(question)
    if current_s is None:
        return first_s
    refused = [part.not_booked_s for part in bookable if part.not_booked_s is not None]
    is_refused = max(refused, default=-FOREVER) > current_s - 1.0
    is_missed = others_s > current_s + hold_s  # also where it should have begun long ago
    held_s = max([part.held_s or 0.0 for part in question.parts])
    left_s = hold_s - held_s - _margin_s(question)  # that the others hold when it begins
    is_far = others_s + max(left_s, EARLIER * current_s) < current_s
    is_gain = first_s < max((1 - EARLIER) * current_s, min(others_s + left_s, current_s))
    return first_s if is_refused or is_missed or (is_far and is_gain) else current_s
