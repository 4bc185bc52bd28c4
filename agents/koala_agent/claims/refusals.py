"""Refusals of claims: what the site's owner allows, of new claims and of those that came up."""

from __future__ import annotations

from collections.abc import Iterable

from koala.common.protocol.messages import Hold
from koala.common.protocol.names import is_claim_id
from koala_agent.claims.settings import Limits
from koala_agent.claims.states import Armed, Asked, Claim, Granted

USERS_SHOWN = 5
"""Users that are named in a refusal."""


def refusal(hold: Hold, begins_in_s: float, claims: Iterable[Claim], limits: Limits) -> str:
    """Return why a new claim is not allowed beside these; empty when it is. A booked one begins in
    so many seconds."""
    if not is_claim_id(hold.claim):
        return f"{hold.claim!r} is not a claim (expected job/attempt/component/n)"
    if limits.users is not None and hold.owner not in limits.users:
        return _user_refusal(hold.owner, limits.users, limits.users_key)
    if limits.processors_max is not None and hold.processors > limits.processors_max:
        allowed = f"site.largest_claim allows {limits.processors_max} here"
        return f"{hold.processors} processors: {allowed}"
    if hold.hold_s > limits.hold_max_s:
        allowed = f"site.longest_hold_s allows {limits.hold_max_s:g} s here"
        return f"a hold of {hold.hold_s:g} s: {allowed}"
    if hold.waits and (reason := _ticket_refusal(hold, claims, limits)):
        return reason
    return _booking_refusal(begins_in_s, limits.booking_ahead_s) if hold.begins_at else ""


def _user_refusal(owner: str, users: tuple[str, ...], key: str) -> str:
    shown = ", ".join(users[:USERS_SHOWN]) or "nobody"
    more = f" and {len(users) - USERS_SHOWN} others" if len(users) > USERS_SHOWN else ""
    return f"a claim of {owner or 'nobody'}: {key} allows those of {shown}{more} here"


def _ticket_refusal(hold: Hold, claims: Iterable[Claim], limits: Limits) -> str:
    waiting = sum(waiter.hold.waits and isinstance(waiter.state, Asked) for waiter in claims)
    if limits.tickets_max is not None and waiting >= limits.tickets_max:
        return f"{waiting} claims wait: site.tickets_max allows {limits.tickets_max} here"
    if limits.held_max is not None and hold.processors > limits.held_max:
        return f"{hold.processors} processors: {_allowed(limits.held_max)}"
    return ""


def _booking_refusal(begins_in_s: float, ahead_s: float) -> str:
    if not ahead_s:
        return "this site books no processors (site.booking_ahead_s = 0)"
    if begins_in_s > ahead_s:
        allowed = f"site.booking_ahead_s allows {ahead_s:g} s here"
        return f"a booking {begins_in_s:.0f} s ahead: {allowed}"
    if begins_in_s <= 0:
        return f"a booking that was to begin {-begins_in_s:.0f} s ago"
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
