"""Records of ended claims (charges), attempts (setbacks) and troubles with sites (refusals)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from koala.core.model.values import ClaimId, Instant, Seconds, SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedStart:
    """Start of a claim in a local queue as it was stated first, and the interval that was stated
    with it, while nothing but the queue was in its way."""

    at: Instant
    start_at: Instant
    earliest_at: Instant
    latest_at: Instant

    def has(self, instant: Instant) -> bool:
        """Return True if an instant lies within the stated interval."""
        return self.earliest_at <= instant <= self.latest_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Accounting record of a claim that held processors or that its site failed.

    `ended_at` and `end` are None while it lives. `batch_job` is its job number in the site's batch
    system, empty if there is none. `stated` is what was said of its start before, if anything.
    """

    claim: ClaimId
    attempt: int
    site: SiteName
    processors: int
    batch_job: str
    asked_at: Instant
    granted_at: Instant | None
    passed_at: Instant | None
    ended_at: Instant | None = None
    end: str | None = None  # EndKind
    stated: StatedStart | None = None
    forwarded_bytes: int = 0  # to and from ports of others, through the grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """An attempt that was given up, and the sites where it was placed."""

    attempt: int
    at: Instant
    sites: tuple[SiteName, ...]


class Trouble(StrEnum):
    """Trouble of a job with a site: it refused the job, erred with it, or sent no file; or the
    job's program failed there."""

    REFUSED = "refused"
    ERRED = "erred"
    UNSENT = "unsent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Trouble of a job with a site; the job avoids the site for `pause_s` from `at` on."""

    at: Instant
    pause_s: Seconds
    reason: str
    trouble: Trouble = Trouble.REFUSED

    @property
    def again_at(self) -> Instant:
        """Earliest instant at which the job may use the site again."""
        return self.at + self.pause_s
