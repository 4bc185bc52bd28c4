"""Submissions into the placement queues, and the times of scans (KOALA 3.1)."""

from __future__ import annotations

from koala.core.model import events as ev
from koala.core.model.job import Delayed, Job, Placing
from koala.core.model.placement_queues import queued_at
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.model.visiting import Discipline
from koala.core.pipeline.claiming_schedule import missed_at
from koala.core.pipeline.ending import await_try, enqueue, set_timer
from koala.core.pipeline.placing import place_timed
from koala.core.pipeline.rounds import Rounds
from koala.core.pipeline.scanning import Scanning
from koala.core.state import QueueScanner, State

SCANS, ROUNDS = "scans", "rounds"
SCANNERS: dict[str, QueueScanner] = {SCANS: Scanning(), ROUNDS: Rounds()}
"""Kinds of disciplines; a replay selects one by the recorded answer."""


def adopt_discipline(state: State) -> None:
    """Adopt the configured queue discipline at a start of the daemon. Jobs in the queues of another
    discipline move to the new queues, the longest waiting first."""

    def ask() -> str:
        policy = state.policies.queueing
        return f"{ROUNDS if isinstance(policy, Discipline) else SCANS} {policy.name}"

    answer = state.recorder.ask(ask)
    assert isinstance(answer, str), answer
    kind, _, name = answer.partition(" ")
    state.turns = SCANNERS[kind]
    if name == state.queues.discipline:
        return
    jobs = state.queues.regroup(name, state.turns.queues(state))
    order = {job: number for number, job in enumerate(state.jobs)}
    for job in sorted(jobs, key=lambda job: (queued_at(job), order[job.id])):
        state.queues.append(job, state.turns.queue_for(state, job))
        state.ask_scan()


def on_submitted(state: State, event: ev.JobSubmitted, now: Instant) -> None:
    if event.job in state.jobs:
        return
    has_room = state.has_room
    job = Job(
        id=event.job,
        spec=event.spec,
        submitted_at=now,
        phase=Placing(queued_at=now) if has_room else Delayed(),
        claim_fraction=state.parameters.claim_fraction,
    )
    state.jobs[job.id] = job
    if event.key:
        state.keys[event.key] = (job.id, event.digest)
    if job.deadline_at is not None:
        set_timer(state, job, TimerKind.MISS, missed_at(state, job), now)
    if not has_room:
        state.queues.delayed[job.id] = job
        state.announce(job, "delayed: the placement queues are full", now)
        return
    state.announce(job, f"submitted, {event.spec.priority.value} priority", now)
    enqueue(state, job)
    if job.deadline_at is not None:
        await_try(state, job, now)
    elif state.is_paced:
        state.turns.try_arrived(state, job, now)
    else:
        state.ask_scan_for(job)


def on_scan_due(state: State, now: Instant) -> None:
    """Scan the queues. With the paper's setting, this is once an interval. Live, it is after a
    change, and at least once an interval for changes without an event (ageing, budgets).
    """
    state.is_scan_set = False
    is_overdue = state.rescan_at <= now
    is_whole = state.is_grid_changed or state.is_paced or is_overdue
    place_timed(state, now)
    state.is_grid_changed = False
    if state.is_paced or len(state.queues):
        state.turns.scan(state, now, is_whole=is_whole)
    if len(state.queues) and is_overdue and not state.is_paced:
        state.rescan_at = now + state.parameters.scan_interval_s
        state.timers.set(state.rescan_at, TimerKind.SCAN)
