"""What is kept of claims and attempts once they are over: for the accounts, and to ask others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from koala.core.model.values import ClaimId, Instant, Seconds, SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A claim that held processors, or that its site failed; `ended_at` and `end` None: it lives.

    `batch_job` is the number that the site's batch system gave it, empty where it gives none.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """An attempt that was given up, and the sites that it had been placed at."""

    attempt: int
    at: Instant
    sites: tuple[SiteName, ...]


class Trouble(StrEnum):
    """Of a job with a site: it would not have the job, failed with it, or did not send its file."""

    REFUSED = "refused"
    ERRED = "erred"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A site would not have a job, or erred with it: the job leaves it alone for `pause_s` from
    then on."""

    at: Instant
    pause_s: Seconds
    reason: str
    trouble: Trouble = Trouble.REFUSED

    @property
    def again_at(self) -> Instant:
        """From when on the site may be asked again."""
        return self.at + self.pause_s
