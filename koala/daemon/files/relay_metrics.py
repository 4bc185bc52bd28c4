"""Metrics of the relay, served by its own process."""

from __future__ import annotations

from collections.abc import Callable

from koala.common.metrics import declarations as m
from koala.common.metrics.calls import CallCounter
from koala.common.metrics.declarations import Source
from koala.common.metrics.readings import Readings
from koala.common.metrics.serving import ServedMetrics
from koala.common.metrics.settings import MetricsSettings
from koala.common.runtime.software import software_version
from koala.daemon.files.relay_settings import RelayUsage


class RelayMetrics:
    """Metrics of a relay: counts calls from its making on, serves while `run` runs."""

    def __init__(self, settings: MetricsSettings, usage: Callable[[], RelayUsage]) -> None:
        """Listen. Raises ConfigError."""
        self._usage = usage
        self._served = ServedMetrics(settings, Source.RELAY, key="metrics.relay")
        self.calls = CallCounter(self._served.meter)

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._served.serve(self._read_usage)

    async def _read_usage(self) -> Readings:
        usage, readings = self._usage(), Readings()
        readings.set(m.BUILD_INFO, 1, software_version())
        readings.set(m.DISK_FREE, usage.free_bytes)
        readings.set(m.RELAY_READERS, usage.readers)
        readings.set(m.RELAY_SOURCES, usage.sources)
        readings.set(m.RELAY_STORES, usage.stores)
        for direction in m.DIRECTION.values:
            readings.set(m.RELAY_BYTES, usage.moved_bytes.get(direction, 0), direction)
        return readings
