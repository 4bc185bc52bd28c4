"""Ends of claims: derive the reported end from orders, the starter's report and the batch
system."""

from __future__ import annotations

import signal
from dataclasses import replace

from koala.common.protocol.messages import ClaimEnd, EndKind
from koala_agent.claims.events import BatchEnded
from koala_agent.claims.states import Claim, Passed
from koala_agent.lrm.local_manager import EndCause

_SITE_SIGNALS = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGXCPU)


def stopped_end(reason: str) -> ClaimEnd:
    """Return the end of a claim that is not wanted."""
    return ClaimEnd(kind=EndKind.STOPPED, reason=reason)


def merge_ends(ordered: ClaimEnd, reported: ClaimEnd) -> ClaimEnd:
    """Merge the ordered end of a stopped claim with its starter's report.

    A program that ended by itself first keeps its own end. Otherwise the ordered end counts, with
    the starter's figures. (A withdrawal reaches a starter and its processes as signals of the site,
    which are our own in this case.)
    """
    if reported.kind in (EndKind.SITE, EndKind.STOPPED) or was_killed(reported):
        return replace(reported, kind=ordered.kind, reason=ordered.reason)
    return reported


def was_killed(end: ClaimEnd) -> bool:
    """Test for an end by the signals with which batch systems end jobs."""
    bad = [status for status in end.statuses if status != 0]
    return end.kind is EndKind.EXITED and bool(bad) and all(s in _SITE_SIGNALS for s in bad)


def unbound_end(event: BatchEnded) -> ClaimEnd:
    """Return the end of a claim whose batch job was over before a starter checked in.

    A local manager that dequeues it by itself has found that it can never start. That may be the
    job's fault: one user's impossible jobs must not count as faults of the site.
    """
    if event.cause is EndCause.WITHDRAWN:
        return ClaimEnd(kind=EndKind.REFUSED, reason=event.reason)
    if event.cause is EndCause.CANCELLED_BY_SITE:
        return ClaimEnd(kind=EndKind.SITE, reason=event.reason)
    if event.cause is EndCause.CANCELLED_BEGUN:
        why = f": {event.reason}" if event.reason else ""
        reason = f"ended by the site before its starter ran (does its prolog fail?){why}"
        return ClaimEnd(kind=EndKind.LAUNCH, reason=reason)
    status = "" if event.exit_status is None else f" with status {event.exit_status}"
    reason = event.reason or f"the starter ended{status} before it checked in"
    return ClaimEnd(kind=EndKind.FAILED, reason=reason)


def withdrawn_end(ordered: ClaimEnd, event: BatchEnded) -> ClaimEnd:
    """Return the end of a claim that was withdrawn before a starter checked in: a refusal has the
    words of the batch system for the wait."""
    if ordered.kind is not EndKind.REFUSED or not event.waited_for:
        return ordered
    return replace(ordered, reason=f"{ordered.reason}: {event.waited_for}")


def time_limit_end(event: BatchEnded, claim: Claim) -> ClaimEnd:
    """Return the end of a program by the time limit of its batch job. It is the job's own limit, or
    the usual one of a site that a job without a limit gets: to run it again would not help."""
    detail = f" ({event.reason})" if event.reason else ""
    wall_s = claim.hold.program.wall_time_s
    asked = "the job asked for none"
    if wall_s:
        asked = f"the job asked for {wall_s:g} s, and was held before its start"
    reason = f"the time limit of its batch job{detail}; {asked}"
    return ClaimEnd(kind=EndKind.WALL_TIME, reason=reason)


def bound_end(event: BatchEnded, claim: Claim) -> ClaimEnd:
    """Return the end of a claim whose batch job is over and whose starter left no record."""
    kind, reason = EndKind.VANISHED, "the starter was lost"
    match event.cause:
        case EndCause.CANCELLED_BY_SITE | EndCause.CANCELLED_BEGUN:
            kind, reason = EndKind.SITE, "cancelled at the site"
        case EndCause.TIME_LIMIT:
            if isinstance(claim.state, Passed):
                return time_limit_end(event, claim)
            kind, reason = EndKind.SITE, "the batch system's time limit"
        case EndCause.WITHDRAWN:
            kind, reason = EndKind.STOPPED, ""
        case EndCause.EXITED | EndCause.LOST | EndCause.UNREACHABLE:
            pass
    return ClaimEnd(kind=kind, reason=event.reason or reason)
