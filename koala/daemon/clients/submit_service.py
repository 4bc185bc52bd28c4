"""Jobs taken in: read outside the pump (`texts`), then in one turn of it a job, a known one, or an
error for each. A key is looked for in the state and among the jobs that have left it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from koala.core.model.events import JobSubmitted
from koala.core.model.values import JobId
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.clients.admission import Verdicts, check, check_deadline, warnings, with_progress
from koala.daemon.clients.rsl_parsing import DescriptionParser
from koala.daemon.event_loop import EventLoop
from koala.daemon.group_commit import BatchContext
from koala.daemon.quotas import Quotas, queues_full
from koala.daemon.storage.journal import Journal
from koala.errors import ExhaustedError, KoalaError, RejectedError
from koala.rsl.jobspec import JobReading
from koala.runtime.disk import Disk
from koala.wire.status import submitted_error
from koala.wire.v1 import koala_pb2 as pb

LOT = 25  # submissions or cancels of one call between two chances for others
KEY_TRIES = 5  # to find keys in memory or archive while others go from one to the other
KEY_RETRY_S = 1.0
DISK_RETRY_S = 10.0  # somebody has to make room


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedKeys:
    """Idempotency keys of jobs that had left the state when so many were `forgotten`."""

    forgotten: int
    jobs: dict[str, tuple[JobId, str]]


class SubmitService:
    """What becomes of the submissions of a call."""

    def __init__(
        self,
        pump: EventLoop,
        *,
        texts: DescriptionParser,
        quotas: Quotas,
        journal: Journal,
        roster: AgentRegistry,
        disk: Disk,
    ) -> None:
        self._pump = pump
        self._texts = texts
        self._quotas = quotas
        self._journal = journal
        self._roster = roster
        self._disk = disk
        self._verdicts = Verdicts()

    async def take(
        self, submissions: Sequence[pb.Submission], owner: str, *, is_dry_run: bool
    ) -> list[pb.Submitted]:
        """A job or an error for each, in order. Raises ExhaustedError when this user submits more
        quickly than is allowed."""
        now = asyncio.get_running_loop().time()
        self._quotas.require_rate(owner, len(submissions), now)
        results: list[pb.Submitted] = []
        while len(results) < len(submissions):
            first = len(results)
            lot = submissions[first : first + LOT]
            readings = await self._texts.read_lot(lot, owner)
            read = lot[: len(readings)]
            results += await self._submit_lot(read, readings, owner, is_dry_run=is_dry_run)
        return results

    async def _submit_lot(
        self,
        submissions: Sequence[pb.Submission],
        readings: Sequence[JobReading | pb.Submitted],
        owner: str,
        *,
        is_dry_run: bool,
    ) -> list[pb.Submitted]:
        """Some submissions in one turn of the pump; others' turns are between those of two lots."""
        keys = [key for submission in submissions if (key := _key(submission, owner))]
        for _ in range(KEY_TRIES):
            past = await self._past_keys(keys)

            def take_in(turn: BatchContext, past: ArchivedKeys = past) -> list[pb.Submitted] | None:
                if keys and turn.scheduler.keys_forgotten != past.forgotten:
                    return None  # one of them may have left the state meanwhile
                return [
                    self._submit(turn, submission, reading, owner, past, is_dry_run=is_dry_run)
                    for submission, reading in zip(submissions, readings, strict=True)
                ]

            results = await self._pump.ask(take_in)
            if results is not None:
                return results
        busy = ExhaustedError(
            f"keys leave the daemon's memory too quickly to look for these; try again in"
            f" {KEY_RETRY_S:g} s",
            retry_after_s=KEY_RETRY_S,
        )
        return [submitted_error(busy) for _ in submissions]

    async def _past_keys(self, keys: Sequence[str]) -> ArchivedKeys:
        """Which keys were used by jobs that have left the state."""
        forgotten = self._pump.keys_archived
        jobs = await self._journal.jobs_of_keys(keys) if forgotten and keys else {}
        return ArchivedKeys(forgotten=forgotten, jobs=jobs)

    def _submit(
        self,
        turn: BatchContext,
        submission: pb.Submission,
        reading: JobReading | pb.Submitted,
        owner: str,
        past: ArchivedKeys,
        *,
        is_dry_run: bool,
    ) -> pb.Submitted:
        """One submission in the pump's turn: its job, or its error, whatever becomes of others."""
        if isinstance(reading, pb.Submitted):
            return reading
        try:
            key = _key(submission, owner)
            digest = _digest(submission, owner)
            known = turn.scheduler.keys.get(key, past.jobs.get(key)) if key else None
            ignored = warnings(reading.spec, turn.scheduler, self._roster.owners)
            told = (*reading.warnings, *ignored)
            if known is not None:
                if known[1] != digest:
                    raise RejectedError(
                        f"key {submission.key!r} was used for {known[0]}, which has another text"
                    )
                return pb.Submitted(job=known[0], warnings=told, is_known=True)
            check_deadline(reading.spec, turn.now)
            owners = self._roster.owners
            told = (*told, *check(reading.spec, turn.scheduler, owners, self._verdicts))
            if submission.no_wait and not turn.scheduler.has_room:
                limit = turn.scheduler.parameters.queue_jobs_max
                raise queues_full(len(turn.scheduler.queues), limit)
            self._quotas.require_job_quota(reading.spec)
            if is_dry_run or reading.is_dry_run:
                return pb.Submitted(warnings=told)
            _require_room(self._disk)
            job = turn.new_job()
            spec = with_progress(reading.spec, turn.scheduler)
            turn.emit(JobSubmitted(job=job, spec=spec, key=key, digest=digest))
            self._quotas.accepted(job, spec)
            return pb.Submitted(job=job, warnings=told)
        except KoalaError as error:
            return submitted_error(error)


def _key(submission: pb.Submission, owner: str) -> str:
    """Keys are a user's own: nobody can take another's."""
    return f"{owner}\0{submission.key}" if submission.key else ""


def _digest(submission: pb.Submission, owner: str) -> str:
    parts = [owner, submission.rsl, sorted(submission.definitions.items())]
    text = json.dumps([*parts, submission.queue] if submission.queue else parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _require_room(disk: Disk) -> None:
    """Raises ExhaustedError when there is too little for new jobs."""
    if shortage := disk.shortage:
        raise ExhaustedError(
            f"the daemon's disk is nearly full: {shortage} for new jobs. Jobs that were accepted go"
            f" on; try again when there is room, in {DISK_RETRY_S:g} s at the earliest",
            retry_after_s=DISK_RETRY_S,
        )
