"""Collection of progress reports until all components of a job have reported a cycle. Pure.

A controller decides about a job after all its subtasks have reported (SQ figure 5), so a single
report is no event. Reports are neither journaled nor repeated: the next cycle replaces a lost one.
"""

from __future__ import annotations

from koala.common.protocol.messages import Progress
from koala.core.model.events import ProgressReported
from koala.core.model.job import Running
from koala.core.model.progress_reports import MemberReport
from koala.core.model.values import JobId, SiteName
from koala.core.pipeline.progress_control import controlled_members
from koala.core.queries import live_attempt
from koala.core.scheduler import Scheduler

CYCLES_MAX = 8
"""Incomplete cycles kept of a job: a site that is further behind is away, or nearly so."""

_Cycles = dict[int, dict[int, MemberReport]]


class ProgressGatherer:
    """Incomplete cycles, by job and attempt."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[JobId, int], _Cycles] = {}

    def add(
        self, report: Progress, site: SiteName, scheduler: Scheduler
    ) -> ProgressReported | None:
        """Add a component's report; return the event when it completes its cycle."""
        claim = scheduler.ledger.get(report.claim)
        if claim is None or claim.site != site:
            return None
        attempt = live_attempt(scheduler, claim.job, claim.attempt)
        if attempt is None:
            return None
        job = scheduler.jobs[claim.job]
        if not isinstance(job.phase, Running) or not job.spec.is_controlled:
            return None
        key = job.id, claim.attempt
        if key not in self._jobs:
            self._drop_ended(scheduler)
        cycles = self._jobs.setdefault(key, {})
        reported = cycles.setdefault(report.cycle, {})
        reported[claim.component] = MemberReport(
            component=claim.component,
            work=report.work,
            is_told=report.is_told,
            can_pace=report.can_pace,
        )
        if any(member.component not in reported for member in controlled_members(attempt)):
            while len(cycles) > CYCLES_MAX:
                del cycles[min(cycles)]
            return None
        for cycle in [cycle for cycle in cycles if cycle <= report.cycle]:
            del cycles[cycle]
        members = tuple(reported[component] for component in sorted(reported))
        return ProgressReported(
            job=job.id, attempt=claim.attempt, cycle=report.cycle, members=members
        )

    def _drop_ended(self, scheduler: Scheduler) -> None:
        for job, attempt in tuple(self._jobs):
            if live_attempt(scheduler, job, attempt) is None:
                del self._jobs[job, attempt]
