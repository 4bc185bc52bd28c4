"""Pre-flight: starters try the TCP paths that the job needs before the barrier is armed.

It finds a closed path (a firewall, a wrong address, a port in use) before a program starts. A
closed path is not an error of a site, because either end or the network between them may be the
cause. The job is placed again later, and fails after a few attempts: a closed path opens rarely,
and each attempt holds processors.
"""

from __future__ import annotations

from koala.core.model import events as ev
from koala.core.model.job import Job, Member, Starting
from koala.core.model.tcp_paths import has_paths
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.ending import fail, set_back
from koala.core.pipeline.wanted import try_paths
from koala.core.queries import barrier_members, member_of
from koala.core.state import State


def paths_are_open(state: State, job: Job, now: Instant) -> bool:
    """Return True if all paths were tried successfully. Starts the test on the first call; sets the
    job back after a timeout.
    """
    attempt = job.attempt
    if attempt is None or not has_paths(job.spec):
        return True
    if attempt.untried is None:
        _begin(state, job, now)
    waiting = untried_members(state, job)
    if waiting and now >= attempt.tried_by:
        labels = ", ".join(job.spec.label(member.component) for member in waiting)
        _block(state, job, f"no answer from {labels}", now)
    return not waiting


def untried_members(state: State, job: Job) -> list[Member]:
    """Members that have not reported the test of their paths yet."""
    assert job.attempt is not None
    untried = job.attempt.untried or ()
    return [member for member in barrier_members(state, job) if member.claim in untried]


def _begin(state: State, job: Job, now: Instant) -> None:
    attempt = job.attempt
    assert attempt is not None
    attempt.untried = []
    attempt.tried_by = now + 2 * state.parameters.paths_limit_s
    for member in barrier_members(state, job):
        assert member.claim is not None
        action = try_paths(state, state.ledger[member.claim])
        if action.listens or action.targets:
            attempt.untried.append(member.claim)
            state.actions.append(action)
    state.timers.set(attempt.tried_by, TimerKind.PATHS, job.id)


def on_tried(state: State, event: ev.PathsTried, now: Instant) -> Job | None:
    """Handle the answer of a starter; return the job if its start may advance."""
    claim = state.ledger.get(event.claim)
    found = member_of(state, claim) if claim is not None else None
    if found is None:
        return None
    job = found[0]
    untried = job.attempt.untried if job.attempt is not None else None
    if not isinstance(job.phase, Starting) or untried is None or event.claim not in untried:
        return None
    if event.problem:
        _block(state, job, event.problem, now)
        return None
    untried.remove(event.claim)
    return job


def _block(state: State, job: Job, problem: str, now: Instant) -> None:
    job.blocked += 1
    reason = f"pre-flight: {problem}"
    if job.blocked >= state.parameters.blocked_max:
        fail(state, job, f"{reason}; {job.blocked} attempts ended so", now)
        return
    job.not_before = now + state.parameters.scan_interval_s
    set_back(state, job, reason, now)
