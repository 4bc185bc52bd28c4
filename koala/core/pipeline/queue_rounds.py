"""Rounds over the heads of several queues of the live state (Multiple queues 2.5).

- A departure of the paper is here any change that may let a job be placed: more idle processors, a
  reconnected site, a job that is queued again.
- "Starts" in the paper means "is placed" here.
- A head is skipped while it pauses after a setback, or if the usable sites could not take it even
  when idle.
"""

from __future__ import annotations

from collections.abc import Iterator

from koala.core.model.grid import GridView, Unplaceable
from koala.core.model.job import Job
from koala.core.model.placement_queues import GLOBAL, JobQueue, describe_queue, queued_at
from koala.core.model.values import Instant, QueueName, Seconds
from koala.core.model.visiting import Discipline, LocalJobs, Visiting, draw_of
from koala.core.pipeline.placement_requests import whole_request
from koala.core.pipeline.placing import (
    CapacityCheck,
    reserves_for_aged,
    try_to_place,
)
from koala.core.pipeline.queue_entry import admit
from koala.core.pipeline.refusals import sites_closed_to
from koala.core.queries import grid_view_of, placement_policy
from koala.core.state import State

NO_JOBS: JobQueue = {}


class RoundsScanner:
    """Discipline of a global queue and one for each site, visited in rounds."""

    def queues(self, state: State) -> tuple[QueueName, ...]:
        """Return the global queue, and those of the known sites."""
        return (GLOBAL, *(QueueName(site) for site in state.sites))

    def queue_for(self, state: State, job: Job) -> QueueName:
        """Return the queue that the policy chooses."""
        queue = state.recorder.ask(lambda: choose_queue(state, job))
        assert isinstance(queue, str), queue
        return QueueName(queue)

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """Try the job if it is the head of an enabled and permitted queue."""
        state.fresh.pop(job.id, None)
        queue, capacity = state.queues.of(job), CapacityCheck(state)
        if head_of(state, queue, capacity, now) is not job or queue in state.queues.disabled:
            return

        def ask() -> QueueName | None:
            return queue if visiting(state, capacity, now).permits(queue) else None

        if state.recorder.ask(ask) is not None:
            try_head(state, queue, capacity, grid_view_of(state), now)
            admit(state, now)

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """Visit all queues after a change, else only those that jobs have joined."""
        fresh = [job for job in state.fresh.values() if job.not_before <= now]
        has_aged = state.queues.has_aged(now, state.parameters.ageing_s)
        if is_whole or has_aged or any(job.attempts for job in fresh):
            for job in fresh:
                del state.fresh[job.id]
            visit(state, now)
        else:
            for job in fresh:
                self.try_arrived(state, job, now)
        admit(state, now)

    def explain(self, state: State, job: Job, now: Instant) -> list[str]:
        """Describe the job's position, the blocked head of its queue, and a missing permission."""
        queue, capacity = state.queues.of(job), CapacityCheck(state)
        jobs = state.queues.jobs(queue)
        number = jobs.index(job)
        lines = [
            f"number {number + 1} of {len(jobs)} in {describe_queue(queue)}"
            f" ({state.queues.discipline})"
        ]
        head = head_of(state, queue, capacity, now)
        if not capacity.can_take(job):
            lines.append("passed over: no usable site could take it, were all of it idle")
        elif head is not None and head is not job:
            why_not = (
                describe_head(state, head, now)
                if head.spec.owner == job.spec.owner
                else "the head of the queue is another user's"  # whose sites may be hidden from it
            )
            lines.append(f"{number} jobs before it; {why_not}")
        policy = state.policies.queueing
        if isinstance(policy, Discipline) and not visiting(state, capacity, now).permits(queue):
            lines.append(f"no turn now: {policy.rule}")
        return lines


def choose_queue(state: State, job: Job) -> QueueName:
    """Choose the queue of a job. Local queues get the jobs that are submitted there or can only run
    there. With local queues alone, any other job joins the shortest one of a site that is large
    enough."""
    policy = state.policies.queueing
    if not isinstance(policy, Discipline):
        return GLOBAL  # another discipline follows, and sorts all jobs again
    spec = job.spec
    is_single = spec.is_single
    asked = spec.queue or (spec.components[0].site if is_single else None)
    if not policy.is_local(1 if is_single else max(2, len(spec.components))):
        return GLOBAL
    if asked is not None:
        return QueueName(asked)
    if policy.local_jobs is LocalJobs.SINGLE:
        return GLOBAL
    lengths = {
        site.name: len(state.queues.jobs(QueueName(site.name)))
        for site in state.sites.values()
        if site.facts.admits(spec.owner)
        and (not is_single or site.facts.processors >= spec.largest)
    }
    return QueueName(min(lengths, key=lengths.__getitem__)) if lengths else GLOBAL


def visit(state: State, now: Instant) -> None:
    """Enable all queues after a departure and visit them in rounds."""
    queues = state.queues
    before, released = tuple(queues.disabled), tuple(queues.freed)
    queues.disabled.clear()
    queues.freed.clear()
    queues.departures += 1
    draw = draw_of(queues.departures)
    rounds: list[Iterator[QueueName]] = []  # begun when the policy is asked: not in a replay

    def ask() -> QueueName | None:
        if not rounds:
            sites = [QueueName(site) for site in released]
            rounds.append(visiting(state, capacity, now).rounds(before, sites, draw))
        return next(rounds[0], None)

    capacity, view = CapacityCheck(state), grid_view_of(state)
    while (queue := state.recorder.ask(ask)) is not None:
        assert isinstance(queue, str), queue
        stuck = try_head(state, QueueName(queue), capacity, view, now)
        if stuck is not None and reserves_for_aged(state, stuck, now):
            return


def try_head(
    state: State, queue: QueueName, capacity: CapacityCheck, view: GridView, now: Instant
) -> Job | None:
    """Place the head of a queue, or disable the queue and return the head that does not fit."""
    head = head_of(state, queue, capacity, now)
    if head is not None and (try_to_place(state, head, view, now) or head.has_ended):
        return None
    state.queues.disabled[queue] = None
    return head


def head_of(state: State, queue: QueueName, capacity: CapacityCheck, now: Instant) -> Job | None:
    """Return the first job of a queue that may be tried now."""
    for job in state.queues.lines.get(queue, NO_JOBS).values():
        if job.not_before <= now and capacity.can_take(
            job, tuple(sites_closed_to(state, job, now))
        ):
            return job
    return None


def visiting(state: State, capacity: CapacityCheck, now: Instant) -> Visiting[QueueName]:
    """Make the queues as the discipline sees them; one without a job to try counts as empty."""
    names = [name for name in state.queues.lines if name != GLOBAL]
    local = sorted({*names, *(QueueName(site) for site in state.sites)})
    lines = state.queues.lines
    seen = {
        name: lines[name] if head_of(state, name, capacity, now) is not None else NO_JOBS
        for name in (*local, GLOBAL)
    }

    def waited_s(queue: QueueName) -> Seconds:
        head = head_of(state, queue, capacity, now)
        return 0.0 if head is None else now - queued_at(head)

    policy = state.policies.queueing
    assert isinstance(policy, Discipline), policy
    return Visiting(
        policy,
        seen,
        local=tuple(local),
        common=(GLOBAL,),
        disabled=state.queues.disabled,
        waited_s=waited_s,
        ageing_s=state.parameters.ageing_s,
    )


def describe_head(state: State, head: Job, now: Instant) -> str:
    """Describe the obstacle that keeps the head of a queue from being placed."""
    answer = placement_policy(state, head)(whole_request(state, head, now), grid_view_of(state))
    if not isinstance(answer, Unplaceable):
        return f"its head {head.id} has not been tried since something changed"
    split = head.spec.split
    size = head.spec.components[answer.component].processors
    asked = f"{size} processors" if split is None else split.describe()
    return f"its head {head.id} does not fit: {asked}, and {answer.reason}"
