"""Model of the grid as one identity sees it, fed by one watch of the daemon.

All pages and all event streams of an identity read this model. So the daemon has one watcher and a
bounded number of queries, however many pages are open:

- a notice marks its job as changed; changed jobs are read together, by id;
- sites are read after notices, and every few seconds, because local users send no notices;
- each kind of question (changed jobs, sites, all jobs) is asked again only after a pause that is
  `QUIET` times as long as its last answer took, so that a slow answer of one kind delays no other.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from koala.client import AsyncClient
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.errors import KoalaError, UnauthenticatedError, UnreachableError
from koala.views.records.base import Record
from koala.views.records.chart import GridTimeline
from koala.views.records.grid import Queues, SiteStatus
from koala.views.records.jobs import Explanation, JobDetails, JobSummary, Notice

GATHER_S = 0.25
"""Time in which changes are gathered."""
SITES_S = 3.0
"""Greatest age of the sites while nothing else changes."""
WAITING_S = 15.0
"""Time after which waiting jobs are read again, because what they wait for changes silently."""
WAITING_MAX = 200
WAITING_PHASES = ("Placing", "Claiming", "Queued")
QUIET = 20
RETRY_S = 1.0
JOBS_AT_ONCE = 500
JOBS_MAX = 200_000
CHANGES_KEPT = 600
ANSWERS_KEPT = 200

FUTURE = 0.1
"""Share of a chart that is still to come."""

R = TypeVar("R", bound=Record)
log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes after which the model stands at notice `number`."""

    serial: int
    number: int
    jobs: tuple[JobSummary, ...] = ()
    sites: tuple[SiteStatus, ...] = ()
    trouble: str | None = None
    texts: dict[str, bytes] = field(default_factory=dict)  # events made of it, by topic


class GridModel:
    """Jobs and sites, and the changes that streams send on."""

    def __init__(self, client: AsyncClient, *, refused: Callable[[], None]) -> None:
        self.jobs: dict[str, JobSummary] = {}
        self.sites: dict[str, SiteStatus] = {}
        self.number = 0
        self.trouble = "the daemon has not answered yet"
        self.is_loaded = asyncio.Event()
        self._client = client
        self._refused = refused
        self._serial = 0
        self._changes: deque[Change] = deque(maxlen=CHANGES_KEPT)
        self._wake = asyncio.Event()
        self._dirty: dict[str, None] = {}
        self._seen = 0  # the newest notice that was received
        self._notified = asyncio.Event()
        self._is_stale = True  # jobs were never read, or a part of the notices is lost
        self._whole_due_s = 0.0  # by the clock of this process: all jobs are not read earlier
        self._sites_due_s = 0.0
        self._waiting_due_s = 0.0
        self._are_sites_old = False  # they were not read in the last round
        self._answers: dict[tuple[type, str], tuple[int, Record]] = {}
        self._versions: dict[str, int] = {}  # of jobs: the serial of the last change

    # --- following the daemon ---------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the daemon until cancelled, or until it refuses the identity."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._refresh())
        except* UnauthenticatedError as refusal:
            log.info("web.identity_refused", reason=str(refusal.exceptions[0]))
            self._refused()

    async def _follow(self) -> None:
        """Mark jobs that notices name, for ever; wait for a daemon that is away."""
        after = -1
        while True:
            try:
                async with aclosing(self._notices(after)) as notices:
                    async for notice in notices:
                        if not notice:
                            self._is_stale = self._is_stale or after < 0
                        else:
                            after = self._seen = notice.number
                            if notice.job:
                                self._dirty[sys.intern(notice.job)] = None
                        self._notified.set()
            except UnauthenticatedError:
                raise
            except KoalaError as error:
                if not isinstance(error, UnreachableError):  # what comes next is not kept any more
                    after = -1
                self._set_trouble(str(error))
            await asyncio.sleep(RETRY_S)

    async def _notices(self, after: int) -> AsyncGenerator[Notice, None]:
        async for notice in self._client.watch(after=after, is_marked=True):
            yield notice

    async def _refresh(self) -> None:
        """Read what changed, round after round."""
        await self._notified.wait()
        while True:
            self._notified.clear()
            pause_s = GATHER_S
            try:
                pause_s = max(pause_s, await self._round())
            except UnauthenticatedError:
                raise
            except KoalaError as error:
                self._set_trouble(str(error))
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(pause_s)
            if not self._dirty:
                try:
                    async with asyncio.timeout(self._calm_s()):
                        await self._notified.wait()
                except TimeoutError:
                    continue

    def _calm_s(self) -> float:
        """Return how long to wait for a notice: until something is due anyhow."""
        due_s = self._sites_due_s if self._are_sites_old else clock.now() + SITES_S
        if self._is_stale:
            due_s = min(due_s, self._whole_due_s)
        return max(0.0, due_s - clock.now())

    async def _round(self) -> float:
        """Ask what is due, and return the pause until changed jobs may be asked for again."""
        number = max(self._seen, self.number)
        self._mark_waiting()
        dirty = list(self._dirty)[:JOBS_AT_ONCE]
        pause_s, began_s = 0.0, clock.now()
        if self._is_stale and began_s >= self._whole_due_s:
            self._dirty.clear()
            self._is_stale = False
            try:
                jobs = await self._read_jobs()
            except BaseException:
                self._is_stale = True
                raise
            self._whole_due_s = clock.now() + QUIET * (clock.now() - began_s)
        else:
            jobs = await self._read_jobs(dirty) if dirty else []
            for job in dirty:
                self._dirty.pop(job, None)
            pause_s = QUIET * (clock.now() - began_s)
        sites = await self._read_sites()
        is_whole = not self.is_loaded.is_set()
        self._store(jobs, sites, number if not self._dirty else self.number, is_whole=is_whole)
        self.is_loaded.set()
        return pause_s

    def _mark_waiting(self) -> None:
        if clock.now() >= self._waiting_due_s:
            self._waiting_due_s = clock.now() + WAITING_S
            waiting = (job for job, summary in self.jobs.items() if summary.phase in WAITING_PHASES)
            self._dirty.update(dict.fromkeys(islice(waiting, WAITING_MAX)))

    async def _read_sites(self) -> list[SiteStatus]:
        """Read the sites; return those that are known if it is too early to ask again."""
        began_s = clock.now()
        self._are_sites_old = began_s < self._sites_due_s
        if self._are_sites_old:
            return list(self.sites.values())
        sites = await self._client.sites()
        self._sites_due_s = clock.now() + QUIET * (clock.now() - began_s)
        return sites

    async def _read_jobs(self, jobs: Sequence[str] = ()) -> list[JobSummary]:
        return await self._client.list_jobs(jobs=jobs)

    def _store(
        self, jobs: list[JobSummary], sites: list[SiteStatus], number: int, *, is_whole: bool
    ) -> None:
        changed = [
            summary for summary in map(_interned, jobs) if self.jobs.get(summary.job) != summary
        ]
        self.jobs.update((summary.job, summary) for summary in changed)
        for job in list(self.jobs)[: max(0, len(self.jobs) - JOBS_MAX)]:
            del self.jobs[job]
        moved = [site for site in sites if self.sites.get(site.site) != site]
        gone = self.sites.keys() - {site.site for site in sites}
        self.sites = {site.site: site for site in sites}
        was_troubled, self.trouble = bool(self.trouble), ""
        self.number = number
        if is_whole or gone:
            self._changes.clear()  # whoever resumes reads the page again
        if changed or moved or gone or was_troubled:
            self._publish(
                jobs=tuple(changed),
                sites=tuple(moved),
                trouble="" if was_troubled else None,
            )

    def _set_trouble(self, text: str) -> None:
        if text != self.trouble:
            self.trouble = text
            self._publish(trouble=text)

    def _publish(
        self,
        *,
        jobs: tuple[JobSummary, ...] = (),
        sites: tuple[SiteStatus, ...] = (),
        trouble: str | None = None,
    ) -> None:
        self._serial += 1
        for job in jobs:
            self._versions[job.job] = self._serial
        self._changes.append(
            Change(
                serial=self._serial,
                number=self.number,
                jobs=jobs,
                sites=sites,
                trouble=trouble,
            )
        )
        self._wake.set()
        self._wake = asyncio.Event()

    # --- reading ----------------------------------------------------------------------------------

    def cursor(self, number: int | None) -> int | None:
        """Return the serial from which a stream goes on that has all up to notice `number`.

        None if the changes since then are not kept; without a number: from now on. Changes of the
        same number may come twice.
        """
        if number is None:
            return self._serial
        if not self._changes or number < self._changes[0].number or number > self.number:
            return None
        return next(
            (change.serial - 1 for change in self._changes if change.number >= number), self._serial
        )

    async def changes(self, after: int) -> AsyncGenerator[Change, None]:
        """Yield the changes after a serial; end when a reader is too slow."""
        while True:
            wake = self._wake
            if self._changes and after < self._changes[0].serial - 1:
                return
            for change in [entry for entry in self._changes if entry.serial > after]:
                yield change
                after = change.serial
            if after >= self._serial:
                await wake.wait()

    async def show(self, job: str) -> JobDetails:
        """Return all of a job. Raises KoalaError."""
        return await self._answer(JobDetails, job, lambda: self._client.show(job))

    async def why(self, job: str) -> Explanation:
        """Return why a job waits, or how it ended. Raises KoalaError."""
        return await self._answer(Explanation, job, lambda: self._client.why(job))

    async def queues(self) -> Queues:
        """Return the placement queues. Raises KoalaError."""
        return await self._answer(Queues, "", self._client.queues)

    async def grid_timeline(self, span_s: float, until: float | None, site: str) -> GridTimeline:
        """Return the claims of a period; without an end the last tenth of it is still to come.
        Raises KoalaError."""

        async def ask() -> GridTimeline:
            end = clock.unix_now() + FUTURE * span_s if until is None else until
            return await self._client.grid_timeline(since=end - span_s, until=end, site=site)

        return await self._answer(GridTimeline, f"{span_s} {until} {site}", ask)

    async def _answer(self, kind: type[R], job: str, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask once for each change of the job; without one, for each change of the grid.

        An answer about a job that is not over, or a period, is at most `SITES_S` old.
        """
        summary = self.jobs.get(job)
        is_over = summary is not None and summary.ended_at is not None
        age = 0 if is_over else int(clock.now() / SITES_S)
        changed = self._versions.get(job, 0) if job else self._serial
        version = changed * 1_000_000_000 + age
        known, answer = self._answers.get((kind, job), (-1, None))
        if known == version and isinstance(answer, kind):
            return answer
        answer = await ask()
        self._answers.pop((kind, job), None)
        self._answers[kind, job] = (version, answer)
        while len(self._answers) > ANSWERS_KEPT:
            del self._answers[next(iter(self._answers))]
        return answer


def _interned(summary: JobSummary) -> JobSummary:
    """Share the texts that many summaries have: the model keeps very many."""
    return replace(
        summary,
        job=sys.intern(summary.job),
        owner=sys.intern(summary.owner),
        priority=sys.intern(summary.priority),
        sites=tuple(map(sys.intern, summary.sites)),
        programs=tuple(map(sys.intern, summary.programs)),
    )
