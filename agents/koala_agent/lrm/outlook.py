"""Outlook of a site: when claims of several sizes and lengths would start if they came now."""

from __future__ import annotations

import math
from typing import Any

from koala.common.protocol.messages import Outlook
from koala.queue_model import LocalQueue

SHARES = (8, 4, 2, 1)
"""Sizes, as the site's processors divided by these."""
RUNS_S = (600.0, 3600.0, 6 * 3600.0, 1e8)
"""Time limits; the last one stands for none."""
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
