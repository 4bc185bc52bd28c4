"""Outlook of a site: when claims of several sizes and lengths would start if they came now, and the
processors that are idle for short ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from koala.common.protocol.limits import ENDLESS_S, HOLES_MAX
from koala.common.protocol.messages import Hole, Outlook
from koala.queue_model import ConservativeQueue, LocalQueue

SHARES = (8, 4, 2, 1)
"""Sizes, as the site's processors divided by these."""
RUNS_S = (600.0, 3600.0, 6 * 3600.0, ENDLESS_S)
"""Time limits."""
SHORT_S = (1200.0, 1800.0, 3600.0, 2 * 3600.0, 6 * 3600.0, 24 * 3600.0)
"""Lengths of claims for which the holes of a living queue are told."""
WAITING_MAX = 1_000
"""With more jobs in the queue it takes too long."""
STEP_S = 60.0
"""Starts are rounded up to whole steps, so that an outlook stays the same for a while."""


def outlook_of(queue: LocalQueue[Any], now: float) -> tuple[Outlook, ...]:
    """Return the outlook of a queue; empty where nothing is in the way, or too much."""
    if queue.waiting > WAITING_MAX or not (queue.waiting or queue.running):
        return ()
    rows = []
    for processors in sorted({max(1, queue.processors // share) for share in SHARES}):
        for run_s in RUNS_S:
            start_s = queue.outlook(processors, run_s, now) - now
            if start_s < math.inf:
                rounded_s = math.ceil(max(0.0, start_s) / STEP_S) * STEP_S
                rows.append(Outlook(processors=processors, run_s=run_s, start_in_s=rounded_s))
    return tuple(rows)


def holes_of(queue: ConservativeQueue[Any]) -> tuple[Hole, ...]:
    """Return the holes of a queue that has just been filled, the largest first: processors that
    delay no job that waits if they are free again soon. None of its jobs is gated."""
    if queue.waiting > WAITING_MAX:
        return ()
    queue.advance(0.0)
    begins = queue.forecast(queue.booked, 0.0)
    starts = {*queue.reservations.values(), *begins.values()}
    ends = (*sorted(start_s for start_s in starts if start_s < ENDLESS_S), math.inf)
    return holes_before((end_s, queue.startable(0.0, end_s)) for end_s in ends)


def holes_before(ends: Iterable[tuple[float, int]], startable: int = 0) -> tuple[Hole, ...]:
    """Return the holes that last until such ends, which come in order, each with the processors of
    claims that end before it: those with more than are `startable` for claims of any length."""
    return _longest(
        (min(end_s - STEP_S, ENDLESS_S), processors)  # batch systems plan in minutes
        for end_s, processors in ends
        if end_s > STEP_S and processors > startable
    )


def _longest(holes: Iterable[tuple[float, int]]) -> tuple[Hole, ...]:
    """Return of neighbours with the same processors the last one."""
    longest = {processors: for_s for for_s, processors in holes}
    return tuple(Hole(processors=n, for_s=for_s) for n, for_s in longest.items())[:HOLES_MAX]


def short_holes(queue: LocalQueue[Any], now: float, startable: int) -> tuple[Hole, ...]:
    """Return the holes of a living queue, beside what is startable for claims of any length."""
    if queue.idle <= startable:
        return ()
    begins = queue.forecast(queue.booked, now).values()
    lengths = {*SHORT_S, *((begin - now) // STEP_S * STEP_S for begin in begins)}
    sized = ((for_s, queue.startable(now, for_s)) for for_s in sorted(lengths) if for_s > 0)
    return _longest(pair for pair in sized if pair[1] > startable)
