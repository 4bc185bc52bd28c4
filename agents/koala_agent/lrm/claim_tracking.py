"""What a batch manager knows of its claims, and what follows for the idle processors. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from koala_agent.lrm.dialect import PROCESSORS_MAX, Figures, JobState
from koala_agent.lrm.port import EndCause, Idle, Listed


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as it is stored, from just before its submission. `number` is empty until the batch
    system has told it; `is_unwanted` since it was withdrawn, with `verdict` by ourselves; `account`
    is the one that it runs as, empty for the agent's own."""

    claim: str
    processors: int
    number: str = ""
    is_unwanted: bool = False
    verdict: tuple[EndCause, str] | None = None
    end: tuple[EndCause, int | None, str] | None = None
    account: str = ""


@dataclass(slots=True, kw_only=True)
class TrackedClaim:
    """A claim of ours; `told` is what the agent has heard, and `is_there` says that the batch
    system told us of its job under this number in this life, and that no look missed it since."""

    row: ClaimRow
    state: JobState = JobState.QUEUED
    told: type[Listed] | None = None
    missing_since: float | None = None
    is_there: bool = False
    is_asked: bool = False  # its submission is under way
    asked_in: int = 0  # the look that had begun last when its submission ended
    is_limited: bool = False  # it waits because our user has all that is allowed

    def is_settled(self) -> bool:
        """Nothing of it need be submitted."""
        return bool(self.row.number) or self.row.end is not None or self.is_asked


def idle_of(
    figures: Figures, known: Iterable[TrackedClaim], *, allowed: int, unsure: int = 0
) -> Idle:
    """The last figures less the claims that wait, which will have some of the idle processors.
    `unsure` are the processors of claims of which nobody knows whether they run: not more of them
    than are in use.

    Who waits before us has the right to what is idle: backfilling may say otherwise, and a claim
    that finds out is refused after its grace time.
    """
    claims = [claim for claim in known if claim.row.end is None]
    running, waiting = (
        sum(claim.row.processors for claim in claims if claim.state is state)
        for state in (JobState.RUNNING, JobState.QUEUED)
    )
    in_use = figures.processors - figures.idle
    running += min(unsure, max(0, in_use - running))
    idle = max(0, min(figures.idle, allowed - running) - waiting)
    local = in_use - running
    return Idle(
        processors=min(figures.processors, allowed),
        idle=idle,
        startable=0 if others_waiting(figures, claims) else idle,
        queued_jobs=figures.queued_jobs,
        local_processors=min(max(0, local), PROCESSORS_MAX),
    )


def others_waiting(figures: Figures, known: Iterable[TrackedClaim]) -> int:
    """Jobs that wait for processors and are not ours."""
    ours = sum(
        claim.row.end is None and claim.state is JobState.QUEUED and not claim.is_limited
        for claim in known
    )
    return max(0, figures.queued_jobs - ours)
