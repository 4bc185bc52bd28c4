"""Tickets at a site: its owner's limits on them, and those that its queue does not take."""

from __future__ import annotations

from collections.abc import Iterable

from koala.common.protocol.messages import Hold, Wait
from koala_agent.claims.settings import Limits
from koala_agent.claims.states import Armed, Asked, Claim, Granted


def refusal(hold: Hold, claims: Iterable[Claim], limits: Limits) -> str:
    """Return why one more claim may not wait here; empty when it may."""
    if not hold.waits:
        return ""
    waiting = sum(waiter.hold.waits and isinstance(waiter.state, Asked) for waiter in claims)
    if limits.tickets_max is not None and waiting >= limits.tickets_max:
        return f"{waiting} claims wait: site.tickets_max allows {limits.tickets_max} here"
    if limits.held_max is not None and hold.processors > limits.held_max:
        return f"{hold.processors} processors: {_allowed(limits.held_max)}"
    return ""


def hold_refusal(claim: Claim, claims: Iterable[Claim], limits: Limits) -> str:
    """Return why a claim that came up from the queue may not hold now; empty when it may."""
    if limits.held_max is None or not claim.hold.waits:
        return ""
    held = sum(
        holder.hold.processors
        for holder in claims
        if holder.hold.waits and isinstance(holder.state, Granted | Armed)
    )
    if held + claim.hold.processors <= limits.held_max:
        return ""
    return f"{claim.hold.processors} processors beside {held} held: {_allowed(limits.held_max)}"


def _allowed(processors: int) -> str:
    return f"site.held_share_max allows {processors} held ones here"


def waits(claims: Iterable[Claim]) -> tuple[Wait, ...]:
    """Return the waits of claims that the local queue has not taken so far, with the reason."""
    return tuple(
        Wait(claim=claim.id, reason=claim.state.trouble)
        for claim in claims
        if isinstance(claim.state, Asked) and claim.state.submit_at is not None
    )


def trouble(claims: Iterable[Claim]) -> str:
    """Tell how many tickets the local queue does not take, and why; empty for none. What cannot be
    booked for an instant is no trouble of the site."""
    failing = waits(claim for claim in claims if claim.hold.waits and not claim.hold.begins_at)
    return f"{len(failing)} claims cannot be queued now: {failing[0].reason}" if failing else ""
