"""Local users' jobs in the queue of an emulated site: they hold processors and start no process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from koala.common.runtime.structured_log import get_logger
from koala.queue_model import LocalQueue
from koala.queue_model.local_users import LoadParameters, LocalJob, local_jobs

log = get_logger()


@dataclass(frozen=True, slots=True)
class LocalKey:
    """Name of a local job in the queue."""

    number: int


class LocalLoad:
    """Local jobs that wait or run on the wall clock.

    `post` puts a call into the manager's inbox; `advance` starts what the queue selects next.
    """

    def __init__(
        self,
        queue: LocalQueue[str | LocalKey],
        *,
        clock: Callable[[], float],
        post: Callable[[Callable[[], None]], None],
        advance: Callable[[], None],
    ) -> None:
        self.processors = 0
        """Processors that running local jobs hold."""
        self._queue = queue
        self._clock = clock
        self._post = post
        self._advance = advance
        self._waiting: dict[LocalKey, LocalJob] = {}
        self._running: dict[LocalKey, tuple[LocalJob, asyncio.TimerHandle]] = {}  # youngest last

    @property
    def waiting(self) -> int:
        """Number of local jobs that wait."""
        return len(self._waiting)

    async def run(self, load: LoadParameters, rng: random.Random) -> None:
        """Submit local jobs at their instants, without end."""
        began_at, speed = self._clock(), load.speed
        for number, job in enumerate(local_jobs(load, rng)):
            await asyncio.sleep(began_at + job.submit_at / speed - self._clock())
            faster = replace(job, run_s=job.run_s / speed, estimate_s=job.estimate_s / speed)
            self._post(partial(self._submit, LocalKey(number), faster, load.waiting_max))

    def start(self, key: LocalKey) -> None:
        """Start a job that the queue has selected."""
        job = self._waiting.pop(key)
        self.processors += job.processors
        loop, over = asyncio.get_running_loop(), partial(self._end, key)
        self._running[key] = job, loop.call_later(job.run_s, self._post, over)

    def make_room(self, processors: int, claim: str) -> bool:
        """Free this many processors for a claim, killing the youngest local jobs if needed; none is
        killed where all of them would not suffice."""
        if processors > self._queue.idle + self.processors:
            return False
        for key, (job, _) in reversed(tuple(self._running.items())):
            if processors <= self._queue.idle:
                break
            log.warning(
                "local_job.killed", number=key.number, processors=job.processors, claim=claim
            )
            self._drop(key)
        return True

    def _submit(self, key: LocalKey, job: LocalJob, waiting_max: int) -> None:
        if len(self._waiting) >= waiting_max:
            return
        self._waiting[key] = job
        self._queue.submit(key, processors=job.processors, estimate_s=job.estimate_s)
        self._advance()

    def _end(self, key: LocalKey) -> None:
        if key in self._running:  # else it was killed at this very instant
            self._drop(key)
            self._advance()

    def _drop(self, key: LocalKey) -> None:
        job, end = self._running.pop(key)
        end.cancel()
        self.processors -= job.processors
        self._queue.end(key)
