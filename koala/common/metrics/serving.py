"""The metrics of one process while they are served: its meter, its readings, its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from koala.common.identity.tls import IdentityFile
from koala.common.metrics.declarations import LOOP_LAG, Source
from koala.common.metrics.endpoint import MetricsEndpoint
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import LoopReader, Readings, read_certificate_end
from koala.common.metrics.settings import MetricsSettings
from koala.common.runtime import clock

LAG_INTERVAL_S = 0.25


class ServedMetrics:
    """Counts from its making on, serves while `serve` runs."""

    def __init__(self, settings: MetricsSettings, source: Source, *, key: str) -> None:
        """Listen. `key` is the configuration key of the address. Raises ConfigError."""
        self._reader: LoopReader | None = None
        self._identity: IdentityFile | None = None
        self.meter = Meter(source, read=self._read, sites_max=settings.sites_max)
        self._endpoint = MetricsEndpoint(settings, self.meter.registry, key=key)

    async def serve(
        self, read: Callable[[], Awaitable[Readings]], identity: IdentityFile | None = None
    ) -> None:
        """Serve what is counted and what `read` returns, until cancelled."""
        self._identity = identity
        self._reader = LoopReader(asyncio.get_running_loop(), read)
        self._endpoint.start()
        try:
            await measure_lag(self.meter)
        finally:
            self._endpoint.close()

    def _read(self) -> Readings:
        readings = Readings() if self._reader is None else self._reader.read()
        if self._identity is not None:
            read_certificate_end(readings, self._identity)
        return readings


async def measure_lag(meter: Meter) -> None:
    """Observe how late a task runs that sleeps, until cancelled."""
    while True:
        due_at = clock.now() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        meter.observe(LOOP_LAG, max(0.0, clock.now() - due_at))
