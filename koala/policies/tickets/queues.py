"""Policies for jobs whose components come up together out of local queues.

All claims are in all queues from the beginning, and age there. One that would come up too early is
gated: it cannot start, and keeps its place. One that came up holds for `h` at most while the others
are opened, and is then given back; the next ticket of that component has aged behind it.

- `dodge` opens a component when it is expected not long before the slowest one.
- `turns` needs no expected starts: the component that gave back last waits for the others.
- `spare` needs no gates: tickets come up when they do, and the next ones are queued behind.

A component may have several sites: it is expected where it is expected first. While it holds at one
of them, its tickets at the others stay gated, or are withdrawn where there is no gate.

Sources: hold and yield of Tang et al., ICPP 2011, done by the owner of the jobs from outside.
"""

from __future__ import annotations

from dataclasses import replace

from koala.core.model.values import FOREVER, Seconds
from koala.core.policy_api import PartPlan, TicketPart, TicketPlan, TicketQuestion

HOLDS_OF_A_RUN = 6
"""A job holds for a sixth of its run at most."""
FAR_HOLDS = 3
"""A component that came up this many holds before the others is given back at once."""
FAR_HOLDS_UNGATED = 2
LOOK_S = 10.0
"""Time that the others have to start, before a component that came up far too early goes; the slack
of a short job is less."""
REST_HOLDS = 6
"""Without a gate, a component that came up far too early is queued again after so many holds, or
when the others are near. Else it would come up again at once where nothing is in its way."""
NEWS_S = 30.0
"""Time that a site has to tell the first expected start of a ticket."""


def dodge(question: TicketQuestion) -> TicketPlan:
    """Open a component when it is expected within the slack of the slowest one, or while another
    one holds. Where a component is expected at none of its sites, all take turns; of several, those
    that tell nothing are open while another component holds. Starts that may still be told are
    waited for, unless one holds: then the others are open whatever is told."""
    held = held_components(question)
    waiting = [part for part in question.parts if part.component not in held]
    queued = [part for part in waiting if part.tickets or part.given_back_s is None]
    silent = [part for part in queued if part.start_s is None and not _may_be_told(part, question)]
    told = {part.component for part in waiting if part.start_s is not None}
    if any(part.component not in told for part in silent):
        return turns(question)
    if not held and any(_may_be_told(part, question) for part in queued):
        return _closed(question)
    hold_s = hold_of(question)
    last_s = expected_last_s(question)
    plans = [
        _plan(
            part,
            question,
            hold_s,
            last_s,
            far_s=FAR_HOLDS * hold_s,
            is_open=_is_near(part, hold_s)
            and (
                bool(held)
                or (part not in silent and (part.start_s or 0.0) + question.slack_s >= last_s)
            ),
        )
        for part in question.parts
    ]
    return TicketPlan(parts=tuple(plans), hold_s=hold_s, again_s=_again_s(question, hold_s))


def turns(question: TicketQuestion) -> TicketPlan:
    """Open the components that gave back longest ago, or all while one holds."""
    hold_s = hold_of(question) / 2
    first_s = max(_since_turn_s(part) for part in question.parts)
    is_early = _files_s(question) > hold_s
    is_one_held = bool(held_components(question))
    plans = [
        _plan(
            part,
            question,
            hold_s,
            0.0,
            far_s=FOREVER,
            is_open=not is_early
            and _is_near(part, hold_s)
            and (is_one_held or _since_turn_s(part) >= first_s),
        )
        for part in question.parts
    ]
    return TicketPlan(parts=tuple(plans), hold_s=hold_s, again_s=_again_s(question, hold_s))


def spare(question: TicketQuestion) -> TicketPlan:
    """Let tickets come up when they do; queue further ones behind those that come up too early."""
    hold_s = hold_of(question)
    last_s = expected_last_s(question)
    far_s = FAR_HOLDS_UNGATED * hold_s
    plans = [
        _plan(replace(part, can_gate=False), question, hold_s, last_s, far_s=far_s, is_open=True)
        for part in question.parts
    ]
    return TicketPlan(parts=tuple(plans), hold_s=hold_s, again_s=_again_s(question, hold_s))


def held_components(question: TicketQuestion) -> set[int]:
    """Return the components that hold at one of their sites."""
    return {part.component for part in question.parts if part.held_s is not None}


def expected_last_s(question: TicketQuestion) -> Seconds:
    """Return the time until the last component that the job needs is expected with its files, each
    at the site where that is first."""
    told = {part.component for part in question.parts if part.start_s is not None}
    starts: dict[int, Seconds] = {}
    for part in _counting(question):
        unknown_s = FOREVER if part.component in told else 0.0
        start_s = unknown_s if part.start_s is None else part.start_s
        ready_s = max(0.0 if part.held_s is not None else start_s, part.files_s)
        starts[part.component] = min(ready_s, starts.get(part.component, FOREVER))
    needed = question.needed or len(starts)
    must = [
        starts[part.component]
        for part in question.parts
        if part.held_s is not None or not part.is_optional
    ]
    return max([sorted(starts.values())[needed - 1], *must])


def _files_s(question: TicketQuestion) -> Seconds:
    """Return the time until all components have their files, each where that is first."""
    arrivals: dict[int, Seconds] = {}
    for part in _counting(question):
        arrivals[part.component] = min(part.files_s, arrivals.get(part.component, FOREVER))
    return max(arrivals.values())


def _counting(question: TicketQuestion) -> list[TicketPart]:
    """Return the components at the sites where they may start: one that holds at its site alone."""
    held = held_components(question)
    return [p for p in question.parts if p.held_s is not None or p.component not in held]


def _is_near(part: TicketPart, hold_s: Seconds) -> bool:
    """Return True if a component that came up now, or when it is expected, would have its files
    while it holds."""
    return part.files_s <= (part.start_s or 0.0) + hold_s


def _plan(
    part: TicketPart,
    question: TicketQuestion,
    hold_s: Seconds,
    last_s: Seconds,
    *,
    far_s: Seconds,
    is_open: bool,
) -> PartPlan:
    is_held = part.held_s is not None
    is_elsewhere = not is_held and part.component in held_components(question)
    held_s = part.held_s or 0.0
    gives_back = is_held and (held_s >= hold_s or (last_s > far_s and held_s >= _look_s(question)))
    if part.can_gate:
        tickets = question.tickets_max - (1 if is_held and not gives_back else 0)
        open_ = 1 if is_open and not is_held and not is_elsewhere else 0
    elif is_elsewhere:
        tickets = open_ = 0
    else:
        rested_s = FOREVER if part.given_back_s is None else part.given_back_s
        is_resting = last_s > far_s and (gives_back or rested_s < REST_HOLDS * hold_s)
        tickets = max(part.tickets, 0 if is_resting or (is_held and not gives_back) else 1)
        is_too_early = part.start_s is not None and part.start_s + hold_s < last_s
        if tickets == part.tickets and is_too_early and part.waited_s >= hold_s:
            tickets += 1
        tickets = open_ = min(tickets, question.tickets_max)
    return PartPlan(
        component=part.component,
        site=part.site,
        tickets=tickets,
        open=min(open_, tickets),
        gives_back=gives_back,
    )


def _closed(question: TicketQuestion) -> TicketPlan:
    """Queue all tickets gated, until their sites have told when they would start."""
    hold_s = hold_of(question)
    plans = [
        _plan(part, question, hold_s, 0.0, far_s=FOREVER, is_open=False) for part in question.parts
    ]
    again_s = min(NEWS_S, _again_s(question, hold_s))
    return TicketPlan(parts=tuple(plans), hold_s=hold_s, again_s=again_s)


def _look_s(question: TicketQuestion) -> Seconds:
    return min(LOOK_S, question.slack_s)


def hold_of(question: TicketQuestion) -> Seconds:
    run_s = question.run_s / HOLDS_OF_A_RUN
    return min(max(run_s, question.hold_min_s), question.hold_max_s)


def _may_be_told(part: TicketPart, question: TicketQuestion) -> bool:
    """Test for a component whose site has told no start so far, and may yet do so."""
    longest_s = max(other_part.waited_s for other_part in question.parts)
    waited_s = part.waited_s if part.tickets else longest_s  # its site may take none of it
    return not part.is_known and waited_s < NEWS_S


def _since_turn_s(part: TicketPart) -> Seconds:
    return FOREVER if part.given_back_s is None else part.given_back_s


def _again_s(question: TicketQuestion, hold_s: Seconds) -> Seconds:
    """Return the time until a component may have to be given back."""
    held = [part.held_s for part in question.parts if part.held_s is not None]
    looks = (_look_s(question), hold_s)
    ends = [end_s - held_s for held_s in held for end_s in looks if end_s > held_s]
    return min(ends, default=FOREVER)
