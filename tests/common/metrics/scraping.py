"""Scrapes in tests: what an endpoint answers, read by the library's own parser."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from koala.common.metrics.endpoint import MetricsEndpoint
from koala.common.metrics.settings import MetricsSettings

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
WAIT_S = 60.0


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return all samples by name and labels. Each stands once."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(text: str, name: str, **labels: str) -> float:
    """Return the value of one sample."""
    return samples(text)[name, tuple(sorted(labels.items()))]


def rendered(registry: CollectorRegistry) -> str:
    """Return the text of a registry."""
    return generate_latest(registry).decode()


def get(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    ca: Path | None = None,
    method: str = "GET",
) -> tuple[int, str, str]:
    """Ask an address; return status, content type and text."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        context.check_hostname = False
        connection: Any = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=WAIT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=WAIT_S)
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"] or "", answer.read().decode()
    finally:
        connection.close()


def openmetrics_families(text: str) -> list[str]:
    """Return the names of an answer in OpenMetrics, as the library's strict parser reads it."""
    parse: Callable[[str], Iterator[Metric]] = parse_openmetrics  # the library gives it no type
    return [family.name for family in parse(text)]


@contextmanager
def endpoint_at(
    folder: Path, registry: CollectorRegistry, **settings: Any
) -> Iterator[MetricsEndpoint]:
    """Serve a registry on a free port for the length of the block."""
    url_file = str(folder / "metrics.url")
    found = MetricsSettings(listen="127.0.0.1:0", url_file=url_file, **settings)
    endpoint = MetricsEndpoint(found, registry, key="metrics.listen")
    endpoint.start()
    try:
        yield endpoint
    finally:
        endpoint.close()
