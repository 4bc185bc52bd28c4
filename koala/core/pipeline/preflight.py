"""Pre-flight: starters try the TCP paths that the job needs before the barrier is armed.

It finds a closed path (a firewall, a wrong address, a port in use) before a program starts. A
closed path is not an error of a site, because either end or the network between them may be the
cause. The job is placed again later, and fails after a few attempts: a closed path opens rarely,
and each attempt holds processors.
"""

from __future__ import annotations

from dataclasses import replace

from koala.core.model import events as ev
from koala.core.model.job import Job, Member, PathTests, Starting
from koala.core.model.tcp_paths import has_paths
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.ending import fail, set_back
from koala.core.pipeline.wanted import try_paths
from koala.core.queries import claims_of, member_of
from koala.core.state import State


def with_open_paths(state: State, starting: Starting, now: Instant) -> Starting | None:
    """Return the phase once all paths were tried successfully, else None. Starts the tests on the
    first call; sets the job back after a timeout.
    """
    job = state.jobs[starting.attempt.job]
    if not has_paths(job.spec):
        return starting
    if starting.tests is None:
        starting = _begin(state, job, starting, now)
    waiting = untried_members(starting)
    if waiting and starting.tests is not None and now >= starting.tests.due_at:
        labels = ", ".join(job.spec.label(member.component) for member in waiting)
        _block(state, starting, f"no answer from {labels}", now)
    return None if waiting else starting


def untried_members(starting: Starting) -> list[Member]:
    """Members that have not reported the test of their paths yet."""
    untried = starting.tests.waiting if starting.tests is not None else ()
    return [member for member in starting.attempt.at_barrier if member.claim in untried]


def _begin(state: State, job: Job, starting: Starting, now: Instant) -> Starting:
    asked = [
        action
        for claim in claims_of(state, starting.attempt.at_barrier)
        if (action := try_paths(state, starting.attempt, claim)).listens or action.targets
    ]
    state.actions.extend(asked)
    waiting = tuple(action.claim for action in asked)
    tests = PathTests(waiting=waiting, due_at=now + 2 * state.parameters.paths_limit_s)
    state.timers.set(tests.due_at, TimerKind.PATHS, job.id)
    starting = replace(starting, tests=tests)
    state.enter(job, starting, "", now)
    return starting


def on_tried(state: State, event: ev.PathsTried, now: Instant) -> Starting | None:
    """Handle the answer of a starter; return the phase of the job if its start may advance."""
    claim = state.ledger.get(event.claim)
    found = member_of(state, claim) if claim is not None else None
    if found is None:
        return None
    job = state.jobs[found[0].job]
    match job.phase:
        case Starting(tests=PathTests() as tests) as starting if event.claim in tests.waiting:
            if event.problem:
                _block(state, starting, event.problem, now)
                return None
            waiting = tuple(one for one in tests.waiting if one != event.claim)
            starting = replace(starting, tests=replace(tests, waiting=waiting))
            state.enter(job, starting, "", now)
            return starting
        case _:
            return None


def _block(state: State, starting: Starting, problem: str, now: Instant) -> None:
    job = state.jobs[starting.attempt.job]
    job.blocked += 1
    reason = f"pre-flight: {problem}"
    if job.blocked >= state.parameters.blocked_max:
        fail(state, job, f"{reason}; {job.blocked} attempts ended so", now)
        return
    job.not_before = now + state.parameters.scan_interval_s
    set_back(state, starting.attempt, reason, now)
