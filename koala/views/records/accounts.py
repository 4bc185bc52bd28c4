"""The cost of claims, and reports of it."""

from __future__ import annotations

import msgspec

from koala.views.records.base import Moment, Record


class ClaimCost(Record, frozen=True, kw_only=True):
    """The cost of one claim. One that never checked in has a row only if its site failed it."""

    claim: str
    """Id of the claim."""
    batch_job: str | None = None
    """Its number in the site's batch system; empty if there is none."""
    job: str = ""
    """Id of its job."""
    user: str = ""
    """Owner of the job."""
    site: str = ""
    """Site of the processors."""
    processors: int = 0
    """Number of processors."""
    asked_at: Moment
    """When the site was asked."""
    granted_at: Moment | None = None
    """Start of its batch job."""
    passed_at: Moment | None = None
    """When it passed the barrier."""
    ended_at: Moment | None = None
    """When its processors were free again."""
    end: str | None = None
    """How it ended; null while it lives."""
    run_s: float = 0.0
    """Processor-seconds from the pass of the barrier to the end."""
    held_s: float = 0.0
    """Processor-seconds from `granted_at` to the pass, or until now while it waits."""
    forwarded_bytes: int = 0
    """Bytes that its program moved to and from ports of others through the grid; known at its end.
    """
    wasted_s: float = 0.0
    """All of its processor-seconds if it ended without a pass, or its attempt was given up."""
    stated_at: Moment | None = None
    """When its start was stated, while it waited in a local queue; null: never."""
    earliest_at: Moment | None = None
    """Begin of the interval that was stated."""
    latest_at: Moment | None = None
    """End of this interval."""


class ReportRow(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The cost of one user, site, day or job, or of all; of the subjects it names its own."""

    user: str | None = None
    """In a report by user: an owner of jobs."""
    group: str | None = None
    """In a report by group: a group of users."""
    site: str | None = None
    """In a report by site: its name."""
    day: str | None = None
    """In a report by day: the day (UTC), as 2026-11-21."""
    job: str | None = None
    """In a report by job: its id."""
    jobs_finished: int
    """Jobs that Finished in the period; by site: counted at each site where they held
    processors."""
    jobs_failed: int
    """Jobs that Failed, likewise."""
    jobs_cancelled: int
    """Jobs that were Cancelled, likewise."""
    claims: int
    """Claims that checked in."""
    run_s: float
    """Processor-seconds from the pass of the barrier to the end."""
    held_s: float
    """Processor-seconds from `granted_at` to the pass, or until now while it waits."""
    wasted_s: float
    """Processor-seconds of claims that ended without a pass, and of attempts that were given
    up."""
    skew_median_s: float | None
    """Median skew of the last starts of jobs with several components; null: there were none."""
    skew_max_s: float | None
    """Largest such skew."""
    failed_claims: int
    """Claims that ended by a fault of their site."""
    forwarded_bytes: int = 0
    """Bytes moved to and from ports of others through the grid, by claims that ended in the period.
    """
    setbacks: int
    """Attempts that were given up; by site: counted at each site where they were placed."""
    starts_stated: int = 0
    """Claims that started in a local queue after their start was stated."""
    starts_met: int = 0
    """Those of them that started within the stated interval."""


class ReportBounds(Record, frozen=True, kw_only=True):
    """Subject of a report, and its bounds."""

    by: str
    """Subject of the rows: user, site, day, job or claim."""
    since: Moment | None = None
    """Begin of the period; null: no bound."""
    until: Moment | None = None
    """End of the period; null: no bound."""
    user: str | None = None
    """Only jobs of this user; null: all."""
    site: str | None = None
    """Only claims at this site; null: all."""


class Report(ReportBounds, frozen=True, kw_only=True):
    """Costs of jobs, a row for each subject."""

    rows: tuple[ReportRow, ...] = ()
    """Rows in order of their subject."""
    total: ReportRow | None = None
    """The cost of all; a job at several sites counts once."""

    @property
    def claims(self) -> tuple[ClaimCost, ...]:
        """Nothing: a report by claim has them."""
        return ()


class ClaimReport(ReportBounds, frozen=True, kw_only=True):
    """Costs of claims: a report by claim."""

    claims: tuple[ClaimCost, ...] = msgspec.field(default=(), name="rows")
    """Claims in order of their jobs."""
    total: None = None
    """Always null."""

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        """Nothing: this report has claims in their place."""
        return ()
