"""Scans of one queue in the order that a function of each job gives."""

from __future__ import annotations

from heapq import nsmallest
from math import inf

from koala.common.protocol.ordering import QueuedJob, in_order
from koala.core.model.allowances import NO_LIMITS, Payer, payers_of
from koala.core.model.job import Job
from koala.core.model.placement_queues import GLOBAL, queued_at
from koala.core.model.values import Instant, JobId, Priority, QueueName
from koala.core.pipeline.placing import reserves_for_aged, try_to_place
from koala.core.pipeline.queue_entry import admit
from koala.core.policy_api import Ordering
from koala.core.queries import grid_view_of
from koala.core.state import State

VISITED_MAX = 200
"""Jobs that one scan visits, the first in the order: the journal keeps the order of each scan."""


class OrderedScanner:
    """Discipline of one queue whose jobs are tried in the order of its policy."""

    def queues(self, _state: State) -> tuple[QueueName, ...]:
        """Return the global queue."""
        return (GLOBAL,)

    def queue_for(self, _state: State, _job: Job) -> QueueName:
        """Return the global queue."""
        return GLOBAL

    def try_arrived(self, state: State, job: Job, now: Instant) -> None:
        """Try the job at once; later scans try it again."""
        try_to_place(state, job, grid_view_of(state), now)
        admit(state, now)

    def scan(self, state: State, now: Instant, *, is_whole: bool) -> None:
        """Scan once an interval, as the paper's discipline; or until a scan places nothing or has
        visited all jobs. While the grid has not changed, only jobs that were queued since have a
        new chance."""
        while self._scan(state, now, is_whole=is_whole) and not state.is_paced:
            pass

    def _scan(self, state: State, now: Instant, *, is_whole: bool) -> bool:
        """Try the first jobs in order, aged ones before; return True if jobs that were not visited
        may have a chance, too."""
        placed = 0
        aged = {job.id: job for job in state.queues.aged(now, state.parameters.ageing_s)}
        jobs = state.queues.jobs(GLOBAL) if is_whole or aged else tuple(state.fresh.values())
        others = {job.id: job for job in jobs if job.queue == GLOBAL and job.id not in aged}
        first = _ordered(state, others, now) if others else []
        view = grid_view_of(state)
        for job in (*aged.values(), *first):
            if try_to_place(state, job, view, now):
                placed += 1
                continue
            if job.has_ended:
                continue
            if job.id in aged and reserves_for_aged(state, job, now):
                break
        admit(state, now)
        return placed > 0 and len(first) < len(others)

    def explain(self, state: State, job: Job, _now: Instant) -> list[str]:
        """Describe the length of the queue and its order."""
        queued = len(state.queues.jobs(GLOBAL))
        return [f"one of {queued} in the queue, which is ordered by {state.queues.discipline}"]


def _ordered(state: State, jobs: dict[JobId, Job], now: Instant) -> list[Job]:
    """Ask the policy for the order of the first jobs; it is recorded as their ids."""

    def ask() -> str:
        policy = state.policies.queueing
        assert isinstance(policy, Ordering), policy
        held: dict[Payer, int] = {}
        for claim in state.ledger.values():
            for payer in payers_of(state.jobs[claim.job].spec):
                held[payer] = held.get(payer, 0) + claim.processors
        queued = {name: _queued(state, job, held, now) for name, job in jobs.items()}
        if len(queued) > VISITED_MAX:
            keys = {name: policy.order(order) for name, order in queued.items()}
            first = nsmallest(VISITED_MAX, queued, key=keys.__getitem__)
            queued = {name: queued[name] for name in first}
        return " ".join([*in_order(queued, policy.order)])

    answer = state.recorder.ask(ask)
    assert isinstance(answer, str), answer
    return [jobs[JobId(name)] for name in answer.split()]


def _queued(state: State, job: Job, held: dict[Payer, int], now: Instant) -> QueuedJob:
    user, *groups = payers_of(job.spec)
    limits = [inf if c.wall_time_s is None else c.wall_time_s for c in job.spec.components]
    return QueuedJob(
        user=job.spec.owner,
        processors=job.processors,
        components=len(job.spec.components),
        estimate_s=max(limits),
        waited_s=now - queued_at(job),
        priority=int(job.spec.priority is Priority.HIGH),
        held=held.get(user, 0),
        group=job.spec.group,
        group_held=held.get(groups[0], 0) if groups else None,
        shares=state.allowances.get(user, NO_LIMITS).shares,
        group_shares=state.allowances.get(groups[0], NO_LIMITS).shares if groups else 1.0,
    )
