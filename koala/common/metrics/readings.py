"""Readings: values that are read for a scrape, on the event loop that owns what they describe.

A scrape runs in a thread of its own. It asks the loop for new readings and waits for a short time;
if the loop is busy it answers with the last ones, and with their age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from threading import Lock

from koala.common.identity.keys import expires_at
from koala.common.identity.tls import IdentityFile
from koala.common.metrics.declarations import CERTIFICATE_ENDS, READINGS_AGE, Metric
from koala.common.runtime import clock
from koala.errors import ConfigError, KoalaError

WAIT_S = 2.0
"""Longest wait of a scrape for the event loop; Prometheus gives a scrape 10 s by default."""


class Readings:
    """Values of metrics by their labels."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[tuple[str, ...], float]]] = {}

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set one value; each combination of labels at most once."""
        self._values.setdefault(metric.name, []).append((labels, value))

    def of(self, metric: Metric) -> Sequence[tuple[tuple[str, ...], float]]:
        """Return the values of a metric."""
        return self._values.get(metric.name, ())

    def with_age(self, age_s: float) -> Readings:
        """Copy with this age."""
        copy = Readings()
        copy._values = {**self._values, READINGS_AGE.name: [((), age_s)]}
        return copy


def read_certificate_end(readings: Readings, identity: IdentityFile) -> None:
    """Read the end of a certificate from its file; for the thread of a scrape, not for a loop."""
    with suppress(ConfigError, OSError):  # it is being replaced
        readings.set(CERTIFICATE_ENDS, expires_at(identity.read().certificate))


class LoopReader:
    """Reads on an event loop, for other threads. Several scrapes share one question."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[], Awaitable[Readings]],
        *,
        wait_s: float = WAIT_S,
        now: Callable[[], float] = clock.now,
    ) -> None:
        self._loop = loop
        self._read_on_loop = read
        self._wait_s = wait_s
        self._now = now
        self._lock = Lock()
        self._pending: Future[Readings] | None = None
        self._last = Readings()
        self._read_at = now()

    def read(self) -> Readings:
        """Return new readings, or the last ones when the loop is busy, ends or has ended."""
        with suppress(TimeoutError, KoalaError, CancelledError, RuntimeError):
            self._ask().result(self._wait_s)
        with self._lock:
            return self._last.with_age(self._now() - self._read_at)

    def _ask(self) -> Future[Readings]:
        with self._lock:
            if self._pending is None or self._pending.done():
                question = self._store()
                try:
                    self._pending = asyncio.run_coroutine_threadsafe(question, self._loop)
                except RuntimeError:
                    question.close()
                    raise
            return self._pending

    async def _store(self) -> Readings:
        readings = await self._read_on_loop()
        with self._lock:
            self._last, self._read_at = readings, self._now()
        return readings
