"""Serve the daemon's metrics: the meter, the endpoint, and their observers."""

from __future__ import annotations

from koala.common.metrics.calls import CallCounter
from koala.common.metrics.declarations import Source
from koala.common.metrics.readings import Readings
from koala.common.metrics.serving import ServedMetrics
from koala.common.metrics.settings import MetricsSettings
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.metrics.gauges import DaemonParts, read_daemon
from koala.daemon.metrics.observer import BatchObserver


class DaemonMetrics:
    """Metrics of one run of a daemon: counts from its making on, serves while `run` runs."""

    def __init__(self, settings: MetricsSettings, scheduler: Scheduler) -> None:
        """Listen. Raises ConfigError."""
        self._served = ServedMetrics(settings, Source.DAEMON, key="metrics.listen")
        self._observer = BatchObserver(scheduler, self._served.meter)
        self.calls = CallCounter(self._served.meter)

    def observe(self, batch: DurableBatch) -> None:
        """Count a batch that was delivered."""
        self._observer.observe(batch)

    async def run(self, parts: DaemonParts) -> None:
        """Serve, and measure the lag of the event loop, until cancelled."""

        async def read() -> Readings:
            ask = parts.event_loop.ask
            return await ask(lambda batch: read_daemon(parts, batch.scheduler, batch.now))

        await self._served.serve(read, parts.listeners.identity)
