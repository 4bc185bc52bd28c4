"""Derive what is idle for the next claim: the figures of a batch system, less what our claims take.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from koala.common.protocol.limits import ENDLESS_S, PROCESSORS_MAX
from koala.common.protocol.messages import Hole, Taken
from koala.common.protocol.names import ClaimId
from koala.queue_model.profile import Profile
from koala_agent.lrm.batch.bookings import nameable
from koala_agent.lrm.batch.claim_tracking import TrackedClaim
from koala_agent.lrm.dialect import Booking, Figures, JobState
from koala_agent.lrm.local_manager import Idle
from koala_agent.lrm.outlook import holes_before


def idle_of(
    figures: Figures,
    claims_known: Iterable[TrackedClaim],
    *,
    allowed: int,
    unsure: int = 0,
    leaving: int = 0,
    now: float = 0.0,
) -> Idle:
    """Derive the idle processors: the last figures less the waiting claims, which will take some of
    them, unless they are gated or wait for a limit. `unsure` are the processors of claims in an
    unknown state; at most those in use are counted. `leaving` are those of claims that the batch
    system still counted as running after their end: they are nobody else's. `now` is in seconds
    since the epoch.

    What a booking keeps is idle before its begin, for claims that end by then.

    Jobs that wait before ours have a right to the idle processors that they may take. Backfilling
    may decide otherwise; a claim that got no processors is refused after its grace time.
    """
    claims = [claim for claim in claims_known if claim.row.end is None]
    queued = [claim for claim in claims if claim.may_start() and not claim.is_limited]
    running = sum(taken_of(claim) for claim in claims if claim.uses_processors())
    waiting = sum(taken_of(claim, figures.resources.unit or 1) for claim in queued)
    in_use = figures.processors - figures.idle - figures.shut
    running += min(unsure, max(0, in_use - running))
    booked = booked_of(figures, claims)
    begins = sorted({now, *(one.begins_at for one in booked if one.begins_at > now)})
    kept_by = {begin: _kept_until(booked, now, begin) for begin in (*begins, math.inf)}
    idle = max(0, min(figures.idle - kept_by[now], allowed - running) - waiting)
    local = in_use - running - leaving
    wanted = sum(claim.row.gpus for claim in queued)
    foreign = others_waiting(figures, claims)
    kept = _kept_for_others(figures, foreign, has_own=bool(queued))
    room = figures.idle - kept - waiting
    startable = max(0, min(idle, room - kept_by[math.inf]))
    found = Idle(
        processors=min(figures.processors, allowed),
        idle=idle,
        startable=startable,
        queued_jobs=figures.queued_jobs,
        foreign_queued=foreign.jobs,
        local_processors=min(max(0, local), PROCESSORS_MAX),
        idle_gpus=max(0, figures.idle_gpus - wanted),
        resources=figures.resources,
        asleep=min(figures.asleep, idle),
        wake_s=figures.wake_s,
        taken=tuple(
            Taken(claim=ClaimId(claim.row.claim), processors=claim.row.taken)
            for claim in claims
            if claim.row.taken
        ),
        holes=holes_before(
            ((begin - now, min(idle, room - kept_by[begin])) for begin in begins), startable
        ),
    )
    later = min(idle, room) - startable
    why = _why_no_more(found, figures, foreign, kept, waiting, later, kept_by[now])
    return replace(found, why=why, reservations=_rooms(figures, claims, startable, now))


def _rooms(
    figures: Figures, claims: Iterable[TrackedClaim], startable: int, now: float
) -> tuple[tuple[str, int], ...] | None:
    """Return what is idle in the reservations that claims may name, beside claims that wait for it
    and are open: nothing before the begin. In an open one is also what anybody may have."""
    if figures.reservations is None:
        return None
    waiting: dict[str, int] = {}
    for claim in claims:
        name, is_open = claim.row.reservation, not claim.row.is_gated
        if name and is_open and claim.state is JobState.QUEUED:
            waiting[name] = waiting.get(name, 0) + taken_of(claim)
    rooms = []
    for one in nameable(figures.reservations):
        inside = one.processors if one.begins_at <= now < one.ends_at and not one.trouble else 0
        inside += startable if one.is_open else 0
        rooms.append((one.number, max(0, inside - waiting.get(one.number, 0))))
    return tuple(rooms)


def booked_of(figures: Figures, claims: Iterable[TrackedClaim]) -> list[Booking]:
    """Return the bookings that keep processors: those of others, and of our claims that wait."""
    ours = [
        Booking(
            number=claim.row.booking or claim.row.number,
            name=claim.row.claim,
            processors=taken_of(claim, figures.resources.unit or 1),
            begins_at=claim.row.begins_at,
            ends_at=claim.row.ends_at,
        )
        for claim in claims
        if claim.row.begins_at and claim.state is JobState.QUEUED
    ]
    return [*figures.booked, *ours]


def _kept_until(booked: Iterable[Booking], now: float, end: float) -> int:
    """Return the most processors that bookings keep at an instant from now on, before the end."""
    profile = Profile(0)
    profile.forget(now)
    for booking in booked:
        profile.add(-booking.processors, max(now, booking.begins_at), booking.ends_at)
    return -profile.least(begin=now, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """Jobs of others that wait for processors. `wanted` are those that they wait for, `nodes` those
    of which they may take some; None: unknown."""

    jobs: int = 0
    wanted: int | None = None
    nodes: frozenset[str] | None = None


def others_waiting(figures: Figures, claims_known: Iterable[TrackedClaim]) -> Others:
    """Return the jobs of others that wait for processors."""
    claims = list(claims_known)
    if figures.waiting is None:
        ours = sum(claim.is_eligible() and not claim.is_limited for claim in claims)
        return Others(jobs=max(0, figures.queued_jobs - ours))
    own = {claim.row.number for claim in claims}
    rows = [row for row in figures.waiting if row.number not in own]
    places = {row.nodes for row in rows}
    return Others(
        jobs=len(rows),
        wanted=sum(row.processors for row in rows),
        nodes=None if None in places else frozenset().union(*filter(None, places)),
    )


def taken_of(claim: TrackedClaim, unit: int = 1) -> int:
    """Return the processors that a claim takes, or will, of nodes that are given in such units."""
    return claim.row.taken or -(-claim.row.processors // unit) * unit


def _kept_for_others(figures: Figures, foreign: Others, *, has_own: bool) -> int:
    """Return the idle processors to which others have a right. What a batch system that hides their
    jobs has planned may be planned for a claim of ours that waits."""
    if foreign.jobs and foreign.nodes is None:
        return figures.idle
    nodes = foreign.nodes or frozenset()
    if not has_own:
        nodes |= figures.planned
    return sum(figures.idle_at.get(node, 0) for node in nodes)


def _why_no_more(
    idle: Idle,
    figures: Figures,
    foreign: Others,
    kept: int,
    waiting: int,
    later: int,
    reserved: int,
) -> str:
    """Say in words why no more processors are startable; empty where all are."""
    words = []
    if kept and foreign.jobs:
        verb = "waits" if foreign.jobs == 1 else "wait"
        who = f"{foreign.jobs} job{'s' if foreign.jobs > 1 else ''} of others {verb}"
        what = "processors" if foreign.wanted is None else f"{foreign.wanted} processors"
        words.append(f"{kept} idle, but {who} for {what}")
    elif kept:
        words.append(f"{kept} idle, but planned for jobs that the batch system does not show")
    if waiting and figures.idle > kept:
        words.append(f"{min(waiting, figures.idle)} idle, but claims of Koala wait for them")
    if later > 0:
        words.append(f"{later} idle, but booked for later")
    if reserved > 0:
        words.append(f"{reserved} idle, but reserved")
    if not idle.startable and not words and figures.processors:
        if idle.processors < figures.processors and figures.idle:
            words.append(f"Koala may use {idle.processors} processors, and has them all")
        elif not figures.closed:
            words.append(f"all {figures.processors} are in use")
        else:
            used = idle.local_processors
            words.append(f"{used} are in use" if used else "")
    if idle.asleep and not kept:
        words.append(
            f"{idle.asleep} are powered down (they wake in about {_about(figures.wake_s)})"
        )
    return "; ".join(filter(None, [*words, *figures.closed, *_shut_reservations(figures)]))


def _shut_reservations(figures: Figures) -> list[str]:
    reservations = nameable(figures.reservations or ())
    return [f"reservation {one.number}: {one.trouble}" for one in reservations if one.trouble]


def presumed_figures(claims: Iterable[TrackedClaim], *, allowed: int) -> Figures:
    """Return the figures of a batch system that tells none: nobody but our claims uses the
    processors that we may have."""
    every = list(claims)
    taken = sum(taken_of(claim) for claim in every if claim.state is not JobState.QUEUED)
    waiting = sum(claim.is_eligible() for claim in every)
    return Figures(processors=allowed, idle=max(0, allowed - taken), queued_jobs=waiting)


def hole_words(hole: Hole) -> str:
    """Say who may have the processors of a hole."""
    who = f"that end within {_about(hole.for_s)}" if hole.for_s < ENDLESS_S else "of any length"
    return f"{hole.processors} of them for jobs {who}"


def _about(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{math.ceil(seconds / 60)} min"
