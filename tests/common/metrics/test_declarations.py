"""The table of metrics: names by the conventions, labels that are bounded, and its document."""

from __future__ import annotations

import re

import pytest

from koala.common.metrics import declarations as m
from koala.common.metrics.declarations import METRICS, MetricKind
from koala.common.metrics.document import inserted
from koala.core.model.claim import Armed, Asked, Granted, Passed, Released, Stopped
from koala.core.model.job import SITE_FAULTS, TERMINAL, TRANSITIONS
from koala.core.model.values import Priority
from tests.tidy.sources import ROOT

UNITS = ("seconds", "bytes", "info", "processors", "jobs", "claims", "items")


def test_every_metric_has_its_own_name_that_begins_with_koala() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"koala_[a-z_]+[a-z]", name)] == []


def test_counters_and_only_counters_end_in_total() -> None:
    wrong = [m.name for m in METRICS if m.name.endswith("_total") is not (m.kind == "counter")]
    assert wrong == []


def test_histograms_have_rising_buckets_and_name_their_unit() -> None:
    for metric in METRICS:
        is_histogram = metric.kind is MetricKind.HISTOGRAM
        assert bool(metric.buckets) is is_histogram, metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
        assert not is_histogram or metric.name.endswith("_seconds"), metric.name


def test_help_is_a_sentence_and_every_label_is_bounded() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"[A-Z0-9].*\.", metric.help), metric.name
        assert metric.sources, metric.name
        for label in metric.labels:
            assert label.values or label.takes_sites or label is m.VERSION, metric.name
            assert label.name not in ("job", "user", "owner", "claim", "le"), metric.name


def test_values_of_labels_are_those_of_the_core() -> None:
    ends = [phase.__name__.lower() for phase in TERMINAL]
    assert list(m.PHASE.values) == [p.lower() for p in TRANSITIONS if p.lower() not in ends]
    assert list(m.OUTCOME.values) == ends
    assert list(m.PRIORITY.values) == list(Priority)
    assert set(SITE_FAULTS) < set(m.FAULT.values)
    phases = [kind.name for kind in (Asked, Granted, Armed, Released, Passed, Stopped)]
    assert list(m.CLAIM_PHASE.values) == phases


@pytest.mark.parametrize("method", ["Koala/Submit", "AgentLink/Connect", "Relay/Store"])
def test_calls_are_told_apart_by_the_methods_of_the_services(method: str) -> None:
    assert method in m.METHOD.values


def test_the_page_has_the_table_as_it_is_declared() -> None:
    page = (ROOT / "docs" / "guides" / "metrics.md").read_text(encoding="utf-8")
    again = "python -m koala.common.metrics.document docs/guides/metrics.md rewrites it"
    assert inserted(page) == page, again
