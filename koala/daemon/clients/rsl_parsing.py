"""Parsing of job descriptions: short ones inline, long ones in a worker thread, one at a time.

Parsing is CPU-bound, and a parsed description takes many times the memory of its text. So long
texts are queued fairly between users: one of each user, and one in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

from koala.common.protocol.constraints import Matching
from koala.common.protocol.names import SITE
from koala.common.wire.status import submitted_error
from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.predecessors import Predecessor
from koala.core.model.values import JobId, SiteName
from koala.daemon.clients.admission import bind_to_queue
from koala.daemon.config import MB
from koala.daemon.quotas import SlowCallQueue
from koala.errors import KoalaError, SpecError
from koala.job_descriptions.job_fields import PREDECESSOR_FORM, PREDECESSORS_MAX, predecessor
from koala.job_descriptions.job_reader import JOB_CHARACTERS_MAX, JobReading, read_job

KEY_MAX = 256
DEFINITIONS_MAX = 1_000
INLINE_CHARACTERS = 4 * 1024  # of a text and its definitions: some 20 ms at worst
YIELD_CHARACTERS = 8 * 1024  # of texts parsed before yielding to other tasks
LOT_BYTES = 4 * MB  # of descriptions
CACHED_CHARACTERS = 64 * 1024
CACHED_TEXTS = 16

_Definitions = tuple[tuple[str, str], ...]


class DescriptionParser:
    """Parser of the descriptions that clients submit."""

    def __init__(self, *, calls_per_user: int) -> None:
        self._slots = SlowCallQueue(most=calls_per_user, at_once=1)
        # A dedicated thread: it finishes even for a call that was cancelled.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="texts")

    async def read_chunk(
        self, submissions: Sequence[pb.Submission], owner: str
    ) -> list[JobReading | pb.Submitted]:
        """Parse submissions to readings, or to answers that state the error.

        Stops early once the parsed ones exceed `LOT_BYTES`; the caller passes the rest again.
        """
        readings: list[JobReading | pb.Submitted] = []
        characters = size = 0
        for submission in submissions:
            try:
                reading = await self.read(submission, owner)
                size += reading.size_bytes
                readings.append(reading)
            except KoalaError as error:
                # The error's traceback would keep the whole parsed text in memory.
                readings.append(submitted_error(error))
            if size >= LOT_BYTES:
                break
            characters += len(submission.rsl)
            if characters >= YIELD_CHARACTERS:
                characters = 0
                await asyncio.sleep(0)
        return readings

    async def read(self, submission: pb.Submission, owner: str) -> JobReading:
        """Parse one submission. Raises SpecError, ExhaustedError."""
        definitions, size = _checked(submission)
        if size <= INLINE_CHARACTERS:
            reading = _read_cached(submission.rsl, definitions, owner)
        else:
            loop = asyncio.get_running_loop()
            read = _read_cached if size <= CACHED_CHARACTERS else _read
            async with self._slots.slot(owner):
                reading = await loop.run_in_executor(
                    self._thread, read, submission.rsl, definitions, owner
                )
        if submission.after:
            spec = replace(reading.spec, after=_joined(reading.spec.after, submission.after))
            reading = replace(reading, spec=spec)
        if not submission.queue:
            return reading
        site = SiteName(Matching(SITE).check("queue", submission.queue))
        return replace(reading, spec=bind_to_queue(reading.spec, site))

    def close(self) -> None:
        """Stop the worker thread after the text that it parses."""
        self._thread.shutdown(cancel_futures=True)


def _joined(given: Sequence[Predecessor], more: Sequence[str]) -> tuple[Predecessor, ...]:
    """Add predecessors to those of a description, which may be the same. Raises SpecError, also
    for one that is named twice."""
    if len(more) > PREDECESSORS_MAX:
        raise SpecError(f"after: found {len(more)} jobs (expected at most {PREDECESSORS_MAX})")
    by_job = {dependency.job: dependency for dependency in given}
    named: set[JobId] = set()
    for text in more:
        dependency = predecessor(text)
        if dependency is None:
            raise SpecError(f"after = {text[:80]!r} (expected {PREDECESSOR_FORM})")
        if dependency.job in named:
            raise SpecError(
                f"after = {text!r}: {dependency.job} is named twice (expected each job once)"
            )
        named.add(dependency.job)
        if by_job.setdefault(dependency.job, dependency) != dependency:
            raise SpecError(
                f"after = {text!r}: the description has {dependency.job} with another end"
            )
    if len(by_job) > PREDECESSORS_MAX:
        raise SpecError(f"after: found {len(by_job)} jobs (expected at most {PREDECESSORS_MAX})")
    return tuple(by_job.values())


def _checked(submission: pb.Submission) -> tuple[_Definitions, int]:
    """Check sizes; return the sorted definitions and the total characters. Raises SpecError."""
    if len(submission.key) > KEY_MAX:
        raise SpecError(f"key has {len(submission.key)} characters (expected at most {KEY_MAX})")
    if len(submission.definitions) > DEFINITIONS_MAX:
        count = len(submission.definitions)
        raise SpecError(f"{count} definitions (expected at most {DEFINITIONS_MAX})")
    definitions = tuple(sorted(submission.definitions.items()))
    size = sum(len(name) + len(value) for name, value in definitions)
    if size > JOB_CHARACTERS_MAX:
        raise SpecError(
            f"definitions have {size} characters (expected at most {JOB_CHARACTERS_MAX})"
        )
    return definitions, size + len(submission.rsl)


def _read(text: str, definitions: _Definitions, owner: str) -> JobReading:
    return read_job(text, dict(definitions), owner)


_read_cached = lru_cache(maxsize=CACHED_TEXTS)(_read)
"""Cached `_read`: the same text is often submitted many times, and a reading is immutable."""
