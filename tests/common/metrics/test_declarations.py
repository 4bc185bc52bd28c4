"""The table of metrics: names by the conventions, labels that are bounded, and its document."""

from __future__ import annotations

import re

import pytest

from koala.common.metrics import declarations as m
from koala.common.metrics.declarations import METRICS
from koala.core.model.claim import Armed, Asked, Granted, Passed, Released, Stopped
from koala.core.model.job import SITE_FAULTS, TERMINAL, TRANSITIONS
from koala.core.model.values import Priority
from tests.common.metrics.document import inserted
from tests.tidy.sources import ROOT


def test_every_metric_has_its_own_name_that_begins_with_koala() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"koala_[a-z_]+[a-z]", name)] == []


def test_values_of_labels_are_those_of_the_core() -> None:
    ends = [phase.__name__.lower() for phase in TERMINAL]
    assert list(m.PHASE.values) == [p.lower() for p in TRANSITIONS if p.lower() not in ends]
    assert list(m.OUTCOME.values) == ends
    assert list(m.PRIORITY.values) == list(Priority)
    assert set(SITE_FAULTS) < set(m.FAULT.values)
    phases = [kind.name for kind in (Asked, Granted, Armed, Released, Passed, Stopped)]
    assert list(m.CLAIM_PHASE.values) == phases


@pytest.mark.parametrize("method", ["Koala/Submit", "AgentLink/Connect", "Relay/Put"])
def test_calls_are_told_apart_by_the_methods_of_the_services(method: str) -> None:
    assert method in m.METHOD.values


def test_the_page_has_the_table_as_it_is_declared() -> None:
    page = (ROOT / "docs" / "guides" / "metrics.md").read_text(encoding="utf-8")
    again = "python -m tests.common.metrics.document docs/guides/metrics.md rewrites it"
    assert inserted(page) == page, again
