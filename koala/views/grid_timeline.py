"""Builder of the timeline of the grid, from the state and what was noted of local jobs.

The state may be the daemon's or that of a simulated run. The work is bounded: of jobs that are over
the newest are looked at, back to the begin of the period; of others the newest `JOBS_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from koala.core.model.charges import Charge
from koala.core.model.claim import Claim
from koala.core.model.events import Event, SiteReported
from koala.core.model.job import Job
from koala.core.model.values import Instant, JobId, SiteName, claim_numbers
from koala.core.state import State
from koala.views.records.base import Moment, moment_of
from koala.views.records.chart import ChartClaim, ChartSite, ClaimState, GridTimeline, LocalUse

PERIOD_S = 1_800.0
CLAIMS_MAX = 1_000
SITES_MAX = 200
JOBS_MAX = 5_000
POINTS_MAX = 240
"""Changes of local use of a site in a document."""
STEP_S = 10.0
KEPT = 360
"""Changes of a site's local use that are kept, at most one in `STEP_S`. When they are more, every
second one of the older half goes: the longer ago, the coarser."""


@dataclass(slots=True)
class LocalHistory:
    """Processors of local jobs at each site over time, as its reports said."""

    _points: dict[SiteName, list[tuple[Instant, int]]] = field(default_factory=dict)

    def note(self, event: Event, at: Instant) -> None:
        """Note an event; only reports of sites matter."""
        if not isinstance(event, SiteReported):
            return
        points = self._points.setdefault(event.site, [])
        if not points or at - points[-1][0] >= STEP_S:
            if not points or points[-1][1] != event.local:
                points.append((at, event.local))
                if len(points) > KEPT:
                    points[: KEPT // 2] = points[: KEPT // 2 : 2]
        else:
            points[-1] = (points[-1][0], event.local)

    def within(self, site: SiteName, since: Instant, until: Instant) -> list[tuple[Instant, int]]:
        """Return the changes of a period, with the use at its begin; thinned out if they are too
        many."""
        points = self._points.get(site, [])
        before = [use for at, use in points if at <= since]
        inner = [(at, use) for at, use in points if since < at < until]
        step = 1 + len(inner) // POINTS_MAX
        begin = [(since, before[-1])] if before else []
        return begin + inner[step - 1 :: step]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Part of the grid that a chart shows: the sites, and jobs of whom."""

    sites: Collection[SiteName]
    sees: Callable[[str], bool] = lambda _: True


def grid_timeline(
    state: State,
    local: LocalHistory,
    view: View,
    *,
    now: Instant,
    since: Instant | None = None,
    until: Instant | None = None,
) -> GridTimeline:
    """Collect the claims of a period; without bounds of the last half hour."""
    until = now if until is None else until
    since = until - PERIOD_S if since is None else min(since, until)
    rows = [
        row
        for row in _rows(state, since, now, view.sees)
        if row.site in view.sites
        and row.asked_at <= until
        and (row.ended_at is None or row.ended_at >= since)
    ]
    rows.sort(key=lambda row: (row.asked_at, row.claim))
    left_out = max(0, len(rows) - CLAIMS_MAX)
    if left_out:
        rows = rows[-CLAIMS_MAX:]
        since = max(since, rows[0].asked_at)
    sites = [site for site in state.sites.values() if site.name in view.sites]
    return GridTimeline(
        since=Moment.of(since),
        until=Moment.of(until),
        now_at=Moment.of(now),
        sites=tuple(
            ChartSite(
                site=site.name,
                processors=site.facts.processors,
                local=tuple(
                    LocalUse(Moment.of(at), use)
                    for at, use in local.within(site.name, since, min(until, now))
                ),
            )
            for site in sites[:SITES_MAX]
        ),
        claims=tuple(row.make() for row in rows),
        left_out=left_out,
    )


class _Row(NamedTuple):
    """A claim, of which a record is made only if it is among the newest."""

    asked_at: Instant
    claim: str
    site: SiteName
    ended_at: Instant | None
    make: Callable[[], ChartClaim]


def _rows(
    state: State, since: Instant, now: Instant, sees: Callable[[str], bool]
) -> Iterator[_Row]:
    """Yield claims of the jobs that were not over by `since`."""
    live: dict[JobId, list[Claim]] = {}
    for claim in state.ledger.values():
        live.setdefault(claim.job, []).append(claim)
    for job in _jobs(state, since, live):
        if not sees(job.spec.owner):
            continue
        given_up = {setback.attempt for setback in job.setbacks}
        for charge in job.charges:
            is_wasted = charge.passed_at is None or charge.attempt in given_up
            make = partial(_ended, job, charge, is_wasted=is_wasted)
            yield _Row(charge.asked_at, charge.claim, charge.site, charge.ended_at, make)
        for claim in live.get(job.id, ()):
            make = partial(_living, job, claim, now, is_wasted=claim.attempt in given_up)
            yield _Row(claim.asked_at, claim.id, claim.site, None, make)


def _jobs(state: State, since: Instant, live: Collection[JobId]) -> Iterator[Job]:
    over: set[JobId] = set()
    for identity in reversed(state.ended):
        job = state.jobs[identity]
        if state.ended[identity] < since or len(over) >= JOBS_MAX:
            break
        over.add(identity)
        yield job
    alive = (job for job in islice(reversed(state.jobs.values()), JOBS_MAX) if not job.has_ended)
    known = set(over)
    for job in alive:
        known.add(job.id)
        yield job
    yield from (state.jobs[identity] for identity in live if identity not in known)


def _ended(job: Job, charge: Charge, *, is_wasted: bool) -> ChartClaim:
    _, component, _ = claim_numbers(charge.claim)
    return ChartClaim(
        claim=charge.claim,
        job=job.id,
        name=job.spec.name or "",
        user=job.spec.owner,
        part=job.spec.label(component),
        site=charge.site,
        processors=charge.processors,
        state="ended",
        is_wasted=is_wasted,
        asked_at=Moment.of(charge.asked_at),
        granted_at=moment_of(charge.granted_at),
        passed_at=moment_of(charge.passed_at),
        ended_at=moment_of(charge.ended_at),
    )


def _living(job: Job, claim: Claim, now: Instant, *, is_wasted: bool) -> ChartClaim:
    granted_at = None if claim.grant is None else claim.grant.held_from
    wall_s = job.spec.component(claim.component).wall_time_s
    begin = claim.passed_at or (claim.start_at if granted_at is None else None)
    return ChartClaim(
        claim=claim.id,
        job=job.id,
        name=job.spec.name or "",
        user=job.spec.owner,
        part=job.spec.label(claim.component),
        site=claim.site,
        processors=claim.processors,
        state=_state(claim),
        is_wasted=is_wasted,
        asked_at=Moment.of(claim.asked_at),
        granted_at=moment_of(granted_at),
        passed_at=moment_of(claim.passed_at),
        start_at=None
        if granted_at is not None or claim.start_at is None
        else Moment.of(max(now, claim.start_at)),
        end_at=None if begin is None or wall_s is None else Moment.of(begin + wall_s),
    )


def _state(claim: Claim) -> ClaimState:
    if claim.passed_at is not None:
        return "running"
    if claim.grant is not None:
        return "held"
    return "gated" if claim.is_gated else "queued"


def all_sites(state: State) -> View:
    """Return the view of who may see all."""
    return View(sites=frozenset(state.sites))
