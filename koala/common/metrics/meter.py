"""The meter of one process: counters and histograms, and values that are read for each scrape.

It keeps the number of series bounded. A label with a fixed list of values accepts only these, and
at most `sites_max` sites are told apart; all others count under `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from koala.common.metrics.declarations import (
    METRICS,
    OTHER,
    SITE,
    Label,
    Metric,
    MetricKind,
    Source,
)
from koala.common.metrics.readings import Readings

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

S = TypeVar("S", Counter, Histogram)
BEGUN_MAX = 20
"""Values of a label up to which all series begin at 0, so that their rates have a first value."""


class Meter:
    """Metrics of one process. `add` and `observe` may be called by any thread, and are quick."""

    def __init__(
        self, source: Source, *, read: Callable[[], Readings], sites_max: int = 1_000
    ) -> None:
        """Begin at 0. `read` returns the newest readings, in the thread of a scrape."""
        omit_created: Callable[[], None] = disable_created_metrics  # the library gives it no type
        omit_created()  # else each series has another one
        self.registry = CollectorRegistry(auto_describe=False)
        self._sites_max = sites_max
        self._sites: set[str] = set()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._read_metrics = [m for m in METRICS if m.is_read and source in m.sources]
        for metric in METRICS:
            if source in metric.sources and not metric.is_read:
                self._declare(metric)
        self._read = read
        self.registry.register(cast("Collector", _Reader(self._families)))
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def add(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        self._series(self._counters[metric.name], metric, labels).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        self._series(self._histograms[metric.name], metric, labels).observe(value)

    def know_site(self, site: str) -> None:
        """Begin the counters of a site at 0, so that their rates have a first value."""
        if site in self._sites or self._site(site) == OTHER:
            return
        for metric in METRICS:
            if metric.name in self._counters and metric.labels == (SITE,):
                self._counters[metric.name].labels(site)

    def _declare(self, metric: Metric) -> None:
        names = metric.label_names
        made: Counter | Histogram
        if metric.kind is MetricKind.HISTOGRAM:
            made = self._histograms[metric.name] = Histogram(
                metric.name, metric.help, names, buckets=metric.buckets, registry=self.registry
            )
        else:
            made = self._counters[metric.name] = Counter(
                metric.name, metric.help, names, registry=self.registry
            )
        if len(metric.labels) == 1 and len(metric.labels[0].values) <= BEGUN_MAX:
            for value in metric.labels[0].values:
                made.labels(value)

    def _series(self, whole: S, metric: Metric, labels: tuple[str, ...]) -> S:
        return whole.labels(*self._bounded(metric, labels)) if metric.labels else whole

    def _bounded(self, metric: Metric, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            self._value(label, value) for label, value in zip(metric.labels, values, strict=True)
        )

    def _value(self, label: Label, value: str) -> str:
        if label.takes_any or value in label.values:
            return value
        return self._site(value) if label.takes_sites else OTHER

    def _site(self, site: str) -> str:
        if site in self._sites:
            return site
        if len(self._sites) >= self._sites_max:
            return OTHER
        self._sites.add(site)
        return site

    def _families(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield what is read for a scrape. Sites beyond `sites_max` are left out."""
        readings = self._read()
        for metric in self._read_metrics:
            make = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=metric.label_names)
            for labels, value in readings.of(metric):
                bounded = self._bounded(metric, labels)
                if bounded == labels:
                    family.add_metric(bounded, value)
            yield family


class _Reader:
    """Collector of a registry. It has no `describe`, so families are made at scrapes only."""

    def __init__(
        self, families: Callable[[], Iterator[CounterMetricFamily | GaugeMetricFamily]]
    ) -> None:
        self._families = families

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Return the families."""
        return self._families()
