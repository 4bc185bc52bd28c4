"""Types of which metrics are declared, by the naming conventions of Prometheus.

Names begin with `koala_`, units are base units, counters end in `_total`. A label has a fixed list
of values, or is a site: the number of sites is bounded by the configuration (`Meter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OTHER = "other"
"""Label value that stands for all values beyond the known ones."""


class MetricKind(StrEnum):
    """Kind of a metric, as OpenMetrics names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(StrEnum):
    """Process that has a metric."""

    DAEMON = "daemon"
    RELAY = "relay"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label and its values. `takes_sites` adds the names of sites, up to the configured number;
    `takes_any` is for a label with one value in a process."""

    name: str
    values: tuple[str, ...] = ()
    takes_sites: bool = False
    takes_any: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Declaration of a metric.

    `buckets` are the upper bounds of a histogram. With `is_read` the value is read for each scrape,
    otherwise it is counted as things happen.
    """

    name: str
    kind: MetricKind
    help: str
    sources: tuple[Source, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    is_read: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels, in order."""
        return tuple(label.name for label in self.labels)
