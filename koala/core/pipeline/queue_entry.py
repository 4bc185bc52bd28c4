"""Entry of jobs into the placement queues: new ones, those that come back, and delayed ones."""

from __future__ import annotations

from koala.core.model.job import Delayed, Job, Placing
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.claiming_schedule import tries_left
from koala.core.state import State

TIMER_S_MAX = 3_600.0
"""Longest timer. One for a later instant fires earlier and is set again: timers are never
cancelled, and thousands of jobs with distant deadlines may be over and purged before."""


def enter_queue(state: State, job: Job, text: str, now: Instant) -> None:
    """Put a job into its placement queue and request a placement try."""
    state.enter(job, Placing(queued_at=now), text, now)
    enqueue(state, job)
    if job.deadline_at is None:
        state.request_try(job)
    else:
        await_try(state, job, now)


def enter_if_room(state: State, job: Job, text: str, now: Instant) -> None:
    """Enqueue a job that waited for others, or delay it while the queues are full."""
    if state.has_room:
        enter_queue(state, job, text, now)
        return
    state.enter(job, Delayed(), f"{text}; the placement queues are full", now)
    state.queues.delayed[job.id] = job


def enqueue(state: State, job: Job) -> None:
    """Append a job to its queue, or to the timed jobs, which no discipline visits."""
    if job.deadline_at is None:
        state.queues.append(job, state.scanner.queue_for(state, job))
    else:
        state.queues.timed[job.id] = job


def await_try(state: State, job: Job, now: Instant) -> None:
    """Set the timer of the next try of a job with a deadline (Deadlines 2.2). One with a file is
    also placed by scans, so that its file is copied early.
    """
    left = tries_left(state, job)
    if left:
        set_timer(state, job, TimerKind.TRY, left[0], now)
    if job.spec.all_inputs:
        state.request_scan()


def set_timer(state: State, job: Job, kind: TimerKind, at: Instant, now: Instant) -> None:
    """Set a timer that fires at this instant or before; its handler checks if it is due."""
    state.timers.set(min(max(now, at), now + TIMER_S_MAX), kind, job.id)


def admit(state: State, now: Instant) -> None:
    """Enqueue delayed submissions, in order, while there is room."""
    delayed = state.queues.delayed
    while delayed and len(state.queues) < state.parameters.queue_jobs_max:
        job = delayed.pop(next(iter(delayed)))
        enter_queue(state, job, "admitted to its placement queue", now)
