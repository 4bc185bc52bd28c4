"""The start barrier: arm, release, pass (design: Attempts, barrier and fence)."""

from __future__ import annotations

from dataclasses import replace

from koala.core.model import events as ev
from koala.core.model.actions import ArmClaim
from koala.core.model.claim import Armed, Asked, Granted, Passed, Released, Stopped
from koala.core.model.job import (
    Arming,
    ArmNumber,
    Job,
    Member,
    Releasing,
    Running,
    Starting,
    StartType,
    Stopping,
)
from koala.core.model.timeline import lead_s
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, Seconds
from koala.core.pipeline.ending import fail, finish_if_over, set_back, settle_hold
from koala.core.pipeline.preflight import on_tried, paths_are_open
from koala.core.pipeline.wanted import release_claim
from koala.core.queries import address_of, barrier_members, describe, member_of, starts_early
from koala.core.state import State
from koala.protocol.messages import Peer


def advance_start(state: State, job: Job, now: Instant) -> None:
    """Arm a fully claimed job once its files are there and its JST is near. If it may start early,
    its JST is the instant at which everything is there.
    """
    attempt = job.attempt
    assert attempt is not None
    members = barrier_members(state, job)
    if not members:
        state.enter(job, Running(since=now), "running without a barrier", now)
        finish_if_over(state, job, now)
        return
    is_open = paths_are_open(state, job, now)
    if not is_open or any(member.lacks_file for member in attempt.present):
        return
    if starts_early(state, job):
        attempt.start_at = min(attempt.start_at, now)
    lead = lead_over(state, members, arms=attempt.arms)
    if now < attempt.start_at - lead:
        state.timers.set(attempt.start_at - lead, TimerKind.ARM, job.id)
    elif attempt.arming is None or now >= attempt.arming.release_at:
        release_at = max(attempt.start_at, now + lead)
        late_at = latest_start_at(state, job, release_at)
        if late_at < release_at + min(lead, state.parameters.late_max_s):
            fail(state, job, f"deadline missed: not armed in {attempt.arms} rounds", now)
        else:
            arm(state, job, members, release_at, now)


def lead_over(state: State, members: list[Member], *, arms: int) -> Seconds:
    """Lead of T that is needed for a message to reach all members in time."""
    rtt_s = max((state.sites[m.site].rtt_s for m in members if m.site is not None), default=0.0)
    return lead_s(
        rtt_s,
        arms=arms,
        lead_min_s=state.parameters.lead_min_s,
        lead_max_s=state.parameters.lead_max_s,
    )


def latest_start_at(state: State, job: Job, release_at: Instant) -> Instant:
    """D of an Arm: the latest Release. A deadline may not be missed by more, however often the job
    was armed.
    """
    from_at = release_at if job.deadline_at is None else job.deadline_at
    return from_at + state.parameters.late_max_s


def arm(state: State, job: Job, members: list[Member], release_at: Instant, now: Instant) -> None:
    """Ask every member to promise to wait for a release at `release_at` (design: Arm)."""
    attempt = job.attempt
    assert attempt is not None
    if attempt.arms >= state.parameters.arms_max:
        set_back(state, job, f"not all components armed in {attempt.arms} rounds", now)
        return
    attempt.arms += 1
    state.arms += 1
    number = ArmNumber(epoch=state.epoch, counter=state.arms)
    claims = [state.ledger[member.claim] for member in members if member.claim is not None]
    attempt.arming = Arming(
        number=number,
        asked_at=now,
        release_at=release_at,
        waiting=[claim.id for claim in claims],
    )
    late_s = latest_start_at(state, job, release_at) - now
    peers = peers_of(state, job)
    for claim in claims:
        state.actions.append(
            ArmClaim(
                claim=claim.id,
                site=claim.site,
                number=number,
                release_at=release_at,
                late_s=late_s,
                peers=peers,
            )
        )
    state.timers.set(release_at, TimerKind.RELEASE, job.id)


def peers_of(state: State, job: Job) -> tuple[Peer, ...]:
    """Members that meet at the barrier. Components without a barrier began before, each as its own
    world; they are left out, or ranks would wait for processes outside of theirs."""
    peers = []
    for member in barrier_members(state, job):
        if member.site is None or member.claim is None:
            continue
        component = job.spec.components[member.component]
        claim = state.ledger[member.claim]
        peers.append(
            Peer(
                component=member.component,
                label=job.spec.label(member.component),
                site=member.site,
                processors=component.processors,
                processes=component.processes,
                address=address_of(state, claim),
                claim=member.claim,
                hosts=claim.grant.hosts if claim.grant is not None else (),
                job_type=component.job_type,
            )
        )
    return tuple(peers)


def on_paths_tried(state: State, event: ev.PathsTried, now: Instant) -> None:
    job = on_tried(state, event, now)
    if job is not None:
        advance_start(state, job, now)


def on_armed(state: State, event: ev.ClaimArmed, now: Instant) -> None:
    claim = state.ledger.get(event.claim)
    found = member_of(state, claim) if claim is not None else None
    if claim is None or found is None:
        return
    job = found[0]
    arming = job.attempt.arming if job.attempt is not None else None
    if not isinstance(job.phase, Starting) or arming is None or arming.number != event.number:
        return
    if claim.id not in arming.waiting or not isinstance(claim.phase, Granted | Armed):
        return
    claim.phase = Armed(grant=claim.phase.grant)
    arming.waiting.remove(claim.id)
    if not arming.waiting and now < arming.release_at:
        release(state, job, arming, now)


def release(state: State, job: Job, arming: Arming, now: Instant) -> None:
    """Release the attempt: all members have armed under one number and T is ahead. There is only
    one Release of an attempt (promise 3).
    """
    attempt = job.attempt
    assert attempt is not None
    assert attempt.released is None, f"{job.id}/{attempt.number} is released already"
    attempt.released = arming.number
    attempt.release_at = decided_at(state, job, arming, now)
    attempt.arming = None
    attempt.may_run = True
    for member in barrier_members(state, job):
        assert member.claim is not None
        claim = state.ledger[member.claim]
        assert isinstance(claim.phase, Armed), f"{claim.id} is {claim.phase}"
        claim.phase = Released(grant=claim.phase.grant)
        state.actions.append(release_claim(claim, arming.number, attempt.release_at))
    state.enter(job, Releasing(), "released", now)


def decided_at(state: State, job: Job, arming: Arming, now: Instant) -> Instant:
    """Choose T at the decision.

    T is ahead by the lead, or by the time that this round of Arm messages took, because a Release
    that arrives after T makes a start uneven. It is not before the T of the Arm, and early enough
    before D.
    """
    way_s = max(lead_over(state, barrier_members(state, job), arms=0), now - arming.asked_at)
    latest_at = latest_start_at(state, job, arming.release_at) - state.parameters.late_max_s / 2
    return max(arming.release_at, min(now + way_s, latest_at))


def on_passed(state: State, event: ev.ClaimPassed, now: Instant) -> None:
    claim = state.ledger.get(event.claim)
    if claim is None or claim.passed_at is not None or not claim.may_run:
        return
    match claim.phase:
        case Asked():
            return
        case Stopped() as phase:
            claim.phase = replace(phase, passed_at=event.passed_at)
        case phase:
            claim.phase = Passed(grant=phase.grant, passed_at=event.passed_at)
    settle_hold(state, claim, now)
    found = member_of(state, claim)
    if found is None:
        return
    job, member = found
    assert job.attempt is not None
    member.passed_at = event.passed_at
    others = [other for other in job.attempt.members if other.end and other.passed_at is None]
    if isinstance(job.phase, Stopping) and others:
        state.announce(job, f"partial start: {describe(job, member)} had passed", now)
    run_if_passed(state, job, now)


def run_if_passed(state: State, job: Job, now: Instant) -> None:
    assert job.attempt is not None
    if not isinstance(job.phase, Releasing):
        return
    components = job.spec.components
    barrier = [
        m for m in job.attempt.present if components[m.component].start_type is not StartType.NONE
    ]
    if all(member.passed_at is not None for member in barrier):
        state.enter(job, Running(since=now), "all components passed the barrier", now)
