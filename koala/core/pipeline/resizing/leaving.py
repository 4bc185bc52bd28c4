"""Components of a malleable job that give way, and the world that the running ones are told.

A component is asked to give way within a time. It does so by ending, however it ends; after the
time its claim is stopped. Neither is a failure. Each change of the job's components has a number,
and the running ones are told the whole world with it. It is told again to a site that comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.job import Attempt, ClaimEnd, Job, Member, Running
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.ending import drop_member, finish_if_over
from koala.core.pipeline.wanted import is_told, resize_claim
from koala.core.queries import claims_of, describe
from koala.core.state import State


def tell_world(state: State, attempt: Attempt) -> None:
    """Tell all running components of a malleable job its new world."""
    job = state.jobs[attempt.job]
    if not job.spec.is_malleable or not isinstance(job.phase, Running):
        return
    attempt.resizes += 1
    for claim in claims_of(state, attempt.present):
        if is_told(attempt, claim):
            state.actions.append(resize_claim(state, attempt, claim))


def note_resize(state: State, attempt: Attempt, now: Instant) -> None:
    """Note that a job was resized; its next turn comes with a scan after the pause."""
    attempt.resized_at = now
    state.timers.set(now + state.parameters.resize_step_s, TimerKind.SCAN)


def ask_to_leave(
    state: State, attempt: Attempt, components: Sequence[int], reason: str, now: Instant
) -> None:
    """Ask components to give way; they are stopped after the time that they have for it."""
    job = state.jobs[attempt.job]
    leave_s = state.parameters.give_way_s
    for component in components:
        member = attempt.members[component]
        member.leave_s, member.leave_at = leave_s, now + leave_s
        named = f"component {describe(job, member)}"
        state.announce(job, f"{named} is asked to give way: {reason}", now)
    note_resize(state, attempt, now)
    state.timers.set(now + leave_s, TimerKind.RESIZE, job.id)
    tell_world(state, attempt)


def leaving_members(attempt: Attempt) -> list[Member]:
    """Return the members that were asked to give way and still run."""
    return [m for m in attempt.present if m.leave_at is not None and m.end is None]


def stop_overdue(state: State, attempt: Attempt, now: Instant) -> None:
    """Stop the components that have not given way in time."""
    for member in leaving_members(attempt):
        if member.leave_at is not None and member.leave_at <= now:
            note_resize(state, attempt, now)
            drop_member(state, attempt, member, "it did not give way in time", now)


def on_left(state: State, attempt: Attempt, member: Member, end: ClaimEnd, now: Instant) -> None:
    """Let the job go on without a component that gave way."""
    member.end = end
    note_resize(state, attempt, now)
    drop_member(state, attempt, member, f"it gave way ({end.describe()})", now)
    finish_if_over(state, attempt, now)


def processors_of(job: Job, members: Sequence[Member]) -> int:
    """Return the processors of these members together."""
    return sum(job.spec.components[member.component].processors for member in members)
