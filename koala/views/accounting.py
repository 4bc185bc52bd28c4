"""Accounting of jobs: processor-seconds run, held and wasted, by user, site, day, job or claim.

- Each processor-second of a claim, from check-in to end, is counted once: as *run* from the pass to
  the end, as *held* from check-in to a pass.
- It is *wasted* instead if the claim ended without a pass or its attempt was given up.
- The sum agrees with a site's own records of its batch jobs, except for the time of a placeholder
  before its check-in.
- Spans are cut at the bounds of a period. A fact with one instant (an end, a start, a fault)
  belongs to the period that contains the instant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from statistics import median
from typing import Any

from msgspec.structs import replace

from koala.core.model.charges import Charge
from koala.core.model.claim import claim_charge
from koala.core.model.job import SITE_FAULTS, Cancelled, Failed, Finished, Job
from koala.core.model.values import Instant, JobId, Seconds, SiteName, UserName
from koala.core.state import State
from koala.views.records import accounts
from koala.views.records.base import Moment, moment_of

DAY_S = 86_400.0
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


class By(StrEnum):
    """Key of the rows of a report."""

    USER = "user"
    GROUP = "group"
    SITE = "site"
    DAY = "day"
    JOB = "job"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Period from `since` to before `until`, perhaps for one user's jobs or one site's claims."""

    since: Instant = -math.inf
    until: Instant = math.inf
    user: UserName | None = None
    site: SiteName | None = None

    def has(self, at: Instant | None) -> bool:
        """Return True if the instant is known and in the period."""
        return at is not None and self.since <= at < self.until

    def has_user(self, user: UserName) -> bool:
        """Return True if this user's jobs count."""
        return self.user in (None, user)

    def has_site(self, site: SiteName) -> bool:
        """Return True if claims at this site count."""
        return self.site in (None, site)


def civil_day(at: Instant) -> str:
    """Format the day in UTC of an instant in seconds of the epoch, as 2026-11-21."""
    return date.fromordinal(_EPOCH_ORDINAL + int(at // DAY_S)).isoformat()


class ReportBuilder:
    """Rows of a period and their total; `by` claim has one row a claim and no total.

    It begins with the jobs of a state; purged jobs are added in parts. Only jobs whose owner
    passes the predicate `sees` count."""

    def __init__(
        self,
        state: State,
        by: By,
        period: Period,
        now: Instant,
        sees: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.now = now
        self._by = by
        self._period = period
        self._sees = sees
        self._table = _Table(by=by, period=period, now=now)
        self._claims: list[accounts.ClaimCost] = []
        self._known = frozenset(state.jobs)
        live = _live_charges(state, now)
        for job in state.jobs.values():
            self._count(job, live.get(job.id, []))

    def add(self, past: Iterable[Job]) -> None:
        """Add purged jobs; one that was purged after the report began counts once."""
        for job in past:
            if job.id not in self._known:
                self._count(job, [])

    def report(self) -> accounts.Report | accounts.ClaimReport:
        """Make the report."""
        by, period = self._by.value, self._period
        since = None if period.since == -math.inf else Moment.of(period.since)
        until = None if period.until == math.inf else Moment.of(period.until)
        if self._by is By.CLAIM:
            claims = tuple(sorted(self._claims, key=lambda row: _in_order(row.job)))
            return accounts.ClaimReport(
                by=by, since=since, until=until, user=period.user, site=period.site, claims=claims
            )
        table = self._table
        keys = sorted(table.rows, key=_in_order if self._by is By.JOB else None)
        rows = tuple(replace(table.rows[key].document(), **{by: key}) for key in keys)
        return accounts.Report(
            by=by,
            since=since,
            until=until,
            user=period.user,
            site=period.site,
            rows=rows,
            total=table.total.document(),
        )

    def _count(self, job: Job, live: list[Charge]) -> None:
        if not (self._sees(job.spec.owner) and self._period.has_user(job.spec.owner)):
            return
        charges = [*job.charges, *live]
        if self._by is not By.CLAIM:
            self._table.add(job, charges)
            return
        for charge in charges:
            if self._period.has_site(charge.site):
                row = _claim_row(job, charge, self._period, self.now)
                self._claims += [] if row is None else [row]


def _in_order(job: str) -> tuple[int, str]:
    """Sort key of a job id, in order of submission."""
    return len(job), job


def claim_costs(state: State, job: Job, now: Instant) -> list[accounts.ClaimCost]:
    """Account for a job's claims, living ones included."""
    whole = Period()
    charges = [*job.charges, *_live_charges(state, now).get(job.id, ())]
    rows = [_claim_row(job, charge, whole, now) for charge in charges]
    return [row for row in rows if row is not None]


def _live_charges(state: State, now: Instant) -> dict[JobId, list[Charge]]:
    live: dict[JobId, list[Charge]] = {}
    for claim in state.ledger.values():
        if claim.grant is not None:
            live.setdefault(claim.job, []).append(claim_charge(claim, None, now))
    return live


@dataclass(slots=True)
class _Row:
    """Figures of one user, site, day or job, by the names of the record."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, Seconds] = field(
        default_factory=lambda: dict.fromkeys(("run_s", "held_s", "wasted_s"), 0.0)
    )
    skews: list[Seconds] = field(default_factory=list)

    def document(self) -> accounts.ReportRow:
        """Make the row, without its subject."""
        amounts: dict[str, Any] = {**{name: self.counts[name] for name in COUNTS}, **self.seconds}
        return accounts.ReportRow(
            **amounts,
            skew_median_s=median(self.skews) if self.skews else None,
            skew_max_s=max(self.skews, default=None),
        )


COUNTS = (
    *("jobs_finished", "jobs_failed", "jobs_cancelled", "claims", "failed_claims"),
    *("forwarded_bytes", "setbacks", "starts_stated", "starts_met"),
)


class _Table:
    """Rows by key, and the total, in which a job at two sites counts once."""

    def __init__(self, *, by: By, period: Period, now: Instant) -> None:
        self.rows: dict[str, _Row] = {}
        self.total = _Row()
        self._by = by
        self._period = period
        self._now = now

    def add(self, job: Job, charges: list[Charge]) -> None:
        """Add the costs of a job in the period, its setbacks and its end."""
        given_up = {setback.attempt for setback in job.setbacks}
        for charge in charges:
            self._add_charge(job, charge, is_given_up=charge.attempt in given_up)
        for setback in job.setbacks:
            for row in self._rows(job, setback.at, setback.sites):
                row.counts["setbacks"] += 1
        sites = tuple(dict.fromkeys(charge.site for charge in charges))
        if isinstance(job.phase, Finished | Failed | Cancelled):
            for row in self._rows(job, job.phase.at, sites):
                row.counts["jobs_finished"] += isinstance(job.phase, Finished)
                row.counts["jobs_failed"] += isinstance(job.phase, Failed)
                row.counts["jobs_cancelled"] += isinstance(job.phase, Cancelled)
        self._add_start(job)

    def _add_charge(self, job: Job, charge: Charge, *, is_given_up: bool) -> None:
        at_site = (charge.site,)
        for row in self._rows(job, charge.granted_at, at_site):
            row.counts["claims"] += 1
            if charge.stated is not None and charge.granted_at is not None:
                row.counts["starts_stated"] += 1
                row.counts["starts_met"] += charge.stated.has(charge.granted_at)
        for row in self._rows(job, charge.ended_at, at_site):
            row.counts["failed_claims"] += charge.end in SITE_FAULTS
            row.counts["forwarded_bytes"] += charge.forwarded_bytes
        for kind, since, until in _spans(charge, self._period, self._now, is_given_up=is_given_up):
            for begin, end in self._pieces(since, until):
                for row in self._rows(job, begin, at_site):
                    row.seconds[kind] += charge.processors * (end - begin)

    def _add_start(self, job: Job) -> None:
        """Add the start skew of the last attempt of a job with several components."""
        passes = [] if job.attempt is None else job.attempt.passes
        if job.attempt is not None and len(passes) > 1:
            members = job.attempt.present
            sites = tuple(dict.fromkeys(m.site for m in members if m.site is not None))
            for row in self._rows(job, max(passes), sites):
                row.skews.append(max(passes) - min(passes))

    def _rows(self, job: Job, at: Instant | None, sites: tuple[SiteName, ...]) -> Iterator[_Row]:
        """Rows in which a fact of this instant at these sites counts."""
        if at is None or not self._period.has(at):
            return
        if self._period.site is not None:
            sites = tuple(site for site in sites if self._period.has_site(site))
            if not sites:
                return
        yield self.total
        for key in self._keys(job, at, sites):
            yield self.rows.setdefault(key, _Row())

    def _keys(self, job: Job, at: Instant, sites: tuple[SiteName, ...]) -> tuple[str, ...]:
        match self._by:
            case By.USER:
                return (job.spec.owner,)
            case By.GROUP:
                return (job.spec.group,) if job.spec.group else ()
            case By.SITE:
                return sites
            case By.DAY:
                return (civil_day(at),)
            case By.JOB | By.CLAIM:
                return (job.id,)

    def _pieces(self, since: Instant, until: Instant) -> Iterator[tuple[Instant, Instant]]:
        """Cut a span at midnights if the rows are days."""
        while self._by is By.DAY and until > (midnight := (since // DAY_S + 1) * DAY_S):
            yield since, midnight
            since = midnight
        yield since, until


def _spans(
    charge: Charge, period: Period, now: Instant, *, is_given_up: bool
) -> Iterator[tuple[str, Instant, Instant]]:
    """Spans of the period in which the claim's processors were run, held or wasted."""
    if charge.granted_at is None:
        return
    end = now if charge.ended_at is None else charge.ended_at
    passed_at = charge.passed_at
    if passed_at is None:
        is_live = charge.ended_at is None and not is_given_up
        spans = [("held_s" if is_live else "wasted_s", charge.granted_at, end)]
    else:
        held, run = ("wasted_s", "wasted_s") if is_given_up else ("held_s", "run_s")
        spans = [(held, charge.granted_at, passed_at), (run, passed_at, end)]
    for kind, since, until in spans:
        since, until = max(since, period.since), min(until, period.until)  # noqa: PLW2901
        if since < until:
            yield kind, since, until


def _claim_row(job: Job, charge: Charge, period: Period, now: Instant) -> accounts.ClaimCost | None:
    """Make the row of a claim; None if it is not in the period."""
    given_up = any(setback.attempt == charge.attempt for setback in job.setbacks)
    spans = list(_spans(charge, period, now, is_given_up=given_up))
    if not spans and not period.has(charge.ended_at):
        return None
    stated = charge.stated
    seconds = {"run_s": 0.0, "held_s": 0.0, "wasted_s": 0.0}
    for kind, since, until in spans:
        seconds[kind] += charge.processors * (until - since)
    return accounts.ClaimCost(
        claim=charge.claim,
        batch_job=charge.batch_job,
        job=job.id,
        user=job.spec.owner,
        site=charge.site,
        processors=charge.processors,
        asked_at=Moment.of(charge.asked_at),
        granted_at=moment_of(charge.granted_at),
        passed_at=moment_of(charge.passed_at),
        ended_at=moment_of(charge.ended_at),
        end=charge.end,
        stated_at=None if stated is None else Moment.of(stated.at),
        earliest_at=None if stated is None else Moment.of(stated.earliest_at),
        latest_at=None if stated is None else Moment.of(stated.latest_at),
        forwarded_bytes=charge.forwarded_bytes,
        **seconds,
    )
