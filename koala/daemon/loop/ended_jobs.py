"""Jobs that ended since the last batch, for observers."""

from __future__ import annotations

from collections.abc import Iterator

from koala.core.model.job import Job
from koala.core.scheduler import Scheduler


class EndedJobs:
    """Reader of the ends of jobs; it begins after the newest end of the state."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last = next(reversed(scheduler.ended), None)

    def take(self) -> list[Job]:
        """Return the jobs that ended since the last call, the newest first."""
        found = list(self._newest())
        if found:
            self._last = found[0].id
        return found

    def _newest(self) -> Iterator[Job]:
        """Yield jobs, newest end first, up to the last one seen, or to the purged ones."""
        for identity in reversed(self._scheduler.ended):
            if identity == self._last:
                return
            yield self._scheduler.jobs[identity]
