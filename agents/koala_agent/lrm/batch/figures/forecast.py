"""Forecast of our waiting claims: the queue of a batch system, run forward on time limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from koala.common.protocol.messages import Hole, Outlook, Wait
from koala.common.protocol.names import ClaimId
from koala.queue_model import ConservativeQueue, Discipline, LocalQueue, local_queue
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.dialect import Booking, Figures, QueueRow
from koala_agent.lrm.outlook import holes_of, outlook_of

SOURCE = "queue run forward"
HIDDEN = "the queue hides the jobs of others"
FORECASTS_MAX = 50
"""Claims with a forecast, the oldest first: each gated one is a run of the whole queue."""


def forecast(
    rows: Sequence[QueueRow],
    claims: Iterable[TrackedClaim],
    figures: Figures,
    booked: Iterable[Booking] = (),
    now: float = 0.0,
) -> tuple[dict[str, Wait], tuple[Outlook, ...]]:
    """Return the expected starts of our claims, by number, and those of further ones, where the
    queue is served in its order with backfilling; none for one that would never start. Where a
    site hides the jobs of others nothing is known."""
    ours = {claim.row.number: claim for claim in claims}
    rows = _of_our_nodes(rows, ours, figures)
    queue: LocalQueue[str] = local_queue(
        processors=max(1, figures.processors), discipline=Discipline.EASY
    )
    _fill(queue, rows)
    waiting = set(queue.order())
    known = [number for number in ours if number in waiting and ours[number].is_waiting()]
    del known[FORECASTS_MAX:]
    if queue.idle > figures.idle and all(row.number in ours for row in rows):
        hidden = {n: Wait(claim=ClaimId(ours[n].row.claim), source=HIDDEN) for n in known}
        return hidden, ()
    queue.lose(max(0, queue.idle - figures.idle))  # what is neither idle nor in use is closed
    _book(queue, booked, now)
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


def holes(
    rows: Sequence[QueueRow],
    claims: Iterable[TrackedClaim],
    figures: Figures,
    booked: Iterable[Booking] = (),
    now: float = 0.0,
) -> tuple[Hole, ...]:
    """Return the processors that are idle for short claims, while other jobs wait. No job that
    waits is taken to be delayed; where a site hides the jobs of others nothing is known."""
    ours = {claim.row.number: claim for claim in claims}
    if figures.planned or not figures.idle:
        return ()
    queue: ConservativeQueue[str] = ConservativeQueue(processors=max(1, figures.processors))
    gated = {number for number, claim in ours.items() if claim.row.is_gated}
    _fill(queue, [row for row in _of_our_nodes(rows, ours, figures) if row.number not in gated])
    queue.lose(max(0, queue.idle - figures.idle))
    _book(queue, booked, now)
    return holes_of(queue)


def _of_our_nodes(
    rows: Sequence[QueueRow], ours: Collection[str], figures: Figures
) -> list[QueueRow]:
    """Return the jobs that run on our nodes, as far as they do, or wait for some of them."""
    if figures.waiting is None:
        return list(rows)
    waiting = {row.number for row in figures.waiting}
    found = []
    for row in rows:
        if not row.is_running:
            found += [row] if row.number in waiting or row.number in ours else []
        elif row.nodes is None or row.nodes <= figures.idle_at.keys():
            found.append(row)
        elif here := row.nodes & figures.idle_at.keys():
            share = row.processors * len(here) // len(row.nodes)
            found.append(replace(row, processors=share))
    return found


def _fill(queue: LocalQueue[str], rows: Iterable[QueueRow]) -> None:
    for row in rows:
        if row.is_running:
            if 0 < row.processors <= queue.idle:
                queue.occupy(row.number, processors=row.processors, until=row.left_s)
        elif 0 < row.processors <= queue.processors:
            queue.submit(row.number, processors=row.processors, estimate_s=row.left_s)


def _book(queue: LocalQueue[str], booked: Iterable[Booking], now: float) -> None:
    """Book as the batch system has; one that began, or meets a job of unknown length, may fail."""
    for booking in booked:
        if not booking.processors:
            continue
        queue.book(
            f"booking {booking.number}",
            processors=booking.processors,
            begin=max(0.0, booking.begins_at - now),
            end=booking.ends_at - now,
            now=0.0,
        )
