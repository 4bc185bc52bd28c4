"""Quotas, rate limits and fair queueing between users.

- Memory is bounded, and no user can exhaust the daemon.
- A request over a limit is rejected with an ExhaustedError that names the limit, its value, the
  current usage and when to retry. Nothing is dropped silently.
- Only a few calls of each user are answered at once; further calls of the same user wait for these.
  A flood slows the calls of its own user and hardly any others.

No I/O, and no loop except for waiting; instants are the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from koala.common.runtime.token_bucket import RateLimits
from koala.core.model.job import TERMINAL_PHASES, Job
from koala.core.model.values import Instant, JobId, Seconds
from koala.daemon.config import MB, LimitsTable
from koala.daemon.storage.records import Notice
from koala.errors import ExhaustedError
from koala.job_descriptions.job_reader import description_bytes

QUEUE_RETRY_S = 10.0
"""Advice when queues are full: jobs end in minutes, and a free slot is soon used again."""
SLOT_RETRY_S = 5.0
CALL_RETRY_S = 1.0
CALLS_AT_ONCE = 16
"""Calls of one user that are answered concurrently: enough to share commits."""
CALLS_BYTES_MAX = 64 * MB
"""Total size of the requests of one user that are not answered yet: they wait in memory."""
MEASURED_AT_ONCE = 100
"""Descriptions that are measured before other tasks run: half a millisecond for common ones."""
SUBMISSION_BURST_S = 10.0
"""A user may submit the jobs of this time at once after a rest."""


class ConcurrencyQuota:
    """Limit of long-running requests, such as watches: in total and for each user."""

    def __init__(self, what: str, *, most: int, most_of_user: int, keys: tuple[str, str]) -> None:
        """Set the limits; `keys` name the two in the configuration."""
        self.taken = 0
        self._what = what
        self._most = most
        self._most_of_user = most_of_user
        self._keys = keys
        self._of_user: dict[str, int] = {}

    @contextmanager
    def slot(self, user: str) -> Iterator[None]:
        """Hold a slot for this user. Raises ExhaustedError."""
        own = self._of_user.get(user, 0)
        if self.taken >= self._most:
            what = f"{self.taken} {self._what} are here already"
            raise _exhausted(what, f"{self._most}: {self._keys[0]}", SLOT_RETRY_S)
        if own >= self._most_of_user:
            what = f"{own} {self._what} of {_display_name(user)} are here already"
            raise _exhausted(what, f"{self._most_of_user}: {self._keys[1]}", SLOT_RETRY_S)
        self.taken += 1
        self._of_user[user] = own + 1
        try:
            yield
        finally:
            self.taken -= 1
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]


class FairQueue:
    """Admit `at_once` calls of each user concurrently and the others of that user in order.

    Reject a call if `most` calls of its user wait, or if their total size exceeds the limit.
    """

    def __init__(self, *, most: int, at_once: int = CALLS_AT_ONCE) -> None:
        self._most = most
        self._at_once = at_once
        self._users_calls: dict[str, _UserCalls] = {}

    @asynccontextmanager
    async def slot(self, user: str, size_bytes: int = 0) -> AsyncIterator[None]:
        """Hold a slot while a call of this user, with a request of this size, is answered.

        Raises ExhaustedError.
        """
        calls = self._users_calls.get(user)
        if calls is None:
            calls = self._users_calls[user] = _UserCalls(self._at_once)
        if calls.calls >= self._most:
            what = f"{calls.calls} calls of {_display_name(user)} wait to be answered"
            raise _exhausted(what, f"{self._most}: limits.calls_per_user", CALL_RETRY_S)
        if calls.size_bytes + size_bytes > CALLS_BYTES_MAX:
            total = calls.size_bytes + size_bytes
            what = (
                f"the calls of {_display_name(user)} that are not answered would have {total} bytes"
            )
            raise _exhausted(what, f"{CALLS_BYTES_MAX} in all", CALL_RETRY_S)
        calls.calls += 1
        calls.size_bytes += size_bytes
        try:
            async with calls.semaphore:
                yield
        finally:
            calls.calls -= 1
            calls.size_bytes -= size_bytes
            if not calls.calls:
                del self._users_calls[user]


class SlowCallQueue:
    """Admit long calls: one of each user at a time and few in total, in order of arrival.

    So a user with many long calls neither fills the memory nor delays other users.
    """

    def __init__(self, *, most: int, at_once: int) -> None:
        """Let at most `most` calls of a user wait, and `at_once` of different users run."""
        self._users = FairQueue(most=most, at_once=1)
        self._all = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def slot(self, user: str) -> AsyncIterator[None]:
        """Hold a slot while a long call of this user runs. Raises ExhaustedError."""
        async with self._users.slot(user), self._all:
            yield


class _UserCalls:
    """Pending calls of one user."""

    __slots__ = ("calls", "semaphore", "size_bytes")

    def __init__(self, at_once: int) -> None:
        self.calls = 0
        self.size_bytes = 0
        self.semaphore = asyncio.Semaphore(at_once)


class Quotas:
    """Quotas of unfinished jobs and the size of their descriptions, in total and for each user, and
    the rate of submissions.

    Usage is updated as jobs are accepted and as their ends are published. The descriptions of a
    long queue take half a second to measure, which would delay a start. So `measure` measures those
    of earlier `jobs` while the daemon serves; the first check measures what is left.
    """

    def __init__(self, limits: LimitsTable, jobs: Iterable[Job]) -> None:
        self._limits = limits
        self._live: dict[JobId, tuple[str, int]] = {}
        self._all = _Load()
        self._of_user: dict[str, _Load] = {}
        per_s = limits.submissions_per_s
        self._rates = RateLimits[str](per_s, burst=max(1.0, per_s * SUBMISSION_BURST_S))
        self._unmeasured = [job for job in jobs if not job.has_ended]
        owners: dict[str, list[JobId]] = {}
        for job in self._unmeasured:
            owners.setdefault(job.spec.owner, []).append(job.id)
        for owner, ids in owners.items():
            self._live.update(dict.fromkeys(ids, (owner, 0)))
            of_user = self._of_user[owner] = _Load()
            of_user.jobs = len(ids)
        self._all.jobs = len(self._unmeasured)

    async def measure(self) -> None:
        """Measure the descriptions of earlier jobs, some at a time, between other tasks."""
        while self._unmeasured:
            self._measure(MEASURED_AT_ONCE)
            await asyncio.sleep(0)

    def _measure(self, most: int) -> None:
        """Add the sizes of some earlier jobs to the usage, at most this many."""
        some = self._unmeasured[-most:]
        del self._unmeasured[-most:]
        for job in some:
            if job.id in self._live:  # it may have ended meanwhile
                owner, size = job.spec.owner, description_bytes(job.spec)
                self._live[job.id] = (owner, size)
                self._all.size += size
                self._of_user[owner].size += size

    def require_job_quota(self, owner: str, size: int) -> None:
        """Check that another job, with a description of this size, fits the quotas. Raises
        ExhaustedError."""
        if self._unmeasured:
            self._measure(len(self._unmeasured))
        limits = self._limits
        of_user = self._of_user.get(owner, _Load())
        for load, whose, jobs_max, mb_max, suffix in (
            (self._all, "", limits.jobs, limits.descriptions_mb, ""),
            (
                of_user,
                f" of {_display_name(owner)}",
                limits.jobs_per_user,
                limits.descriptions_mb_per_user,
                "_per_user",
            ),
        ):
            if load.jobs >= jobs_max:
                raise _exhausted(
                    f"{load.jobs} jobs{whose} have not ended",
                    f"{jobs_max}: limits.jobs{suffix}",
                    QUEUE_RETRY_S,
                )
            if load.size + size > mb_max * MB:
                raise _exhausted(
                    f"the descriptions of the jobs{whose} that have not ended would have"
                    f" {(load.size + size) / MB:.1f} MB",
                    f"{mb_max}: limits.descriptions_mb{suffix}",
                    QUEUE_RETRY_S,
                )

    def accepted(self, job: JobId, owner: str, size: int) -> None:
        """Add an accepted job, with a description of this size, to the usage."""
        self._live[job] = (owner, size)
        of_user = self._of_user.get(owner)
        if of_user is None:
            of_user = self._of_user[owner] = _Load()
        for load in (self._all, of_user):
            load.jobs += 1
            load.size += size

    def publish(self, notices: Sequence[Notice]) -> None:
        """Remove jobs that ended from the usage."""
        for notice in notices:
            # An end may be published twice.
            if notice.phase in TERMINAL_PHASES and notice.job in self._live:
                owner, size = self._live.pop(JobId(notice.job))
                for load in (self._all, self._of_user[owner]):
                    load.jobs -= 1
                    load.size -= size
                if not self._of_user[owner].jobs:
                    del self._of_user[owner]

    def require_rate(self, user: str, submissions: int, now: Instant) -> None:
        """Consume this many submissions of the user's rate. Raises ExhaustedError."""
        per_s = self._limits.submissions_per_s
        if not per_s:
            return
        bucket = self._rates.of(user, now)
        wait_s = bucket.wait_s(now)
        if wait_s > 0:
            what = f"{_display_name(user)} submits more jobs than are allowed in the long run"
            raise _exhausted(what, f"{per_s:g} a second: limits.submissions_per_s", wait_s)
        bucket.consume(submissions)


class _Load:
    """Usage: number of jobs, and the bytes of their descriptions."""

    __slots__ = ("jobs", "size")

    def __init__(self) -> None:
        self.jobs = 0
        self.size = 0


def queues_full_error(queued: int, most: int) -> ExhaustedError:
    """Return the error for a job that must not wait outside the full placement queues."""
    what = f"the placement queues are full: they hold {queued} jobs"
    return _exhausted(what, f"{most}: parameters.queue_jobs_max", QUEUE_RETRY_S)


def _exhausted(what: str, most: str, retry_s: Seconds) -> ExhaustedError:
    text = f"{what} (expected at most {most}); try again in {retry_s:.2g} s"
    return ExhaustedError(text, retry_after_s=retry_s)


def _display_name(user: str) -> str:
    return user or "a user without a name"
