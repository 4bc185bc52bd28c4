"""Queues that are scanned whole, high and low in turn (KOALA 3.1)."""

from __future__ import annotations

from koala.core.model.job import Job
from koala.core.model.placement_queues import BY_PRIORITY, describe_queue
from koala.core.model.values import Instant, Priority, QueueName
from koala.core.pipeline.ending import admit
from koala.core.pipeline.placing import reserves_for_aged, try_to_place
from koala.core.policy_api import Scans
from koala.core.queries import picture_of
from koala.core.state import State


class Scanning:
    """High and low queue, in the cycle that the policy gives."""

    def queues(self, _state: State) -> tuple[QueueName, ...]:
        """High, low."""
        return tuple(BY_PRIORITY.values())

    def queue_for(self, _state: State, job: Job) -> QueueName:
        """By its priority."""
        return BY_PRIORITY[job.spec.priority]

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """Tried at once, then at each scan (KOALA 3.1)."""
        try_to_place(state, job, picture_of(state), now)
        admit(state, now)

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """One scan an interval, as in the paper; or scans until S + 1 in a row placed nothing.

        While the grid has not changed, what could not be placed cannot be placed now either: then
        only the jobs queued since are visited: submitting to a long queue costs what a short one
        does.
        """
        if state.is_paced:
            scan(state, now, is_whole=is_whole)
            return
        idle_scans = 0
        while len(state.queues) and idle_scans <= state.parameters.high_scans_per_low:
            idle_scans = 0 if scan(state, now, is_whole=is_whole) else idle_scans + 1

    def explain(self, state: State, job: Job, _now: Instant) -> list[str]:
        """Its number in its queue."""
        queue = state.queues.of(job)
        jobs = state.queues.jobs(queue)
        return [f"number {jobs.index(job) + 1} of {len(jobs)} in {describe_queue(queue)}"]


def scan(state: State, now: Instant, *, is_whole: bool) -> int:
    """One scan of the queue whose turn it is, jobs that have aged first; how many were placed.
    Unless it is whole, it visits only jobs that were not tried since they were queued.
    """
    priority = next_priority(state)
    aged = {job.id: job for job in state.queues.aged(now, state.parameters.ageing_s)}
    placed = 0
    queue = BY_PRIORITY[priority]
    jobs = state.queues.jobs(queue) if is_whole or aged else tuple(state.fresh.values())
    others = [job for job in jobs if job.queue == queue and job.id not in aged]
    if not aged and not others:
        admit(state, now)
        return 0
    picture = picture_of(state)
    for job in (*aged.values(), *others):
        if try_to_place(state, job, picture, now):
            placed += 1
        elif job.id in aged and not job.is_over and reserves_for_aged(state, job, now):
            break
    admit(state, now)
    return placed


def next_priority(state: State) -> Priority:
    """Of the high or the low queue."""
    scans, high_scans_per_low = state.queues.scans, state.parameters.high_scans_per_low
    state.queues.scans += 1

    def ask() -> str:
        policy = state.policies.queueing
        assert isinstance(policy, Scans), policy
        return policy.turn(scans, high_scans_per_low)

    return Priority(str(state.recorder.ask(ask)))
