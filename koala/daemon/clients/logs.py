"""Logs of programs, for `koala logs`.

- A live claim's logs come from its agent; later ones from the spool, or from the site, which keeps
  the folders of ended claims for a while.
- A part is requested once the client has read the one before, so a client that does not read costs
  nothing.
- The sources of a followed job are read concurrently, each through a queue of a few parts.
- Polls per user are limited, so a user who follows many sources sees new parts later.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from koala.common.protocol.limits import BYTES_MAX
from koala.common.protocol.messages import LogChunk, LogRequest, ToAgent
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.v1 import koala_pb2
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.model.claim import Claim
from koala.core.model.job import Job
from koala.core.model.values import ClaimId, JobId, Seconds, SiteName, claim_id
from koala.core.scheduler import Scheduler
from koala.daemon.clients.listing import no_job
from koala.daemon.files.spool import AttemptComponent, Spool
from koala.errors import SpecError, UnknownJobError, UnreachableError, first_error

log = get_logger()

PART_BYTES_MAX = 256 * 1024
ANSWER_S_MAX = 20.0
POLL_S = 0.3
POLLS_PER_S = 200.0
"""Polls per second of one user, over all followed sources."""
READ_MAX = 1_000
SOURCES_MAX = 512
PARTS_WAITING = 4
EARLIER_MAX = 10
"""Earlier attempts whose rest is read for a client that resumes in one of them."""
STREAMS = ("stdout", "stderr")


Named: TypeAlias = tuple[int, int, int, str]
"""Name of a source: attempt, component, process and stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Stream of one process of a component, in one attempt."""

    attempt: int
    component: int
    label: str
    process: int
    stream: str

    @property
    def named(self) -> Named:
        """Name that clients use."""
        return self.attempt, self.component, self.process, self.stream


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsWanted:
    """Query for logs of a job.

    `component` is an index or label (empty: all), `process` an index (-1: all). `offsets` states
    where to resume sources.
    """

    user: str
    job: JobId
    component: str
    streams: tuple[str, ...]
    process: int
    is_followed: bool
    offsets: Mapping[Named, int] = field(default_factory=dict)

    @classmethod
    def of(cls, request: koala_pb2.LogsRequest, user: str) -> LogsWanted:
        """Parse a client's request. Raises SpecError."""
        stream = request.stream or "both"
        if stream not in (*STREAMS, "both", "starter"):
            allowed = "stdout, stderr, both, starter"
            raise SpecError(f"stream = {stream[:40]!r} (expected {allowed})")
        if len(request.after) > SOURCES_MAX:
            raise SpecError(f"after = {len(request.after)} places (expected at most {SOURCES_MAX})")
        for place in request.after:
            if place.offset > BYTES_MAX:
                raise SpecError(f"offset = {place.offset} (expected at most {BYTES_MAX})")
        return cls(
            user=user,
            job=JobId(request.job),
            component=request.component,
            streams=STREAMS if stream == "both" else (stream,),
            process=request.process,
            is_followed=request.follow,
            offsets={
                (place.attempt, place.component, place.process, place.stream): place.offset
                for place in request.after
            },
        )


class Logs:
    """Reader of logs, from agents through `send`, or from the spool."""

    def __init__(
        self,
        scheduler: Scheduler,
        spool: Spool,
        *,
        send: Callable[[SiteName, ToAgent], None],
        is_live: Callable[[SiteName], bool],
        known: Callable[[JobId], Job | None],
        past: Callable[[JobId], Awaitable[Job | None]],
    ) -> None:
        self._scheduler = scheduler
        self._spool = spool
        self._send = send
        self._is_live = is_live
        self._known = known
        self._past = past
        self._read: dict[JobId, Job] = {}  # recently read; they may leave the state meanwhile
        self._pending: dict[int, tuple[SiteName, asyncio.Future[LogChunk]]] = {}
        self._requests = 0
        self._followed: Counter[str] = Counter()  # sources, of each user

    def is_awaited(self, site: SiteName | None, message: pb.FromAgent) -> bool:
        """Return True for a site's answer to a pending request."""
        if message.WhichOneof("kind") != "log" or len(message.log.data) > PART_BYTES_MAX:
            return False
        asked, answer = self._pending.get(message.log.request, (None, None))
        return answer is not None and asked == site and not answer.done()

    def deliver(self, site: SiteName, part: LogChunk) -> None:
        """Deliver an agent's answer to its request; ignore one that was not requested."""
        asked, answer = self._pending.get(part.request, (None, None))
        if asked != site or len(part.data) > PART_BYTES_MAX:
            log.warning("log.unrequested", site=site, size_bytes=len(part.data))
        elif answer is not None and not answer.done():
            answer.set_result(part)

    def fail_pending(self, site: SiteName) -> None:
        """Fail the pending requests to a site: its session is over."""
        for where, answer in tuple(self._pending.values()):
            if where == site and not answer.done():
                answer.set_exception(UnreachableError(f"{site} is disconnected"))

    async def read(self, wanted: LogsWanted) -> AsyncGenerator[koala_pb2.LogPart, None]:
        """Yield all parts; those of one source are in order. Raises KoalaError."""
        job = self._known(wanted.job) or await self._past(wanted.job)
        if job is not None:
            self._read[job.id] = self._read.pop(job.id, job)
            if len(self._read) > READ_MAX:
                del self._read[next(iter(self._read))]
        sources = self._sources(wanted)
        if not wanted.is_followed:
            for source in sources:
                async for part in self._read_source(wanted, source):
                    yield part
            return
        queue: asyncio.Queue[koala_pb2.LogPart | None] = asyncio.Queue(PARTS_WAITING)
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self._follow(wanted, queue))
                while (followed := await queue.get()) is not None:
                    yield followed
                following.cancel()
        except BaseExceptionGroup as errors:
            # A consumer that closes this generator expects GeneratorExit, not a group of it.
            raise first_error(errors) from None

    async def _follow(
        self, wanted: LogsWanted, queue: asyncio.Queue[koala_pb2.LogPart | None]
    ) -> None:
        """Start a reader for each source that appears; None in the queue ends it."""

        async def copy(source: Source) -> None:
            self._followed[wanted.user] += 1
            try:
                await asyncio.sleep(self._pause_s(wanted) - POLL_S)
                async for part in self._read_source(wanted, source):
                    await queue.put(part)
            finally:
                self._followed[wanted.user] -= 1
                self._followed += Counter()  # drops zero entries

        for source in self._earlier(wanted):
            async for part in self._read_source(wanted, source):
                await queue.put(part)
        known: dict[Source, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                has_ended = self._job(wanted.job).has_ended
                for source in self._sources(wanted):
                    if source not in known:
                        known[source] = group.create_task(copy(source))
                if has_ended and all(task.done() for task in known.values()):
                    break
                await asyncio.sleep(POLL_S)
        await queue.put(None)

    def _job(self, job: JobId) -> Job:
        known = self._known(job) or self._read.get(job)
        if known is None:
            raise UnknownJobError(no_job(str(job)))
        return known

    def _sources(self, wanted: LogsWanted) -> list[Source]:
        """List the wanted sources of the job's newest attempt. Raises SpecError."""
        job = self._job(wanted.job)
        sources = []
        for index in chosen_components(job, wanted.component):
            count = job.spec.components[index].processes
            label = job.spec.label(index)
            if wanted.process >= count:
                raise SpecError(f"process = {wanted.process}: {label} has 0 to {count - 1}")
            processes = range(count) if wanted.process < 0 else (wanted.process,)
            sources += [
                Source(
                    attempt=job.attempts,
                    component=index,
                    label=label,
                    process=process,
                    stream=stream,
                )
                for process in processes[: SOURCES_MAX + 1]
                for stream in wanted.streams
            ]
        if len(sources) > SOURCES_MAX:
            raise SpecError(f"more than {SOURCES_MAX} logs: name a component or a process")
        return sources if job.attempts else []

    def _earlier(self, wanted: LogsWanted) -> list[Source]:
        """List the sources of earlier attempts that a resuming client has not read to the end.

        Each source starts at the attempt that the client names for it, or else at the latest one
        that it names.
        """
        since = {named[1:]: named[0] for named in wanted.offsets}
        last = max(since.values(), default=0)
        if last == 0:
            return []
        earlier = []
        for source in self._sources(wanted):
            first = since.get(source.named[1:], last)
            attempts = range(max(1, first, source.attempt - EARLIER_MAX), source.attempt)
            earlier += [replace(source, attempt=attempt) for attempt in attempts]
        return sorted(earlier, key=lambda source: source.attempt)

    async def _read_source(
        self, wanted: LogsWanted, source: Source
    ) -> AsyncIterator[koala_pb2.LogPart]:
        offset = wanted.offsets.get(source.named, 0)
        while True:
            part = await self._part(wanted, source, offset)
            if part.data:
                yield koala_pb2.LogPart(
                    attempt=source.attempt,
                    component=source.component,
                    label=source.label,
                    process=source.process,
                    stream=source.stream,
                    offset=offset,
                    data=part.data,
                )
                offset += len(part.data)
                # A program may write steadily: pause so that a short part can grow.
                is_all = len(part.data) < PART_BYTES_MAX and not self._job(wanted.job).has_ended
            elif part.is_over or not wanted.is_followed:
                return
            else:
                is_all = True
            if is_all and wanted.is_followed:
                await asyncio.sleep(self._pause_s(wanted))

    def _pause_s(self, wanted: LogsWanted) -> Seconds:
        """Pause between two polls of a source, by the user's rate limit."""
        return max(POLL_S, self._followed[wanted.user] / POLLS_PER_S)

    async def _part(self, wanted: LogsWanted, source: Source, offset: int) -> LogChunk:
        """Read the next part: from the live claim, the spool, or the site of the ended claim."""
        try:
            living = self._living_claim(wanted.job, source)
            if living is not None:
                part = await self._ask(living.site, living.id, source, offset)
                # The site may not have the claim yet; it is over when the ledger says so.
                return replace(part, is_over=False)
            place = AttemptComponent(
                job=wanted.job, attempt=source.attempt, component=source.component
            )
            path = self._spool.log(place, f"{source.stream}.{source.process}")
            data = await asyncio.to_thread(_read_file, path, offset)
            past = self._past_claim(wanted.job, source)
            if data is None and past is not None:
                part = await self._ask(*past, source, offset)
                is_earlier = self._is_earlier(wanted.job, source)
                return replace(part, is_over=part.is_over or (is_earlier and not part.data))
        except UnreachableError:
            if not wanted.is_followed:
                raise
            is_over = self._is_earlier(wanted.job, source)  # the newest attempt does not wait
            return LogChunk(request=0, offset=offset, data=b"", is_over=is_over, error="")
        # A job that goes on may make another claim for this component.
        job = self._job(wanted.job)
        is_over = not data and (job.has_ended or self._is_earlier(wanted.job, source))
        return LogChunk(request=0, offset=offset, data=data or b"", is_over=is_over, error="")

    def _living_claim(self, job: JobId, source: Source) -> Claim | None:
        attempt = self._job(job).attempt
        if attempt is None or attempt.number != source.attempt:
            return None
        claim = attempt.members[source.component].claim
        return self._scheduler.ledger.get(claim) if claim is not None else None

    def _is_earlier(self, job: JobId, source: Source) -> bool:
        """Return True when a newer attempt has begun."""
        return source.attempt != self._job(job).attempts

    def _past_claim(self, identity: JobId, source: Source) -> tuple[SiteName, ClaimId] | None:
        """Return the last claim of the component; its site keeps the folder for a while."""
        job = self._job(identity)
        attempt = job.attempt
        if self._is_earlier(identity, source):
            claims = f"{identity}/{source.attempt}/{source.component}/"
            charges = [charge for charge in job.charges if charge.claim.startswith(claims)]
            return (charges[-1].site, charges[-1].claim) if charges else None
        if not job.has_ended or attempt is None or attempt.number != source.attempt:
            return None
        member = attempt.members[source.component]
        if member.site is None or not member.claims:
            return None
        claim = claim_id(
            identity, attempt=attempt.number, component=source.component, n=member.claims
        )
        return member.site, claim

    async def _ask(self, site: SiteName, claim: ClaimId, source: Source, offset: int) -> LogChunk:
        """Request one part from the agent. Raises UnreachableError."""
        if not self._is_live(site):
            raise UnreachableError(f"{site} is disconnected")
        self._requests += 1
        number = self._requests
        answer: asyncio.Future[LogChunk] = asyncio.get_running_loop().create_future()
        self._pending[number] = (site, answer)
        try:
            self._send(
                site,
                LogRequest(
                    request=number,
                    claim=claim,
                    stream=source.stream,
                    process=source.process,
                    offset=offset,
                    size_max=PART_BYTES_MAX,
                ),
            )
            async with asyncio.timeout(ANSWER_S_MAX):
                return await answer
        except TimeoutError as error:
            raise UnreachableError(f"{site} does not answer") from error
        finally:
            del self._pending[number]


def chosen_components(job: Job, name: str) -> list[int]:
    """Find components by index or label; empty means all. Raises SpecError."""
    labels = [job.spec.label(index) for index in range(len(job.spec.components))]
    chosen = [index for index, label in enumerate(labels) if name in ("", label, str(index))]
    if not chosen:
        known = ", ".join(labels[:20])
        raise SpecError(f"component = {name[:80]!r}: {job.id} has {known}")
    return chosen


def _read_file(path: Path, offset: int) -> bytes | None:
    """Read a part of a spooled log; None when it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return os.pread(descriptor, PART_BYTES_MAX, offset)
    finally:
        os.close(descriptor)
