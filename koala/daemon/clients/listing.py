"""Lists of jobs, read in parts, so that a long list does not block other calls.

A change between two parts may show in the later one: each job is shown as of some instant of the
call. Jobs are listed in the order of their numbers, which is that of submission.

Concurrency and memory are bounded: reads of the archive are interleaved page by page, each user has
one long call at a time, and few run in all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.job import Job
from koala.core.model.values import JobId
from koala.daemon.auth.access_rules import Caller
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext
from koala.daemon.quotas import SlowCallQueue
from koala.daemon.storage.archive import ArchivePage, ArchiveQuery, Place
from koala.daemon.storage.journal import Journal
from koala.errors import SpecError
from koala.views.documents import listed
from koala.views.records.jobs import JobSummary
from koala.views.waiting import SiteQueues

PAGE_MAX = 1_000
PART = 500
"""Jobs read in one batch of the event loop, for fairness to other calls."""
_ID = re.compile(r"j(\d{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Query for a list of jobs: the newest `last`, or a page of those after number `after`.

    `page` 0 means all. `jobs` restricts it to these, if any are named. `queues` has what sites tell
    of their local queues.
    """

    caller: Caller
    queues: SiteQueues
    sees_all: bool
    phases: frozenset[str]
    owner: str
    last: int
    after: int
    page: int
    jobs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: pb.ListRequest, caller: Caller, queues: SiteQueues) -> Listing:
        """Parse a client's request. Raises SpecError."""
        if request.last and (request.page or request.after):
            text = (
                f"last = {request.last} with page = {request.page}, after = {request.after[:40]!r}"
            )
            raise SpecError(f"{text} (expected either last or a page, not both)")
        return cls(
            caller=caller,
            queues=queues,
            sees_all=caller.sees(""),
            phases=frozenset(request.phases),
            owner=request.owner,
            last=request.last,
            after=_number(request.after) if request.after else -1,
            page=min(request.page, PAGE_MAX),
            jobs=frozenset(request.jobs),
        )

    async def read(self, event_loop: EventLoop) -> tuple[list[JobSummary], JobId | None]:
        """Read summaries of the jobs in order; after a full page also the next page's `after`."""
        names = await event_loop.ask(lambda batch: self._names(batch.scheduler.jobs))
        if self.last:
            names.reverse()
        elif self.after >= 0:
            names = names[bisect_right(names, self.after, key=_number) :]
        most = self.last or self.page or len(names)
        summaries: list[JobSummary] = []
        for first in range(0, len(names), PART):
            part = names[first : first + PART]

            def query(batch: BatchContext, part: Sequence[JobId] = part) -> list[JobSummary]:
                jobs = batch.scheduler.jobs
                wanted = [jobs[name] for name in part if name in jobs]
                shown = [job for job in wanted if self.has(job)]
                return listed(batch.scheduler, shown, self.queues, batch.now)

            summaries += await event_loop.ask(query)
            if len(summaries) >= most:
                break
        summaries = summaries[:most]
        if self.last:
            summaries.reverse()
        is_full = self.page > 0 and len(summaries) == self.page
        return summaries, JobId(summaries[-1].job) if is_full else None

    def _names(self, known: Mapping[JobId, Job]) -> list[JobId]:
        """Return the ids of the jobs to read, in order of submission."""
        if not self.jobs:
            return list(known)
        return sorted((JobId(job) for job in self.jobs if job in known), key=_number)

    def has(self, job: Job) -> bool:
        """Return True for a job that matches and that the caller may see."""
        owner = job.spec.owner
        return (
            (self.sees_all or self.caller.sees(owner))
            and (not self.phases or job.phase_name in self.phases)
            and (not self.owner or owner == self.owner)
            and (not self.jobs or job.id in self.jobs)
        )


def damaged_job(job: str) -> JobSummary:
    """Return the placeholder, in a list, of an archived job that is damaged."""
    reason = "it does not match its checksum: the journal is damaged"
    return JobSummary(job=job, name="", phase="Damaged", priority="", reason=reason)


def _number(job: str) -> int:
    """Parse the number of a job's id. Raises SpecError."""
    match = _ID.fullmatch(job)
    if match is None:
        raise SpecError(f"after = {job[:40]!r} (expected a job's id, as j17)")
    return int(match[1])


READS_MAX = 2  # at a time


class ArchiveQueries:
    """Queries of archived jobs, which have left the core's state."""

    def __init__(self, journal: Journal, *, calls_per_user: int) -> None:
        self._journal = journal
        self._slots = SlowCallQueue(most=calls_per_user, at_once=READS_MAX)

    def slot(self, user: str) -> AbstractAsyncContextManager[None]:
        """Hold the user's slot for a long call, including its queries of the state. Raises
        ExhaustedError."""
        return self._slots.slot(user)

    async def read(self, wanted: ArchiveQuery) -> AsyncGenerator[ArchivePage, None]:
        """Yield the wanted jobs page by page, latest end first; the caller must hold the slot.

        Close the generator to stop early. To include all jobs that have left the state so far, ask
        the event loop first. Raises JournalError.
        """
        before: Place | None = wanted.before
        while before is not None:
            part = await self._journal.jobs(replace(wanted, before=before))
            before = part.before
            yield part


def owner_wanted(caller: Caller, owner: str) -> str | None:
    """Return the owner whose jobs to read when a caller asks for those of `owner` (empty: all);
    None for all owners."""
    return (owner or None) if caller.sees(owner) else caller.name


def no_job(job: str) -> str:
    """Explain that there is no job of this id."""
    return f"no job {job[:80]!r}" + (f"; did you mean j{job}?" if job.isdecimal() else "")
