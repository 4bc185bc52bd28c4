"""Starts of claims as they are stated, with intervals, and how well past ones were met.

Sites tell when a waiting claim would start. How far such words can be trusted shows in how long
claims really waited: the interval that is stated is made of the newest ratios of the two at the
site. Waits and what was told of them both count a minute more, so that short ones do not dominate.

Of a site that tells no starts the newest waits of tickets are kept: they say what to expect, and
decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.charges import StatedStart
from koala.core.model.claim import Claim
from koala.core.model.grid import Site
from koala.core.model.values import Instant, Seconds

RATIOS_KEPT = 60
RATIOS_MIN = 10
"""Ratios from which on they replace the first ones."""
FIRST_RATIOS = (0.1, 1.5)
"""Time limits are upper bounds of run times; later jobs may pass by priority."""
OUTSIDE = 20
"""One of so many ratios is left out at either end."""
MORE_S = 60.0
PAST_MIN = 5
"""Waits of claims of a size from which on they say what to expect."""


def stated_interval(site: Site, start_s: Seconds) -> tuple[Seconds, Seconds]:
    """Return the shortest and the longest time to a start that a site expects in `start_s`."""
    low, high = _ratios(site)
    return max(0.0, low * (start_s + MORE_S) - MORE_S), high * (start_s + MORE_S) - MORE_S


def note_told_start(site: Site, claim: Claim, start_s: Seconds | None, now: Instant) -> None:
    """Note when a waiting claim would start; the first word about an open one is a statement."""
    claim.start_at = None if start_s is None else now + start_s
    if start_s is not None and claim.stated is None and not claim.is_gated:
        earliest_s, latest_s = stated_interval(site, start_s)
        claim.stated = StatedStart(
            at=now,
            start_at=now + start_s,
            earliest_at=now + earliest_s,
            latest_at=now + latest_s,
        )


def note_start(site: Site, claim: Claim, now: Instant) -> None:
    """Compare the start of a claim with what was stated of it, and keep how long it waited."""
    if claim.is_ticket and not claim.is_gated and not claim.begins_at:
        wait = (claim.processors, now - _open_since(claim))
        site.past_waits = (*site.past_waits, wait)[-RATIOS_KEPT:]
    stated = claim.stated
    if stated is not None:
        ratio = (now - stated.at + MORE_S) / (stated.start_at - stated.at + MORE_S)
        site.start_ratios = (*site.start_ratios, ratio)[-RATIOS_KEPT:]


def usual_interval(site: Site, claim: Claim, now: Instant) -> tuple[Seconds, Seconds] | None:
    """Return the shortest and the longest time in which an open claim will start, if it waits as
    long as others of its size did there; None where they were few, or it waits longer already."""
    alike = [s for size, s in site.past_waits if size <= 2 * claim.processors <= 4 * size]
    waited_s = now - _open_since(claim)
    if len(alike) < PAST_MIN or claim.is_gated:
        return None
    low, high = _without_outside(alike)
    return (max(0.0, low - waited_s), high - waited_s) if waited_s < high else None


def _open_since(claim: Claim) -> Instant:
    return claim.asked_at if claim.opened_at is None else claim.opened_at


def _without_outside(values: Sequence[float]) -> tuple[float, float]:
    """Return the bounds of values, without a few at either end."""
    outside = len(values) // OUTSIDE
    ordered = sorted(values)
    return ordered[outside], ordered[-1 - outside]


def _ratios(site: Site) -> tuple[float, float]:
    is_known = len(site.start_ratios) >= RATIOS_MIN
    return _without_outside(site.start_ratios) if is_known else FIRST_RATIOS
