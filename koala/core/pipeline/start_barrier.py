"""The start barrier: pre-flight, arm, release, pass.

In the pre-flight, starters try the TCP paths that the job needs before the barrier is armed. It
finds a closed path (a firewall, a wrong address, a port in use) before a program starts. A closed
path is not an error of a site, because either end or the network between them may be the cause. The
job is placed again later, and fails after a few attempts: a closed path opens rarely, and each
attempt holds processors. If only the port that we chose is taken, the next attempt, which has
another, is made at once. The path to a port that the job names (`ports`) may be closed: connections
then go through the grid, where both sites carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from koala.common.protocol.messages import Peer, PortAddress, PortPath
from koala.core.model import events as ev
from koala.core.model.actions import ArmClaim
from koala.core.model.claim import Armed, Asked, Claim, Granted, Passed, Released, Stopped
from koala.core.model.job import (
    Arming,
    ArmNumber,
    Attempt,
    Job,
    Member,
    PathTests,
    Release,
    Releasing,
    Running,
    Starting,
    Stopping,
)
from koala.core.model.tcp_paths import closed_path, has_paths, master_port, port_addresses
from koala.core.model.timeline import lead_s
from koala.core.model.timers import TimerKind
from koala.core.model.values import ClaimId, Instant, Seconds, SiteName
from koala.core.pipeline.ending import fail, finish_if_over, refund_hold
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.wanted import peers_of, release_claim, try_paths
from koala.core.queries import address_of, claims_of, describe, member_of, starts_early
from koala.core.state import State

NO_PORTS: Mapping[ClaimId, tuple[PortAddress, ...]] = MappingProxyType({})
ARMED_AHEAD = 4
"""Round trips to the slowest member from the Arm to a start time that is known before: one for the
answers, one for the Release, and as many as a margin."""


def advance_start(state: State, starting: Starting, now: Instant) -> None:
    """Arm a fully claimed job once its files are there and its JST is near. If it may start early,
    its JST is the instant at which everything is there.
    """
    attempt = starting.attempt
    job = state.jobs[attempt.job]
    if not attempt.at_barrier:
        running = Running(attempt=attempt, since=now, release=None)
        state.enter(job, running, "running without a barrier", now)
        finish_if_over(state, attempt, now)
        return
    tested = with_open_paths(state, starting, now)
    if tested is None or any(member.lacks_file for member in attempt.present):
        return
    if starts_early(state, job):
        attempt.start_at = min(attempt.start_at, now)
    members = attempt.at_barrier
    lead = release_lead_s(state, members, round_trips=ARMED_AHEAD, arms=tested.arms)
    if now < attempt.start_at - lead:
        state.timers.set(attempt.start_at - lead, TimerKind.ARM, job.id)
    elif tested.arming is None or now >= arm_expires_at(state, tested.arming):
        asked_lead = release_lead_s(state, members, round_trips=1, arms=tested.arms)
        release_at = max(attempt.start_at, now + asked_lead)
        late_at = latest_start_at(state, job, release_at)
        if late_at < release_at + min(lead, state.parameters.late_max_s):
            fail(state, job, f"deadline missed: not armed in {tested.arms} rounds", now)
        else:
            arm(state, tested, release_at, now)


def with_open_paths(state: State, starting: Starting, now: Instant) -> Starting | None:
    """Return the phase once all paths were tried successfully, else None. Starts the tests on the
    first call; sets the job back after a timeout.
    """
    job = state.jobs[starting.attempt.job]
    if not has_paths(job.spec):
        return starting
    if starting.tests is None:
        starting = _begin_tests(state, job, starting, now)
    waiting = untried_members(starting)
    if waiting and starting.tests is not None and now >= starting.tests.due_at:
        labels = ", ".join(job.spec.label(member.component) for member in waiting)
        _block_start(state, starting, f"no answer from {labels}", now)
    return None if waiting else starting


def untried_members(starting: Starting) -> list[Member]:
    """Return the members that have not reported the test of their paths yet."""
    untried = starting.tests.waiting if starting.tests is not None else ()
    return [member for member in starting.attempt.at_barrier if member.claim in untried]


def _begin_tests(state: State, job: Job, starting: Starting, now: Instant) -> Starting:
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


def _block_start(
    state: State, starting: Starting, problem: str, now: Instant, *, has_next_port: bool = False
) -> None:
    job = state.jobs[starting.attempt.job]
    job.blocked += 1
    reason = f"pre-flight: {problem}"
    if job.blocked >= state.parameters.blocked_max:
        fail(state, job, f"{reason}; {job.blocked} attempts ended so", now)
        return
    if not has_next_port:
        job.not_before = now + state.parameters.scan_interval_s
    set_back(state, starting.attempt, reason, now)


def release_lead_s(state: State, members: list[Member], *, round_trips: int, arms: int) -> Seconds:
    """Return the lead of a T over its Arm, by the round trips that were measured to the members'
    sites.
    """
    sites = [member.site for member in members if member.site is not None]
    return lead_s(
        max((state.sites[site].rtt_s for site in sites), default=0.0),
        round_trips=round_trips,
        arms=arms,
        lead_min_s=state.parameters.lead_min_s,
        lead_max_s=state.parameters.lead_max_s,
    )


def latest_start_at(state: State, job: Job, release_at: Instant) -> Instant:
    """Return D of an Arm: the latest Release. A deadline may not be missed by more, however often
    the job was armed.
    """
    from_at = release_at if job.deadline_at is None else job.deadline_at
    return from_at + state.parameters.late_max_s


def arm_expires_at(state: State, arming: Arming) -> Instant:
    """Return the instant at which an Arm without all answers is repeated. It is after T, because
    the Release may name a later one, and long before D."""
    limits = state.parameters
    return arming.release_at + min(limits.arm_wait_s, limits.late_max_s / 4)


def arm(state: State, starting: Starting, release_at: Instant, now: Instant) -> None:
    """Ask every member to promise to wait for a release at `release_at`."""
    attempt = starting.attempt
    if starting.arms >= state.parameters.arms_max:
        set_back(state, attempt, f"not all components armed in {starting.arms} rounds", now)
        return
    job = state.jobs[attempt.job]
    claims = claims_of(state, attempt.at_barrier)
    arming = begin_arming(state, claims, release_at, now)
    state.enter(job, replace(starting, arms=starting.arms + 1, arming=arming), "", now)
    late_s = latest_start_at(state, job, release_at) - now
    meeting = [
        (attempt.members[claim.component], claim, address_of(state, claim)) for claim in claims
    ]
    ports = {claim.id: port_addresses(job.spec, claim, meeting) for claim in claims}
    send_arms(state, arming, claims, peers_of(state, job, claims), late_s, ports)
    state.timers.set(arm_expires_at(state, arming), TimerKind.RELEASE, job.id)


def begin_arming(state: State, claims: list[Claim], release_at: Instant, now: Instant) -> Arming:
    """Begin a round of Arm messages to these claims, with a number of its own."""
    state.arms += 1
    number = ArmNumber(epoch=state.epoch, counter=state.arms)
    waiting = tuple(claim.id for claim in claims)
    return Arming(number=number, asked_at=now, release_at=release_at, waiting=waiting)


def send_arms(
    state: State,
    arming: Arming,
    claims: list[Claim],
    peers: tuple[Peer, ...],
    late_s: Seconds,
    ports: Mapping[ClaimId, tuple[PortAddress, ...]] = NO_PORTS,
) -> None:
    """Send the Arm messages of a round."""
    for claim in claims:
        state.actions.append(
            ArmClaim(
                claim=claim.id,
                site=claim.site,
                number=arming.number,
                release_at=arming.release_at,
                late_s=late_s,
                peers=peers,
                ports=ports.get(claim.id, ()),
            )
        )


def on_paths_tried(state: State, event: ev.PathsTried, now: Instant) -> None:
    """Record a member's path test; the start goes on after the last one, or is blocked by a
    problem."""
    claim = state.ledger.get(event.claim)
    current = member_of(state, claim) if claim is not None else None
    if claim is None or current is None:
        return
    attempt, member = current
    for name, trip_s in event.reached:
        reached = state.ledger.get(name)
        if reached is not None and reached.job == claim.job:
            state.files.learn_trip(claim.site, reached.site, trip_s)
            state.sites[claim.site].unreached.pop(reached.site, None)
    job = state.jobs[claim.job]
    match job.phase:
        case Starting(tests=PathTests() as tests) as starting if claim.id in tests.waiting:
            member.paths = event.ports
            _note_routes(state, claim.site, event.ports, now)
            problem = event.problem or _port_without_way(state, attempt, member)
            if problem:
                port = master_port(job, attempt.number)
                taken = any(path.claim == claim.id and path.port == port for path in event.ports)
                _block_start(state, starting, problem, now, has_next_port=taken)
                return
            waiting = tuple(left for left in tests.waiting if left != claim.id)
            starting = replace(starting, tests=replace(tests, waiting=waiting))
            state.enter(job, starting, "", now)
            advance_start(state, starting, now)
        case _:
            pass


def _note_routes(state: State, site: SiteName, paths: tuple[PortPath, ...], now: Instant) -> None:
    """Note which other sites the nodes of a site do not reach, for jobs that need a route."""
    for path in paths:
        owner = state.ledger.get(path.claim)
        if owner is not None and owner.site != site and path.problem:
            state.sites[site].unreached[owner.site] = now


def _port_without_way(state: State, attempt: Attempt, member: Member) -> str:
    """Return why a member reaches a port neither directly nor through the grid; empty if it reaches
    all."""
    spec = state.jobs[attempt.job].spec
    for owner in claims_of(state, attempt.at_barrier):
        for name, port in spec.components[owner.component].ports:
            path = closed_path(member, owner.id, port)
            sites = [site for site in (member.site, owner.site) if site is not None]
            mute = [site for site in sites if not state.sites[site].facts.forwards]
            if path is not None and mute:
                way = f"{spec.label(member.component)} -> {spec.label(owner.component)}:{port}"
                return f"{name}: {way} {path.problem}, and {mute[0]} carries no connections"
    return ""


def on_ports_used(state: State, event: ev.PortsUsed) -> None:
    """Note what a claim's program has moved to ports of others through the grid."""
    claim = state.ledger.get(event.claim)
    current = member_of(state, claim) if claim is not None else None
    if current is not None:
        current[1].used = event.ports


def on_armed(state: State, event: ev.ClaimArmed, now: Instant) -> None:
    """Record a member's promise; release the attempt when all have armed in time."""
    claim = state.ledger.get(event.claim)
    current = member_of(state, claim) if claim is not None else None
    if claim is None or current is None or not isinstance(claim.phase, Granted | Armed):
        return
    job = state.jobs[claim.job]
    match job.phase:
        case Starting(arming=Arming() as arming) as starting:
            if arming.number != event.number or claim.id not in arming.waiting:
                return
        case _:
            return
    arming = note_armed(claim, arming)
    starting = replace(starting, arming=arming)
    state.enter(job, starting, "", now)
    if not arming.waiting and now < arm_expires_at(state, arming):
        release(state, starting, arming, now)


def note_armed(claim: Claim, arming: Arming) -> Arming:
    """Note the promise of a claim; return the round without it among those that are awaited."""
    assert isinstance(claim.phase, Granted | Armed), f"{claim.id} is {claim.phase}"
    claim.phase = Armed(grant=claim.phase.grant)
    return replace(arming, waiting=tuple(left for left in arming.waiting if left != claim.id))


def release(state: State, starting: Starting, arming: Arming, now: Instant) -> None:
    """Release the attempt: all members have armed under one number and T is ahead. There is only
    one Release of a start (promise 3).
    """
    attempt = starting.attempt
    job = state.jobs[attempt.job]
    decision = Release(number=arming.number, at=choose_release_at(state, job, arming, now))
    attempt.may_run = True
    release_claims(state, claims_of(state, attempt.at_barrier), decision)
    state.enter(job, Releasing(attempt=attempt, release=decision), "released", now)


def release_claims(state: State, claims: list[Claim], decision: Release) -> None:
    """Release armed claims: they may pass."""
    for claim in claims:
        assert isinstance(claim.phase, Armed), f"{claim.id} is {claim.phase}"
        claim.phase = Released(grant=claim.phase.grant)
        state.actions.append(release_claim(claim, decision))


def choose_release_at(state: State, job: Job, arming: Arming, now: Instant) -> Instant:
    """Choose T at the decision.

    T is ahead by the time that this round of Arm messages took: it contains the way of a Release to
    the slowest member, and the way back as a margin. A Release that arrives after T makes a start
    uneven. T is not before the T of the Arm, and early enough before D.
    """
    limits = state.parameters
    way_s = max(limits.lead_min_s, limits.lead_rounds * (now - arming.asked_at))
    latest_at = latest_start_at(state, job, arming.release_at) - limits.late_max_s / 2
    return max(arming.release_at, min(now + way_s, latest_at))


def on_passed(state: State, event: ev.ClaimPassed, now: Instant) -> None:
    """Record the pass of a claim and refund the rest of its hold; the job runs once all have
    passed."""
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
    if state.sites[claim.site].is_probing:
        proven_at = event.passed_at + state.parameters.probe_after_s
        state.timers.set(proven_at, TimerKind.PROBE, claim.site)
    refund_hold(state, claim, now)
    current = member_of(state, claim)
    if current is None:
        return
    attempt, member = current
    job = state.jobs[attempt.job]
    member.passed_at = event.passed_at
    others = [m for m in attempt.members if m.end and m.passed_at is None]
    if isinstance(job.phase, Stopping) and others:
        state.announce(job, f"partial start: {describe(job, member)} had passed", now)
    run_if_passed(state, attempt, now)


def run_if_passed(state: State, attempt: Attempt, now: Instant) -> None:
    """Enter Running once all members with a barrier have passed it."""
    job = state.jobs[attempt.job]
    if not isinstance(job.phase, Releasing):
        return
    if all(member.passed_at is not None for member in attempt.with_barrier):
        running = Running(attempt=attempt, since=now, release=job.phase.release)
        state.enter(job, running, "all components passed the barrier", now)
        if job.spec.is_malleable:
            state.request_scan()  # what is idle by now may join it
