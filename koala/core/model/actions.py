"""Actions: commands to the driver, carried out once the event that caused them is durable. Frozen,
imperative.

`Scheduler.wanted(site)` is the complete wanted state of a site (claims, transfers). It is sent
whole at each registration. An action for a site is only an early delta of it, and may be dropped
while the site is disconnected. An action about a claim is the message of the link (`messages`) for
its site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from koala.common.protocol import messages
from koala.core.model.values import FileName, Instant, JobId, Seconds, SiteName, TransferId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimProcessors(messages.Hold):
    """Start a placeholder for this claim within the site's grace time."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPaths(messages.TryPaths):
    """Make the starter probe its TCP paths; it answers with PathsTried. Idempotent."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmClaim(messages.Arm):
    """Ask the starter to promise not to abort before D."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim(messages.Release):
    """Open the barrier for a member."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeClaim(messages.Resize):
    """Tell a component which members its malleable job has now, or ask it to give way."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceClaim(messages.Pace):
    """Limit the component to a share of the time; its starter pauses it for the rest."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class StopClaim(messages.Stop):
    """Stop a claim. Owed until the claim is Gone."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeClaim(messages.Acknowledge):
    """Acknowledge the end of a claim: it is durable here, so the agent may forget it."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTransfer:
    """Copy `size_bytes` of a file, starting at `offset`, from `source` to `target`."""

    transfer: TransferId
    file: FileName
    source: SiteName
    target: SiteName
    offset: int
    size_bytes: int
    checksum: str  # of the whole file; empty when unknown
    booked_bps: float = 0.0  # at so many bytes a second, which the link keeps for it; 0: as it can
    report_s: Seconds = 0.0  # between two reports of how far it is, at least; 0: none are wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTransfer:
    """Cancel a copy that is not wanted any more; its partial file may be deleted."""

    transfer: TransferId
    source: SiteName
    target: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutputs:
    """Publish the output files of a job that Finished in this attempt, in the spool."""

    job: JobId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Announce a fact about a job or a site to watchers, message bus and log."""

    at: Instant
    text: str
    job: JobId | None = None
    site: SiteName | None = None
    phase: str = ""  # the job's new phase, when it changed


Action: TypeAlias = (
    ClaimProcessors
    | TryPaths
    | ArmClaim
    | ReleaseClaim
    | ResizeClaim
    | PaceClaim
    | StopClaim
    | AcknowledgeClaim
    | StartTransfer
    | CancelTransfer
    | PublishOutputs
    | Announce
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Wanted state of a site: claims to hold, paths to try, releases, resizes, paces and stops;
    copies to fetch and to serve.
    """

    holds: tuple[ClaimProcessors, ...] = ()
    paths: tuple[TryPaths, ...] = ()
    releases: tuple[ReleaseClaim, ...] = ()
    resizes: tuple[ResizeClaim, ...] = ()
    paces: tuple[PaceClaim, ...] = ()
    stops: tuple[StopClaim, ...] = ()
    fetches: tuple[StartTransfer, ...] = ()
    serves: tuple[StartTransfer, ...] = ()
