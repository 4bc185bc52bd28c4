"""Scans of the high and the low queue in turn (KOALA 3.1)."""

from __future__ import annotations

from koala.core.model.job import Job
from koala.core.model.placement_queues import BY_PRIORITY, describe_queue
from koala.core.model.values import Instant, Priority, QueueName
from koala.core.pipeline.ending import admit
from koala.core.pipeline.placing import reserves_for_aged, try_to_place
from koala.core.policy_api import Scans
from koala.core.queries import grid_view_of
from koala.core.state import State


class Scanning:
    """Discipline that scans the high and low queue in the cycle of its policy."""

    def queues(self, _state: State) -> tuple[QueueName, ...]:
        """The high and the low queue."""
        return tuple(BY_PRIORITY.values())

    def queue_for(self, _state: State, job: Job) -> QueueName:
        """The queue of the job's priority."""
        return BY_PRIORITY[job.spec.priority]

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """Try the job at once; later scans try it again (KOALA 3.1)."""
        try_to_place(state, job, grid_view_of(state), now)
        admit(state, now)

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """Scan once an interval, as in the paper; or until S + 1 scans in a row placed nothing.

        While the grid has not changed, a job that did not fit still does not fit. Then only jobs
        queued since are visited, so that submitting to a long queue costs no more than to a short
        one.
        """
        if state.is_paced:
            scan(state, now, is_whole=is_whole)
            return
        idle_scans = 0
        while len(state.queues) and idle_scans <= state.parameters.high_scans_per_low:
            idle_scans = 0 if scan(state, now, is_whole=is_whole) else idle_scans + 1

    def explain(self, state: State, job: Job, _now: Instant) -> list[str]:
        """Describe the position of the job in its queue."""
        queue = state.queues.of(job)
        jobs = state.queues.jobs(queue)
        return [f"number {jobs.index(job) + 1} of {len(jobs)} in {describe_queue(queue)}"]


def scan(state: State, now: Instant, *, is_whole: bool) -> int:
    """Scan the next queue, aged jobs first; return the number of placed jobs. Unless it is whole,
    the scan visits only jobs that were not tried since they were queued.
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
    picture = grid_view_of(state)
    for job in (*aged.values(), *others):
        if try_to_place(state, job, picture, now):
            placed += 1
        elif job.id in aged and not job.is_over and reserves_for_aged(state, job, now):
            break
    admit(state, now)
    return placed


def next_priority(state: State) -> Priority:
    """Ask the policy if the high or the low queue is next."""
    scans, high_scans_per_low = state.queues.scans, state.parameters.high_scans_per_low
    state.queues.scans += 1

    def ask() -> str:
        policy = state.policies.queueing
        assert isinstance(policy, Scans), policy
        return policy.turn(scans, high_scans_per_low)

    return Priority(str(state.recorder.ask(ask)))
