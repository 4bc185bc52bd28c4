"""Claims: the entries of the ledger, and the phases that they go through.

    Asked -> Granted -> Armed -> Released -> Passed        each -> Stopped, until the claim is gone

A phase carries exactly the data that exists in it. A claim without a barrier goes from Granted to
Passed. A claim that is gone leaves the ledger.

A *ticket* is a claim that waits in the local queue as long as it takes. While it is *gated* it
cannot start, and keeps its place there. A *booking* is a ticket that begins at a known instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from koala.core.model.charges import Charge, StatedStart
from koala.core.model.job import ClaimEnd
from koala.core.model.job_spec import StartType
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Check-in of the starter: its nonce, address and hosts, and the number of its batch job. The
    daemon learned of it `at`; by the starter's clock it `began_at`."""

    at: Instant
    began_at: Instant | None = None
    nonce: str
    batch_job: str = ""
    address: str = ""
    hosts: tuple[tuple[str, int], ...] = ()

    @property
    def held_from(self) -> Instant:
        """Return the instant from which its processors are charged for."""
        return self.at if self.began_at is None else self.began_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Sent to the site; no starter has checked in."""

    name: ClassVar[str] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Held by a starter."""

    name: ClassVar[str] = "granted"
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """Its starter has promised not to abort before D."""

    name: ClassVar[str] = "armed"
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Its starter may pass."""

    name: ClassVar[str] = "released"
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Its program runs."""

    name: ClassVar[str] = "passed"
    grant: Grant
    passed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Not wanted any more; a Stop is pending until it is gone."""

    name: ClassVar[str] = "stopping"
    grant: Grant | None  # None: stopped before an answer
    passed_at: Instant | None
    may_run: bool  # it may have passed, or may pass yet: the fence counts
    is_silent: bool = False  # past its fence at a connected site: an error, counted already


_MAY_HAVE_PASSED = (Passed, Stopped)  # a union in `isinstance` is made again at each call
Held: TypeAlias = Granted | Armed | Released | Passed
"""Phases in which a starter holds the processors for the job."""


@dataclass(slots=True, kw_only=True, eq=False)
class Claim:
    """Entry of the ledger; deleted when the claim is gone."""

    id: ClaimId
    job: JobId
    attempt: int
    component: int
    site: SiteName
    processors: int  # that it takes, also where its component asks for less
    start_type: StartType
    asked_at: Instant
    ask_number: int  # sequence number of claims at the site; its reports refer to it
    hold_s: Seconds
    grace_until: Instant
    wake_s: Seconds = 0.0  # its machines may have to be powered up: part of its grace time
    fence_s: Seconds = 0.0  # from the longest lease that its starter ever got
    is_preempting: bool = False  # low-priority jobs are stopped for it
    may_kill: bool = False  # local jobs may be killed for it
    is_ticket: bool = False
    is_gated: bool = False
    begins_at: Instant = 0.0  # of a booking; 0: when its turn comes
    start_at: Instant | None = None  # when it would start if it were eligible now, as was told
    stated: StatedStart | None = None  # of an open one, as it was told first
    opened_at: Instant | None = None  # None: it was asked for open, or is gated
    has_told_start: bool = False  # its site has told one
    told_at: Instant = 0.0  # when its site was last told that it is wanted
    phase: Asked | Held | Stopped = Asked()

    @property
    def grant(self) -> Grant | None:
        """The check-in of its starter, if it was accepted."""
        return None if isinstance(self.phase, Asked) else self.phase.grant

    @property
    def passed_at(self) -> Instant | None:
        """The instant of its pass, if it was reported."""
        return self.phase.passed_at if isinstance(self.phase, _MAY_HAVE_PASSED) else None

    @property
    def may_run(self) -> bool:
        """Return True if it may have passed, or may pass yet: the fence counts. A claim without a
        barrier runs from check-in on, without a Release."""
        if isinstance(self.phase, Stopped):
            return self.phase.may_run
        return isinstance(self.phase, Released | Passed) or self.start_type is StartType.NONE


def claim_charge(
    claim: Claim, end: ClaimEnd | None, now: Instant, *, batch_job: str = ""
) -> Charge:
    """Make the accounting record of a claim; `end` is None while it lives."""
    grant = claim.grant
    return Charge(
        claim=claim.id,
        attempt=claim.attempt,
        site=claim.site,
        processors=claim.processors,
        batch_job=batch_job or (grant.batch_job if grant is not None else ""),
        asked_at=claim.asked_at,
        granted_at=None if grant is None else grant.held_from,
        passed_at=claim.passed_at,
        ended_at=None if end is None else end.ended_at or now,
        end=None if end is None else end.kind.value,
        stated=claim.stated,
        forwarded_bytes=0 if end is None else end.forwarded_bytes or 0,
    )
