"""Submissions into the placement queues, and scans of the high and the low queue in turn (KOALA
3.1). Rounds over other queues are in `rounds`.
"""

from __future__ import annotations

from koala.core.model import events as ev
from koala.core.model.job import Delayed, Job, Placing, Waiting
from koala.core.model.placement_queues import BY_PRIORITY, describe_queue, queued_at, split_aged
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, Priority, QueueName
from koala.core.model.visiting import Discipline
from koala.core.pipeline.claiming_schedule import deadline_missed_at
from koala.core.pipeline.dependencies import add_dependencies, unfinished_predecessors
from koala.core.pipeline.ordered_scan import OrderedScanner
from koala.core.pipeline.placing import (
    move_to_idle_sites,
    place_timed,
    reserves_for_aged,
    try_to_place,
)
from koala.core.pipeline.queue_entry import admit, await_try, enqueue, set_timer
from koala.core.pipeline.queue_rounds import RoundsScanner
from koala.core.pipeline.resizing.managers import resize_after_scan, resize_before_scan
from koala.core.policy_api import HighLowScans, Ordering
from koala.core.queries import grid_view_of
from koala.core.state import QueueScanner, State


class HighLowScanner:
    """Discipline that scans the high and low queue in the cycle of its policy."""

    def queues(self, _state: State) -> tuple[QueueName, ...]:
        """Return the high and the low queue."""
        return tuple(BY_PRIORITY.values())

    def queue_for(self, _state: State, job: Job) -> QueueName:
        """Return the queue of the job's priority."""
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
    ageing_s = state.parameters.ageing_s
    aged = state.queues.aged(now, ageing_s)
    placed = 0
    queue = BY_PRIORITY[priority]
    if is_whole or aged:
        others = state.queues.jobs(queue)
        if aged:
            _, others = split_aged(others, now, ageing_s)
    else:
        others = tuple(job for job in state.fresh.values() if job.queue == queue)
    if not aged and not others:
        admit(state, now)
        return 0
    view = grid_view_of(state)
    for job in aged:
        if try_to_place(state, job, view, now):
            placed += 1
        elif not job.has_ended and reserves_for_aged(state, job, now):
            break
    else:
        for job in others:
            placed += try_to_place(state, job, view, now)
    admit(state, now)
    return placed


def next_priority(state: State) -> Priority:
    """Ask the policy if the high or the low queue is next."""
    scans, high_scans_per_low = state.queues.scans, state.parameters.high_scans_per_low
    state.queues.scans += 1

    def ask() -> str:
        policy = state.policies.queueing
        assert isinstance(policy, HighLowScans), policy
        return policy.turn(scans, high_scans_per_low)

    return Priority(str(state.recorder.ask(ask)))


SCANS = "scans"
SCANNERS: dict[str, QueueScanner] = {
    SCANS: HighLowScanner(),
    "rounds": RoundsScanner(),
    "sorted": OrderedScanner(),
}
KINDS: dict[type, str] = {HighLowScans: SCANS, Discipline: "rounds", Ordering: "sorted"}
"""Kinds of disciplines; a replay selects one by the recorded answer."""


def adopt_discipline(state: State) -> None:
    """Adopt the configured queue discipline at a start of the daemon. Jobs in the queues of another
    discipline move to the new queues, the longest waiting first."""

    def ask() -> str:
        policy = state.policies.queueing
        return f"{KINDS[type(policy)]} {policy.name}"

    answer = state.recorder.ask(ask)
    assert isinstance(answer, str), answer
    kind, _, name = answer.partition(" ")
    state.scanner = SCANNERS[kind]
    if name == state.queues.discipline:
        return
    jobs = state.queues.regroup(name, state.scanner.queues(state))
    order = {job: number for number, job in enumerate(state.jobs)}
    for job in sorted(jobs, key=lambda job: (queued_at(job), order[job.id])):
        state.queues.append(job, state.scanner.queue_for(state, job))
        state.request_scan()


def on_submitted(state: State, event: ev.JobSubmitted, now: Instant) -> None:
    """Add a job to the state: queued, delayed while the queues are full, or behind its
    predecessors."""
    if event.job in state.jobs:
        return
    has_room = state.has_room
    waiting = Waiting(on=unfinished_predecessors(state, event.spec))
    job = Job(
        id=event.job,
        spec=event.spec,
        submitted_at=now,
        phase=waiting if waiting.on else Placing(queued_at=now) if has_room else Delayed(),
        claim_fraction=state.parameters.claim_fraction,
    )
    state.jobs[job.id] = job
    if event.key:
        state.keys[event.key] = (job.id, event.digest)
    if job.deadline_at is not None:
        set_timer(state, job, TimerKind.MISS, deadline_missed_at(state, job), now)
    if waiting.on:
        add_dependencies(state, job, waiting)
        awaited = ", ".join(p.describe() for p in job.spec.after if p.job in waiting.on)
        state.announce(
            job, f"submitted, {event.spec.priority.value} priority; waits for {awaited}", now
        )
        return
    if not has_room:
        state.queues.delayed[job.id] = job
        state.announce(job, "delayed: the placement queues are full", now)
        return
    state.announce(job, f"submitted, {event.spec.priority.value} priority", now)
    enqueue(state, job)
    if job.deadline_at is not None:
        await_try(state, job, now)
    elif state.is_paced:
        state.scanner.try_arrived(state, job, now)
    else:
        state.request_try(job)


def on_scan_due(state: State, now: Instant) -> None:
    """Scan the queues. With the paper's setting, this is once an interval. Live, it is after a
    change, and at least once an interval for changes without an event (ageing, budgets).
    """
    state.is_scan_set = False
    is_overdue = state.rescan_at <= now
    is_whole = state.is_grid_changed or state.is_paced or is_overdue
    place_timed(state, now)
    if state.has_tickets and state.is_grid_changed:
        move_to_idle_sites(state, now)
    state.is_grid_changed = False
    resize_before_scan(state, now)
    if state.is_paced or len(state.queues):
        state.scanner.scan(state, now, is_whole=is_whole)
    resize_after_scan(state, now)
    if len(state.queues) and is_overdue and not state.is_paced:
        state.rescan_at = now + state.parameters.scan_interval_s
        state.timers.set(state.rescan_at, TimerKind.SCAN)
