"""Send spans to an OTLP receiver over HTTP, by the SDK of OpenTelemetry.

Its thread sends batches. A receiver that is away or slow costs spans, and nothing else: what waits
is bounded, and the newest spans are dropped when it is full. The SDK reads the usual variables of
the environment, as OTEL_EXPORTER_OTLP_HEADERS for a token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from koala.common.runtime.structured_log import get_logger
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.traces.observer import TraceObserver
from koala.views.spans import Span

TRY_S = 5.0
"""Longest time of one request to the receiver, with its repetitions."""
WAITING_SPANS_MAX = 20_000
PERIOD_MS = 2_000.0

log = get_logger()


class DaemonTraces:
    """Traces of one run of a daemon: sent from its making on, until `run` is cancelled."""

    def __init__(self, endpoint: str, scheduler: Scheduler, *, version: str) -> None:
        exporter = OTLPSpanExporter(endpoint, timeout=TRY_S)
        resource = Resource.create({"service.name": "koala", "service.version": version})
        self._endpoint = endpoint
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter, max_queue_size=WAITING_SPANS_MAX, schedule_delay_millis=PERIOD_MS
            )
        )
        self._tracer = self._provider.get_tracer("koala", version)
        self._observer = TraceObserver(scheduler, self._send)

    def observe(self, batch: DurableBatch) -> None:
        """Observe a batch that was delivered."""
        self._observer.observe(batch)

    async def run(self) -> None:
        """Wait until cancelled; then send what waits."""
        _log_errors_of_the_sdk()
        log.info("traces.started", address=self._endpoint)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(self._provider.shutdown)

    def _send(self, spans: Sequence[Span]) -> None:
        """Give the spans of one job to the SDK; the first is the parent of the others."""
        whole, *parts = spans
        root = self._tracer.start_span(
            whole.name, start_time=_ns(whole.since), attributes=dict(whole.attributes)
        )
        context = set_span_in_context(root)
        for part in parts:
            child = self._tracer.start_span(
                part.name,
                context=context,
                start_time=_ns(part.since),
                attributes=dict(part.attributes),
            )
            if part.error:
                child.set_status(Status(StatusCode.ERROR, part.error))
            child.end(_ns(part.until))
        if whole.error:
            root.set_status(Status(StatusCode.ERROR, whole.error))
        root.end(_ns(whole.until))


def _ns(at: float) -> int:
    return int(at * 1e9)


class _ToOurLog(logging.Handler):
    """Handler that writes the SDK's messages as lines of the daemon's log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        log.warning("traces.export_failed", reason=record.getMessage())


def _log_errors_of_the_sdk() -> None:
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _ToOurLog) for handler in logger.handlers):
        logger.addHandler(_ToOurLog(logging.WARNING))
    logger.propagate = False
