"""Outlook of a site: when claims of several sizes and lengths would start if they came now, and the
processors that are idle for short ones."""

from __future__ import annotations

import math
from typing import Any

from koala.common.protocol.limits import ENDLESS_S, HOLES_MAX
from koala.common.protocol.messages import Hole, Outlook
from koala.queue_model import ConservativeQueue, LocalQueue

SHARES = (8, 4, 2, 1)
"""Sizes, as the site's processors divided by these."""
RUNS_S = (600.0, 3600.0, 6 * 3600.0, ENDLESS_S)
"""Time limits."""
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
    holes: list[Hole] = []
    starts = {start_s for start_s in queue.reservations.values() if start_s < ENDLESS_S}
    for end_s in (*sorted(starts), math.inf):
        for_s = min(end_s - STEP_S, ENDLESS_S)  # batch systems plan in minutes
        processors = queue.startable(0.0, end_s)
        if for_s <= 0 or processors <= 0:
            continue
        if holes and holes[-1].processors == processors:
            holes.pop()
        holes.append(Hole(processors=processors, for_s=for_s))
    return tuple(holes[:HOLES_MAX])
