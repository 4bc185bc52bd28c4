"""Metrics of the relay, served by its own process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from koala.common.metrics import declarations as m
from koala.common.metrics.calls import CallCounter
from koala.common.metrics.endpoint import MetricsEndpoint
from koala.common.metrics.loop_lag import measure_lag
from koala.common.metrics.meter import Meter
from koala.common.metrics.metric_types import Source
from koala.common.metrics.readings import LoopReader, Readings
from koala.common.metrics.settings import MetricsSettings
from koala.common.runtime.software import software_version
from koala.daemon.files.relay_usage import RelayUsage


class RelayMetrics:
    """Metrics of a relay: counts calls from its making on, serves while `run` runs."""

    def __init__(self, settings: MetricsSettings, usage: Callable[[], RelayUsage]) -> None:
        """Listen. Raises ConfigError."""
        self._usage = usage
        self._reader: LoopReader | None = None
        self._meter = Meter(Source.RELAY, read=self._read)
        self._endpoint = MetricsEndpoint(settings, self._meter.registry, key="metrics.relay")
        self.calls = CallCounter(self._meter)

    async def run(self) -> None:
        """Serve until cancelled."""
        self._reader = LoopReader(asyncio.get_running_loop(), self._read_usage)
        self._endpoint.start()
        try:
            await measure_lag(self._meter)
        finally:
            self._endpoint.close()

    def _read(self) -> Readings:
        return Readings() if self._reader is None else self._reader.read()

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
