"""Dependencies of jobs (`after`): jobs that wait for others are outside the placement queues.

Admission lets in only known predecessors, and none that has ended otherwise than asked, so waits
have no cycles. A job that is not in the state, or is over, is waited for no more: the decision is
the same whether or not the job was purged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from koala.core.model.job import Cancelled, Finished, Job, Waiting
from koala.core.model.job_spec import JobSpec
from koala.core.model.predecessors import Ended, unmet_dependency
from koala.core.model.values import Instant, JobId
from koala.core.pipeline.queue_entry import enter_if_room
from koala.core.state import State


def unfinished_predecessors(state: State, spec: JobSpec) -> tuple[JobId, ...]:
    """Return the predecessors of a submitted job that are not over yet."""
    if not spec.after:
        return ()
    known = (state.jobs.get(predecessor.job) for predecessor in spec.after)
    return tuple(job.id for job in known if job is not None and not job.has_ended)


def add_dependencies(state: State, job: Job, waiting: Waiting) -> None:
    """Register a job with those that it waits for."""
    for before in waiting.on:
        state.successors.setdefault(before, {})[job.id] = None


def remove_dependencies(state: State, job: Job) -> None:
    """Remove a job from the successors of those that it waits for, if it does."""
    for before in job.phase.on if isinstance(job.phase, Waiting) else ():
        waiting = state.successors.get(before, {})
        waiting.pop(job.id, None)
        if not waiting:
            state.successors.pop(before, None)


def resolve_successors(state: State, ended: Job, now: Instant) -> None:
    """Let the jobs go on that waited for this one, or cancel them and, in turn, their own
    successors. Chains may be long, so this is no recursion."""
    over = deque([ended])
    while over:
        before = over.popleft()
        has_succeeded = isinstance(before.phase, Finished)
        for name in tuple(state.successors.get(before.id, ())):
            job = state.jobs[name]
            assert isinstance(job.phase, Waiting), job.story
            condition = {p.job: p.ended for p in job.spec.after}[before.id]
            if has_succeeded or condition is Ended.ANY:
                _go_on(state, job, job.phase, before.id, now)
                continue
            remove_dependencies(state, job)
            reason = unmet_dependency(before.id, before.phase_name)
            state.enter(job, Cancelled(at=now, reason=reason), reason, now)
            over.append(job)
        state.successors.pop(before.id, None)


def _go_on(state: State, job: Job, waiting: Waiting, before: JobId, now: Instant) -> None:
    """Remove an ended predecessor; after the last one the job enters its placement queue."""
    left = tuple(predecessor for predecessor in waiting.on if predecessor != before)
    if left:
        state.enter(job, replace(waiting, on=left), "", now)
    else:
        enter_if_room(state, job, f"{before} has ended, the last job that it waited for", now)
