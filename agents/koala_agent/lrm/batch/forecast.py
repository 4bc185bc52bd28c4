"""Forecast of our waiting claims: the queue of a batch system, run forward on time limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from koala.common.protocol.messages import Wait
from koala.common.protocol.names import ClaimId
from koala.queue_model import Discipline, LocalQueue, local_queue
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.dialect import Figures, QueueRow

SOURCE = "the queue run forward on time limits"
FORECASTS_MAX = 50
"""Claims with a forecast, the oldest first: each gated one is a run of the whole queue."""


def forecast(
    rows: Sequence[QueueRow], ours: Mapping[str, TrackedClaim], figures: Figures
) -> dict[str, Wait]:
    """Return the expected starts of our claims, by number, where the queue is served in its order
    with backfilling; none for one that would never start."""
    queue: LocalQueue[str] = local_queue(
        processors=max(1, figures.processors), discipline=Discipline.EASY
    )
    for row in rows:
        if row.is_running:
            if 0 < row.processors <= queue.idle:
                queue.occupy(row.number, processors=row.processors, until=row.left_s)
        elif 0 < row.processors <= queue.processors:
            queue.submit(row.number, processors=row.processors, estimate_s=row.left_s)
    queue.lose(max(0, queue.idle - figures.idle))  # what is neither idle nor in use is closed
    waiting = set(queue.order())
    known = [number for number in ours if number in waiting][:FORECASTS_MAX]
    for number in known:
        if ours[number].row.is_gated:
            queue.gate(number)
    starts = queue.forecast(known, 0.0)
    return {
        number: Wait(
            claim=ClaimId(ours[number].row.claim),
            start_in_s=round(starts[number], 1),
            source=SOURCE,
        )
        for number in known
        if starts[number] < math.inf
    }
