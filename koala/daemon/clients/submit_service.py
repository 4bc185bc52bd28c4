"""Submission of jobs: parse outside the event loop (`rsl_parsing`), then accept in batches.

Each submission is answered by a new job, an earlier one with the same idempotency key, or an error.
Keys are looked up in the state and in the archive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from koala.common.runtime.disk_space import DiskSpace
from koala.common.wire.status import submitted_error
from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.allowances import excess_alone
from koala.core.model.events import JobSubmitted
from koala.core.model.job import Finished, Job
from koala.core.model.job_spec import JobSpec
from koala.core.model.predecessors import Ended
from koala.core.model.values import JobId, SiteName, UserName
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.auth.access_rules import Caller
from koala.daemon.clients.admission import Verdicts, check, check_deadline, warnings, with_progress
from koala.daemon.clients.input_names import with_inputs
from koala.daemon.clients.rsl_parsing import DescriptionParser
from koala.daemon.clients.staging import contents_of, with_archives
from koala.daemon.files.uploads import Content, Uploads
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext
from koala.daemon.notifications.receivers import NotifyRules
from koala.daemon.quotas import Quotas, queues_full_error
from koala.daemon.storage.journal import Journal
from koala.errors import ExhaustedError, KoalaError, RejectedError
from koala.job_descriptions.job_reader import JobReading, description_bytes
from koala.views.expected import expected_of_spec, missed_deadline

CHUNK = 100  # submissions or cancels of one call in one batch, for fairness to other calls
KEY_TRIES = 5  # to look up keys while jobs move from memory to the archive
KEY_RETRY_S = 1.0
DISK_RETRY_S = 10.0  # an operator has to make room


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """Archived jobs by idempotency key, valid while `forgotten` keys have left the state; and those
    that others are to wait for, None for one that does not exist."""

    forgotten: int
    jobs: dict[str, tuple[JobId, str]]
    predecessors: dict[JobId, Job | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFacts:
    """Facts that are the same for all submissions of a chunk. `listed` are the sites that may
    register; `shortage` says what the disk lacks for new jobs, and is empty if nothing; `problems`
    has the uploaded archives that a submission names, with why agents would refuse them."""

    past: Archived
    problems: Mapping[Content, str]
    listed: Mapping[SiteName, UserName | None]
    shortage: str


@dataclass(frozen=True, kw_only=True)
class SubmitService:
    """Accepts or rejects the submissions of a call."""

    event_loop: EventLoop
    description_parser: DescriptionParser
    quotas: Quotas
    journal: Journal
    registry: AgentRegistry
    disk: DiskSpace
    notify_rules: NotifyRules
    uploads: Uploads
    group_of_job: Callable[[str, str], str]
    verdicts: Verdicts = field(default_factory=Verdicts)
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def submit(
        self, submissions: Sequence[pb.Submission], caller: Caller, *, is_dry_run: bool
    ) -> list[pb.Submitted]:
        """Submit jobs; return a job or an error for each, in order.

        Raises ExhaustedError when the user exceeds the rate limit.
        """
        owner = caller.name
        now = asyncio.get_running_loop().time()
        self.quotas.require_rate(owner, len(submissions), now)
        results: list[pb.Submitted] = []
        while len(results) < len(submissions):
            first = len(results)
            chunk = submissions[first : first + CHUNK]
            readings = await self.description_parser.read_chunk(chunk, owner)
            read = chunk[: len(readings)]
            results += await self._submit_chunk(read, readings, caller, is_dry_run=is_dry_run)
        return results

    async def _submit_chunk(
        self,
        submissions: Sequence[pb.Submission],
        readings: Sequence[JobReading | pb.Submitted],
        caller: Caller,
        *,
        is_dry_run: bool,
    ) -> list[pb.Submitted]:
        """Submit some jobs in one batch of the event loop; other calls run between two chunks."""
        keys = [key for submission in submissions if (key := _key(submission, caller.name))]
        awaited = predecessors_of(readings)
        problems = await self._problems(submissions, readings)
        for _ in range(KEY_TRIES):
            past = await self._archived(keys, awaited)

            def accept(batch: BatchContext, past: Archived = past) -> list[pb.Submitted] | None:
                if keys and batch.scheduler.keys_forgotten != past.forgotten:
                    return None  # one of the keys may have left the state meanwhile
                jobs = batch.scheduler.jobs
                if any(job not in jobs and job not in past.predecessors for job in awaited):
                    return None  # so may one of these jobs
                self.verdicts.valid(batch.scheduler)  # no submission changes the grid
                facts = ChunkFacts(
                    past=past,
                    problems=problems,
                    listed=dict(self.registry.owners),
                    shortage=self.disk.shortage,
                )
                return [
                    self._submit(batch, submission, reading, caller, facts, is_dry_run=is_dry_run)
                    for submission, reading in zip(submissions, readings, strict=True)
                ]

            results = await self.event_loop.ask(accept)
            if results is not None:
                return results
        busy = ExhaustedError(
            f"keys leave the daemon's memory too quickly to look for these; try again in"
            f" {KEY_RETRY_S:g} s",
            retry_after_s=KEY_RETRY_S,
        )
        return [submitted_error(busy) for _ in submissions]

    async def _problems(
        self,
        submissions: Sequence[pb.Submission],
        readings: Sequence[JobReading | pb.Submitted],
    ) -> dict[Content, str]:
        """Check the uploaded archives that submissions name. One at a time for all callers: a check
        is Python, and many threads would take the interpreter from the event loop."""
        problems: dict[Content, str] = {}
        contents = [
            content
            for submission, reading in zip(submissions, readings, strict=True)
            if isinstance(reading, JobReading)
            for content in contents_of(reading.spec, submission.staged)
        ]
        for content in dict.fromkeys(contents):
            async with self._checking:
                problem = await asyncio.to_thread(self.uploads.problem_of_archive, content)
            if problem is not None:
                problems[content] = problem
        return problems

    async def _archived(self, keys: Sequence[str], awaited: Sequence[JobId]) -> Archived:
        """Look up keys, and jobs that others are to wait for, in the archive."""
        forgotten = self.event_loop.keys_archived
        jobs = await self.journal.jobs_of_keys(keys) if forgotten and keys else {}
        left = [job for job in awaited if self.event_loop.job(job) is None]
        predecessors = {job: await self.journal.job(job) for job in left}
        return Archived(forgotten=forgotten, jobs=jobs, predecessors=predecessors)

    def _submit(
        self,
        batch: BatchContext,
        submission: pb.Submission,
        reading: JobReading | pb.Submitted,
        caller: Caller,
        chunk: ChunkFacts,
        *,
        is_dry_run: bool,
    ) -> pb.Submitted:
        """Submit one job in a batch; return its job or its error, independently of others."""
        if isinstance(reading, pb.Submitted):
            return reading
        try:
            key = _key(submission, caller.name)
            digest = _digest(submission, caller.name) if key else ""
            known = batch.scheduler.keys.get(key, chunk.past.jobs.get(key)) if key else None
            ignored = warnings(reading.spec, batch.scheduler, chunk.listed)
            warned = (*reading.warnings, *ignored)
            if known is not None:
                if known[1] != digest:
                    raise RejectedError(
                        f"key {submission.key!r} was used for {known[0]}, which has another text"
                    )
                return pb.Submitted(job=known[0], warnings=warned, is_known=True)
            group = self.group_of_job(caller.name, submission.group or reading.spec.group)
            self.notify_rules.check(reading.spec)
            check_deadline(reading.spec, batch.now)
            check_predecessors(
                reading.spec,
                lambda job: batch.scheduler.jobs.get(job) or chunk.past.predecessors.get(job),
                caller.sees,
            )
            spec = replace(with_inputs(reading.spec, batch.scheduler), group=group)
            if never := excess_alone(batch.scheduler, spec):
                raise RejectedError(f"the job can never start: {never}")
            warned = (*warned, *check(spec, batch.scheduler, chunk.listed, self.verdicts))
            if submission.reject_if_full and not batch.scheduler.has_room:
                limit = batch.scheduler.parameters.queue_jobs_max
                raise queues_full_error(len(batch.scheduler.queues), limit)
            is_as_read = spec.all_inputs == reading.spec.all_inputs
            size = reading.size_bytes if is_as_read else description_bytes(spec)
            self.quotas.require_job_quota(spec.owner, size)
            queues = self.registry.queue
            deadline_at = spec.deadline_at(batch.now)
            if late := missed_deadline(batch.scheduler, spec, deadline_at, queues, batch.now):
                warned = (*warned, late)
            if is_dry_run or reading.is_dry_run:
                expected = expected_of_spec(batch.scheduler, spec, queues, batch.now)
                return pb.Submitted(warnings=warned, expected=expected)
            _require_room(chunk.shortage)
            spec = with_archives(spec, submission.staged, chunk.problems)
            job = batch.new_job()
            spec = with_progress(spec, batch.scheduler)
            batch.emit(JobSubmitted(job=job, spec=spec, key=key, digest=digest))
            self.quotas.accepted(job, spec.owner, size)
            return pb.Submitted(job=job, warnings=warned)
        except KoalaError as error:
            return submitted_error(error)


def _key(submission: pb.Submission, owner: str) -> str:
    """Scope an idempotency key to its user."""
    return f"{owner}\0{submission.key}" if submission.key else ""


def _digest(submission: pb.Submission, owner: str) -> str:
    """Hash the content of a submission, to tell two under one idempotency key apart."""
    parts: list[object] = [owner, submission.rsl, sorted(submission.definitions.items())]
    if submission.queue or submission.after:
        parts.append(submission.queue)
    if submission.after:
        parts.append(list(submission.after))
    if submission.group:
        parts.append(["group", submission.group])
    if submission.staged:
        parts.append(sorted(submission.staged.items()))
    text = json.dumps(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _require_room(shortage: str) -> None:
    """Check that the disk has room for new jobs. Raises ExhaustedError."""
    if shortage:
        raise ExhaustedError(
            f"the daemon's disk is nearly full: {shortage} for new jobs. Jobs that were accepted go"
            f" on; try again when there is room, in {DISK_RETRY_S:g} s at the earliest",
            retry_after_s=DISK_RETRY_S,
        )


def predecessors_of(readings: Sequence[object]) -> tuple[JobId, ...]:
    """List the jobs that read descriptions wait for, each once."""
    specs = [reading.spec for reading in readings if isinstance(reading, JobReading)]
    return tuple(dict.fromkeys(predecessor.job for spec in specs for predecessor in spec.after))


def check_predecessors(
    spec: JobSpec, find: Callable[[JobId], Job | None], sees: Callable[[str], bool]
) -> None:
    """Check that all predecessors exist, and that none has ended otherwise than asked. One that the
    user may not see is answered like one that does not exist. Raises RejectedError."""
    for predecessor in spec.after:
        job = find(predecessor.job)
        if job is None or not sees(job.spec.owner):
            raise RejectedError(
                f"after {predecessor.job}: there is no such job (expected one of yours)"
            )
        if job.has_ended and predecessor.ended is Ended.OK and not isinstance(job.phase, Finished):
            raise RejectedError(
                f"after {predecessor.job}: that job is {job.phase_name}, and this one starts only"
                f" after it has ended well (expected {predecessor.job}:any)"
            )
