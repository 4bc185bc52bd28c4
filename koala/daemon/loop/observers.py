"""Observers of durable batches, as metrics: their errors must not end the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from koala.common.runtime.structured_log import get_logger
from koala.core.model.job import Job
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch


class EndedJobs:
    """Reader of the ends of jobs; it begins after the newest end of the state."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last = next(reversed(scheduler.ended), None)

    def take(self) -> list[Job]:
        """Return the jobs that ended since the last call, the newest first."""
        jobs = list(self._newest())
        if jobs:
            self._last = jobs[0].id
        return jobs

    def _newest(self) -> Iterator[Job]:
        """Yield jobs, newest end first, up to the last one seen, or to the purged ones."""
        for identity in reversed(self._scheduler.ended):
            if identity == self._last:
                return
            yield self._scheduler.jobs[identity]


log = get_logger()


class Observers:
    """Observers of batches by name, called in order. They must not block.

    An observer that raises misses the rest of that batch and is called again for the next one. Only
    its first error is logged: it may come again with every batch. `errors` counts all of them.
    """

    def __init__(self, observers: Mapping[str, Callable[[DurableBatch], None]]) -> None:
        self._observers = dict(observers)
        self.errors = dict.fromkeys(self._observers, 0)

    def __call__(self, batch: DurableBatch) -> None:
        """Show a batch to all."""
        for name, observe in self._observers.items():
            try:
                observe(batch)
            except Exception:  # the batch is durable and delivered; to observe it is optional
                self.errors[name] += 1
                if self.errors[name] == 1:
                    log.exception("observer.failed", observer=name)
