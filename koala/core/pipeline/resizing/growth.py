"""Growth: components join a running malleable job at a barrier of their own.

    claims asked -> all granted -> armed -> released -> passed: the others are told

One growth of a job is under way at a time. What fails of it is dropped, and the rest goes on: the
running components take no notice. Each claim has its lease and fence as any other. The barrier has
one release, which is durable before it is sent, and no component passes it without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from koala.core.model import events as ev
from koala.core.model.claim import Armed, Asked, Claim, Granted
from koala.core.model.grid import Assignment
from koala.core.model.job import (
    Arming,
    Attempt,
    ClaimEnd,
    EndKind,
    Growth,
    Member,
    Release,
    Running,
)
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant
from koala.core.pipeline.claiming import make_claim
from koala.core.pipeline.copying import assign_member
from koala.core.pipeline.ending import drop_member, finish_if_over
from koala.core.pipeline.refusals import note_refusal
from koala.core.pipeline.resizing.leaving import note_resize, on_left, stop_overdue, tell_world
from koala.core.pipeline.start_barrier import (
    ARMED_AHEAD,
    arm_expires_at,
    begin_arming,
    choose_release_at,
    note_armed,
    release_claims,
    release_lead_s,
    send_arms,
)
from koala.core.pipeline.wanted import peers_of
from koala.core.queries import claim_of, claims_of, describe, is_held, member_of
from koala.core.state import State


def grow(state: State, attempt: Attempt, added: Sequence[Assignment], now: Instant) -> None:
    """Claim further components of a running job, at these sites and with these processors."""
    job = state.jobs[attempt.job]
    first = len(attempt.members)
    job.respecify(job.spec.grown([assignment.processors for assignment in added]))
    components = tuple(range(first, first + len(added)))
    attempt.growth = Growth(components=components)
    note_resize(state, attempt, now)
    for component, assignment in zip(components, added, strict=True):
        start_type = job.spec.components[component].start_type
        member = Member(component=component, site=None, start_type=start_type)
        attempt.members.append(member)
        assign_member(state, attempt, member, replace(assignment, component=component), now)
        grown = f"component {describe(job, member)} ({assignment.processors})"
        state.announce(job, f"grows by {grown}", now)
        make_claim(state, attempt, member, now)
        if member.claim is None:
            drop_member(state, attempt, member, member.refusal, now)
    state.recount(job, attempt)
    advance_growth(state, attempt, now)


def advance_growth(state: State, attempt: Attempt, now: Instant) -> None:
    """Take the next step of a growth: wait for its claims and files, arm, or end it."""
    growth = attempt.growth
    job = state.jobs[attempt.job]
    if growth is None or not isinstance(job.phase, Running):
        return
    joining = attempt.joining
    if not joining:
        attempt.growth = None
        if any(attempt.members[component].passed_at for component in growth.components):
            tell_world(state, attempt)
        state.request_scan()
        return
    if growth.release is not None:
        return
    _drop_unanswered(state, attempt, joining, now)
    left = attempt.joining
    if len(left) < len(joining):
        advance_growth(state, attempt, now)
    elif all(is_held(state, member) and not member.lacks_file for member in left):
        _arm_when_due(state, attempt, growth, left, now)


def _drop_unanswered(state: State, attempt: Attempt, joining: list[Member], now: Instant) -> None:
    """Drop the components whose sites have not answered within the grace time."""
    for member in joining:
        claim = claim_of(state, member)
        if claim is None or not isinstance(claim.phase, Asked):
            continue
        if claim.grace_until > now:
            state.timers.set(claim.grace_until, TimerKind.RESIZE, attempt.job)
        else:
            drop_member(state, attempt, member, "not started within the grace time", now)


def _arm_when_due(
    state: State, attempt: Attempt, growth: Growth, joining: list[Member], now: Instant
) -> None:
    """Arm the components that join, again if a round was not answered in time."""
    job = state.jobs[attempt.job]
    if growth.arming is not None and now < arm_expires_at(state, growth.arming):
        return
    if growth.arms >= state.parameters.arms_max:
        for member in joining:
            drop_member(state, attempt, member, f"not armed in {growth.arms} rounds", now)
        advance_growth(state, attempt, now)
        return
    claims = claims_of(state, joining)
    lead_s = release_lead_s(state, joining, round_trips=ARMED_AHEAD, arms=growth.arms)
    arming = begin_arming(state, claims, now + lead_s, now)
    attempt.growth = replace(growth, arms=growth.arms + 1, arming=arming)
    peers = peers_of(state, job, claims_of(state, [*attempt.world, *joining]))
    send_arms(state, arming, claims, peers, lead_s + state.parameters.late_max_s)
    state.timers.set(arm_expires_at(state, arming), TimerKind.RESIZE, job.id)


def on_resize_due(state: State, attempt: Attempt, now: Instant) -> None:
    """Handle the timer of a resize: stop who has not given way, and arm or end a growth."""
    stop_overdue(state, attempt, now)
    advance_growth(state, attempt, now)


def on_growth_granted(state: State, event: ev.ClaimGranted, now: Instant) -> None:
    """Go on with the growth of a component that was granted."""
    if (attempt := _growing(state, event)) is not None:
        advance_growth(state, attempt, now)


def on_growth_armed(state: State, event: ev.ClaimArmed, now: Instant) -> None:
    """Record the promise of a component that joins; release all once the last one has armed."""
    attempt, claim = _growing(state, event), state.ledger.get(event.claim)
    if attempt is None or claim is None:
        return
    match attempt.growth:
        case Growth(release=None, arming=Arming() as arming) as growth:
            if arming.number != event.number or claim.id not in arming.waiting:
                return
        case _:
            return
    arming = note_armed(claim, arming)
    attempt.growth = growth = replace(growth, arming=arming)
    if arming.waiting or now >= arm_expires_at(state, arming):
        return
    job, joining = state.jobs[attempt.job], attempt.joining
    decision = Release(number=arming.number, at=choose_release_at(state, job, arming, now))
    attempt.growth = replace(growth, release=decision)
    for member in joining:
        member.joined = decision
    release_claims(state, claims_of(state, joining), decision)


def on_growth_passed(state: State, event: ev.ClaimPassed, now: Instant) -> None:
    """End the growth once all that join have passed."""
    claim = state.ledger.get(event.claim)
    found = None if claim is None else member_of(state, claim)
    if found is not None:
        advance_growth(state, found[0], now)


def on_resize_gone(
    state: State, attempt: Attempt, member: Member, claim: Claim, end: ClaimEnd, now: Instant
) -> bool:
    """Apply the end of a component that was about to join or to leave; return True if it was."""
    if member in attempt.joining:
        if end.kind is EndKind.REFUSED:
            note_refusal(state, state.jobs[attempt.job], claim, end, now)
        lose_addition(state, attempt, member, end.describe(), now)
    elif member.leave_at is not None:
        on_left(state, attempt, member, end, now)
    else:
        return False
    return True


def lose_addition(
    state: State, attempt: Attempt, member: Member, reason: str, now: Instant
) -> None:
    """Go on without a component that has not joined; a round of Arm messages begins again."""
    drop_member(state, attempt, member, reason, now)
    growth = attempt.growth
    if growth is not None and growth.release is None:
        attempt.growth = replace(growth, arming=None)
    advance_growth(state, attempt, now)
    finish_if_over(state, attempt, now)


def _growing(state: State, event: ev.ClaimGranted | ev.ClaimArmed) -> Attempt | None:
    """Return the attempt that a claim joins, if it is about to."""
    claim = state.ledger.get(event.claim)
    found = None if claim is None else member_of(state, claim)
    if claim is None or found is None or not isinstance(claim.phase, Granted | Armed):
        return None
    attempt, member = found
    return attempt if member in attempt.joining else None
