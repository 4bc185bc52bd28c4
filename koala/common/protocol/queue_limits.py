"""Limits of a local manager's queues: where a claim goes, and how long it may hold and run there.

The daemon places claims by them, agents submit by them; both must come to the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from koala.common.protocol.messages import Queue, Resources

HOLD_MIN_S = 60.0
"""Hold that a claim keeps where a queue's longest time is too short for all of it."""
RUN_MIN_S = 60.0
"""Time that a program without a limit of its own must have after the hold."""
END_S = 90.0
"""Time for the end of a program, whole minutes, and files that are brought back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times that a batch job may have: the longest, the one without a request (unless it
    `must_ask`), and the time until the site closes for a maintenance; infinite where none is
    known."""

    longest_s: float = math.inf
    usual_s: float = math.inf
    room_s: float = math.inf
    must_ask: bool = False


NO_LIMITS = Times()


def queues_of(
    wishes: Resources, queues: Sequence[Queue], *, honours: Collection[str]
) -> list[Queue]:
    """Return the queues that a job may go to: those that it names, else the default ones. None are
    known for one that has an account or a quality of service of its own: they have other limits."""
    if (wishes.project and "project" in honours) or (wishes.qos and "qos" in honours):
        return []
    names = wishes.queue.split(",") if wishes.queue and "queue" in honours else ()
    return [one for one in queues if (one.name in names if names else one.is_default)]


def times_of(
    wishes: Resources,
    queues: Sequence[Queue],
    *,
    honours: Collection[str],
    room_s: float = math.inf,
) -> Times:
    """Return the times of a job, those of the most generous of its queues."""
    found = queues_of(wishes, queues, honours=honours)
    return Times(
        longest_s=max((one.longest_s or math.inf for one in found), default=math.inf),
        usual_s=max((one.usual_s or one.longest_s or math.inf for one in found), default=math.inf),
        room_s=room_s,
        must_ask=any(one.must_ask for one in found),
    )


def hold_room_s(wall_s: float | None, times: Times, end_s: float = END_S) -> float:
    """Return the longest hold that leaves a program its time."""
    run_s = wall_s or RUN_MIN_S
    return max(HOLD_MIN_S, _longest_s(run_s, end_s, times) - run_s - end_s)


def limit_of(hold_s: float, wall_s: float | None, end_s: float, times: Times) -> float:
    """Return the time limit of a batch job that holds for up to `hold_s`; infinite: it asks for
    none, because the queue's usual one is enough."""
    run_s = wall_s or RUN_MIN_S
    longest_s = _longest_s(run_s, end_s, times)
    is_enough = hold_s + run_s + end_s <= times.usual_s <= longest_s
    if wall_s is None and is_enough and not times.must_ask:
        return math.inf
    return min(hold_s + (wall_s or times.usual_s) + end_s, longest_s)


def _longest_s(run_s: float, end_s: float, times: Times) -> float:
    is_before = HOLD_MIN_S + run_s + end_s <= times.room_s  # else it waits until the site opens
    return min(times.longest_s, times.room_s) if is_before else times.longest_s


def limit_text(seconds: float) -> str:
    """Format a time limit for people: in the largest unit that leaves a whole number."""
    whole = max(0, math.ceil(seconds))
    unit, name = next(
        (one for one in ((86_400, "days"), (3600, "h"), (60, "min")) if _fits(whole, one[0])),
        (1, "s"),
    )
    return f"{whole // unit} {name}"


def _fits(seconds: int, unit: int) -> bool:
    return seconds > unit and seconds % unit == 0
