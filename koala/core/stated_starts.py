"""Starts of claims as they are stated, with intervals, and how well past ones were met.

Sites tell when a waiting claim would start. How far such words can be trusted shows in how long
claims really waited: the interval that is stated is made of the newest ratios of the two at the
site. Waits and what was told of them both count a minute more, so that short ones do not dominate.
"""

from __future__ import annotations

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
    """Compare the start of a claim with what was stated of it."""
    stated = claim.stated
    if stated is not None:
        ratio = (now - stated.at + MORE_S) / (stated.start_at - stated.at + MORE_S)
        site.start_ratios = (*site.start_ratios, ratio)[-RATIOS_KEPT:]


def _ratios(site: Site) -> tuple[float, float]:
    ratios = sorted(site.start_ratios)
    if len(ratios) < RATIOS_MIN:
        return FIRST_RATIOS
    outside = len(ratios) // OUTSIDE
    return ratios[outside], ratios[-1 - outside]
