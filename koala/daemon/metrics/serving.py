"""Serve the daemon's metrics: the meter, the endpoint, and their observers."""

from __future__ import annotations

import asyncio

from koala.common.identity.tls import IdentityFile
from koala.common.metrics.calls import CallCounter
from koala.common.metrics.endpoint import MetricsEndpoint
from koala.common.metrics.loop_lag import measure_lag
from koala.common.metrics.meter import Meter
from koala.common.metrics.metric_types import Source
from koala.common.metrics.readings import LoopReader, Readings, read_certificate_end
from koala.common.metrics.settings import MetricsSettings
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.metrics.gauges import read_daemon
from koala.daemon.metrics.observer import BatchObserver
from koala.daemon.metrics.parts import DaemonParts


class DaemonMetrics:
    """Metrics of one life of a daemon: counts from its making on, serves while `run` runs."""

    def __init__(self, settings: MetricsSettings, scheduler: Scheduler) -> None:
        """Listen. Raises ConfigError."""
        self._reader: LoopReader | None = None
        self._identity: IdentityFile | None = None
        self._meter = Meter(Source.DAEMON, read=self._read, sites_max=settings.sites_max)
        self._observer = BatchObserver(scheduler, self._meter)
        self._endpoint = MetricsEndpoint(settings, self._meter.registry, key="metrics.listen")
        self.calls = CallCounter(self._meter)

    def observe(self, batch: DurableBatch) -> None:
        """Count a batch that was delivered."""
        self._observer.observe(batch)

    async def run(self, parts: DaemonParts) -> None:
        """Serve, and measure the lag of the event loop, until cancelled."""

        async def read() -> Readings:
            ask = parts.event_loop.ask
            return await ask(lambda batch: read_daemon(parts, batch.scheduler, batch.now))

        self._identity = parts.listeners.identity
        self._reader = LoopReader(asyncio.get_running_loop(), read)
        self._endpoint.start()
        try:
            await measure_lag(self._meter)
        finally:
            self._endpoint.close()

    def _read(self) -> Readings:
        readings = Readings() if self._reader is None else self._reader.read()
        if self._identity is not None:
            read_certificate_end(readings, self._identity)
        return readings
