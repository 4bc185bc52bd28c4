"""Collection of progress reports until all components of a job have reported a cycle. Pure.

A controller decides about a job after all its subtasks have reported (SQ figure 5), so a single
report is no event. Reports are neither journaled nor repeated: the next cycle replaces a lost one.
"""

from __future__ import annotations

from koala.core.model.events import ProgressReported
from koala.core.model.job import Running
from koala.core.model.progress_reports import MemberReport
from koala.core.model.values import JobId, SiteName
from koala.core.pipeline.progress_control import watched
from koala.core.scheduler import Scheduler
from koala.protocol.messages import Progress

CYCLES_MAX = 8
"""Incomplete cycles kept of a job: a site that is further behind is away, or nearly so."""

_Cycles = dict[int, dict[int, MemberReport]]


class ProgressGatherer:
    """Incomplete cycles, by job and attempt."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[JobId, int], _Cycles] = {}

    def add(self, news: Progress, site: SiteName, scheduler: Scheduler) -> ProgressReported | None:
        """Add a component's report; return the event when it completes its cycle."""
        claim = scheduler.ledger.get(news.claim)
        if claim is None or claim.site != site:
            return None
        job = scheduler.placed.get(claim.job)
        attempt = None if job is None else job.attempt
        if job is None or attempt is None or attempt.number != claim.attempt:
            return None
        if not isinstance(job.phase, Running) or not job.spec.is_controlled:
            return None
        key = job.id, claim.attempt
        if key not in self._jobs:
            self._drop_ended(scheduler)
        cycles = self._jobs.setdefault(key, {})
        reported = cycles.setdefault(news.cycle, {})
        reported[claim.component] = MemberReport(
            component=claim.component,
            work=news.work,
            is_told=news.is_told,
            can_pace=news.can_pace,
        )
        if any(member.component not in reported for member in watched(job)):
            while len(cycles) > CYCLES_MAX:
                del cycles[min(cycles)]
            return None
        for cycle in [cycle for cycle in cycles if cycle <= news.cycle]:
            del cycles[cycle]
        members = tuple(reported[component] for component in sorted(reported))
        return ProgressReported(
            job=job.id, attempt=claim.attempt, cycle=news.cycle, members=members
        )

    def _drop_ended(self, scheduler: Scheduler) -> None:
        for job, attempt in tuple(self._jobs):
            known = scheduler.placed.get(job)
            if known is None or known.attempt is None or known.attempt.number != attempt:
                del self._jobs[job, attempt]
