"""Figures of an emulated site: what is idle, what could start, and why no more."""

from __future__ import annotations

from collections.abc import Callable

from koala.common.protocol.messages import SiteResources
from koala_agent.lrm.emulated.emulated_jobs import JobList
from koala_agent.lrm.emulated.local_load import LocalLoad
from koala_agent.lrm.emulated.queue_places import QueuePlaces
from koala_agent.lrm.emulated.start_forecasts import StartForecasts
from koala_agent.lrm.local_manager import Idle
from koala_agent.lrm.outlook import short_holes


class IdleFigures:
    """Figures of a site with so many processors."""

    def __init__(
        self,
        processors: int,
        *,
        jobs: JobList,
        places: QueuePlaces,
        local: LocalLoad,
        clock: Callable[[], float],
    ) -> None:
        self._processors = processors
        self._queue = places.queue
        self._jobs = jobs
        self._places = places
        self._local = local
        self._clock = clock
        self._forecasts = StartForecasts(places.queue, clock=clock)
        self._resources = SiteResources(gpus=places.gpus.total)

    def now(self, *, is_closing: bool) -> Idle:
        """Return the figures."""
        # Nothing starts any more once we are closing, not even what would fit.
        startable = 0 if is_closing else self._queue.startable(self._clock())
        return Idle(
            processors=self._processors,
            idle=self._queue.idle,
            startable=startable,
            queued_jobs=self._queue.waiting,
            local_processors=self._local.processors,
            idle_gpus=0 if is_closing else self._places.gpus.idle,
            resources=self._resources,
            waits=self._forecasts.waits(is_known=self._is_known),
            foreign_queued=self._local.waiting,
            outlook=self._forecasts.outlook(),
            holes=() if is_closing else short_holes(self._queue, self._clock(), startable),
            why=self._why_no_more(startable, is_closing=is_closing),
        )

    def _is_known(self, claim: str) -> bool:
        return not self._places.lacks_gpus(self._jobs.by_claim[claim])

    def _why_no_more(self, startable: int, *, is_closing: bool) -> str:
        idle, others = self._queue.idle, self._local.waiting
        if is_closing or startable == idle:
            return "" if idle else f"all {self._processors} are in use"
        if others:
            verb = "waits" if others == 1 else "wait"
            who = f"{others} job{'s' if others > 1 else ''} of local users {verb}"
        else:
            who = "claims of Koala wait"
        return f"{idle} idle, but {who} for processors"
