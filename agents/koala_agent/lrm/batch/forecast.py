"""Forecast of our waiting claims: the queue of a batch system, run forward on time limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from koala.common.protocol.messages import Outlook, Wait
from koala.common.protocol.names import ClaimId
from koala.queue_model import Discipline, LocalQueue, local_queue
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.dialect import Figures, QueueRow
from koala_agent.lrm.outlook import outlook_of

SOURCE = "queue run forward"
HIDDEN = "the queue hides the jobs of others"
FORECASTS_MAX = 50
"""Claims with a forecast, the oldest first: each gated one is a run of the whole queue."""


def forecast(
    rows: Sequence[QueueRow], claims: Iterable[TrackedClaim], figures: Figures
) -> tuple[dict[str, Wait], tuple[Outlook, ...]]:
    """Return the expected starts of our claims, by number, and those of further ones, where the
    queue is served in its order with backfilling; none for one that would never start. Where a
    site hides the jobs of others nothing is known."""
    ours = {claim.row.number: claim for claim in claims}
    queue: LocalQueue[str] = local_queue(
        processors=max(1, figures.processors), discipline=Discipline.EASY
    )
    for row in rows:
        if row.is_running:
            if 0 < row.processors <= queue.idle:
                queue.occupy(row.number, processors=row.processors, until=row.left_s)
        elif 0 < row.processors <= queue.processors:
            queue.submit(row.number, processors=row.processors, estimate_s=row.left_s)
    waiting = set(queue.order())
    known = [number for number in ours if number in waiting and ours[number].is_waiting()]
    del known[FORECASTS_MAX:]
    if queue.idle > figures.idle and all(row.number in ours for row in rows):
        hidden = {n: Wait(claim=ClaimId(ours[n].row.claim), source=HIDDEN) for n in known}
        return hidden, ()
    queue.lose(max(0, queue.idle - figures.idle))  # what is neither idle nor in use is closed
    for number in known:
        if ours[number].row.is_gated:
            queue.gate(number)
    starts = queue.forecast(known, 0.0)
    waits = {
        number: Wait(
            claim=ClaimId(ours[number].row.claim),
            start_in_s=round(starts[number], 1),
            source=SOURCE,
        )
        for number in known
        if starts[number] < math.inf
    }
    return waits, outlook_of(queue, 0.0)
