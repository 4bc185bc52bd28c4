"""The timeline of the grid: claims over sites, as charts draw it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from koala.views.records.base import Moment, Record

ClaimState: TypeAlias = Literal["queued", "gated", "held", "running", "ended"]


class LocalUse(NamedTuple):
    """Processors of local jobs from an instant on."""

    at: Moment
    processors: int


class ChartSite(Record, frozen=True, kw_only=True):
    """Site of a chart."""

    site: str
    """Its name."""
    processors: int = 0
    """Processors in all."""
    local: tuple[LocalUse, ...] = ()
    """Pairs of instant and processors of local jobs from then on."""


class ChartClaim(Record, frozen=True, kw_only=True):
    """Claim of a chart."""

    claim: str
    """Its id."""
    job: str
    """Id of its job."""
    name: str = ""
    """Name of the job; empty: none."""
    user: str = ""
    """Owner of the job."""
    part: str = ""
    """Label of its component."""
    site: str
    """Its site."""
    processors: int = 0
    """Number of processors."""
    state: ClaimState
    """Its state."""
    is_wasted: bool = False
    """It ended before the barrier, or its attempt was given up."""
    asked_at: Moment
    """When the site was asked."""
    granted_at: Moment | None = None
    """Start of its batch job."""
    passed_at: Moment | None = None
    """When it passed the barrier."""
    ended_at: Moment | None = None
    """When its processors were free again."""
    start_at: Moment | None = None
    """Its expected start while it waits; null: unknown."""
    end_at: Moment | None = None
    """When its time limit ends it; null: unknown."""


class GridTimeline(Record, frozen=True, kw_only=True):
    """Claims over sites in a period, of jobs in the daemon's memory that the caller sees."""

    since: Moment
    """Begin of the period."""
    until: Moment
    """Its end."""
    now_at: Moment
    """Instant of the answer."""
    sites: tuple[ChartSite, ...] = ()
    """The sites, in order of name; at most 200."""
    claims: tuple[ChartClaim, ...] = ()
    """The newest 1,000 claims, in order of asking."""
    left_out: int = 0
    """Number of older ones; the period begins after them."""
