"""Tracked claims of a batch manager, and the idle figures derived from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from koala_agent.lrm.batch.dialect import PROCESSORS_MAX, Figures, JobState
from koala_agent.lrm.port import EndCause, Idle, Listed


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """Claim as it is stored, from just before its submission. `number` is empty until the batch
    system has assigned it; `is_unwanted` is set by a withdrawal, with a `verdict` when the agent
    itself withdrew it; `account` is the one that it runs as, empty for the agent's own."""

    claim: str
    processors: int
    number: str = ""
    is_unwanted: bool = False
    verdict: tuple[EndCause, str] | None = None
    end: tuple[EndCause, int | None, str] | None = None
    account: str = ""
    gpus: int = 0


@dataclass(slots=True, kw_only=True)
class TrackedClaim:
    """Claim of ours.

    `reported` is the last reported kind of state. `is_listed` is set when the batch system has
    listed the job under this number in this life, and no later poll missed it.
    """

    row: ClaimRow
    state: JobState = JobState.QUEUED
    reported: type[Listed] | None = None
    missing_since: float | None = None
    is_listed: bool = False
    is_submitting: bool = False  # its submission is under way
    submitted_in_poll: int = 0  # the last poll that had begun at the end of its submission
    is_limited: bool = False  # it waits because our user has reached a limit

    def is_settled(self) -> bool:
        """True when there is nothing to submit."""
        return bool(self.row.number) or self.row.end is not None or self.is_submitting


def idle_of(
    figures: Figures, claims_known: Iterable[TrackedClaim], *, allowed: int, unsure: int = 0
) -> Idle:
    """Derive the idle processors: the last figures less the waiting claims, which will take some of
    them. `unsure` are the processors of claims in an unknown state; at most those in use are
    counted.

    Jobs that wait before ours have a right to the idle processors. Backfilling may decide
    otherwise; a claim that got no processors is refused after its grace time.
    """
    claims = [claim for claim in claims_known if claim.row.end is None]
    running, waiting = (
        sum(claim.row.processors for claim in claims if claim.state is state)
        for state in (JobState.RUNNING, JobState.QUEUED)
    )
    in_use = figures.processors - figures.idle
    running += min(unsure, max(0, in_use - running))
    idle = max(0, min(figures.idle, allowed - running) - waiting)
    local = in_use - running
    wanted = sum(claim.row.gpus for claim in claims if claim.state is JobState.QUEUED)
    return Idle(
        processors=min(figures.processors, allowed),
        idle=idle,
        startable=0 if others_waiting(figures, claims) else idle,
        queued_jobs=figures.queued_jobs,
        local_processors=min(max(0, local), PROCESSORS_MAX),
        idle_gpus=max(0, figures.idle_gpus - wanted),
        resources=figures.resources,
    )


def others_waiting(figures: Figures, claims_known: Iterable[TrackedClaim]) -> int:
    """Count the jobs of others that wait for processors."""
    ours = sum(
        claim.row.end is None and claim.state is JobState.QUEUED and not claim.is_limited
        for claim in claims_known
    )
    return max(0, figures.queued_jobs - ours)
