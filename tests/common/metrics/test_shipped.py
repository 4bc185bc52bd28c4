"""Dashboards and alerts name metrics and labels that are declared, and are well formed."""

from __future__ import annotations

import re

import pytest

from tests.common.metrics.shipped import (
    GRAFANA,
    PROMETHEUS,
    TARGET_LABELS,
    alert_rules,
    dashboard_maker,
    dashboards,
    labels_in,
    metrics_in,
    panel_queries,
)

QUERIES = [*panel_queries(), *((rule["alert"], rule["expr"]) for rule in alert_rules())]


@pytest.mark.parametrize(("place", "query"), QUERIES)
def test_a_query_names_what_is_declared(place: str, query: str) -> None:
    found = metrics_in(query)
    assert [name for name, metric in found.items() if metric is None] == [], place
    declared = {label for metric in found.values() if metric for label in metric.label_names}
    assert labels_in(query) <= declared | TARGET_LABELS, place


def test_the_dashboards_are_as_they_are_made() -> None:
    maker = dashboard_maker()
    assert set(dashboards()) == set(maker.DASHBOARDS)
    for uid in maker.DASHBOARDS:
        text = GRAFANA.joinpath("dashboards", f"{uid}.json").read_text(encoding="utf-8")
        assert text == maker.text_of(uid), "python deploy/grafana/make_dashboards.py rewrites it"


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_a_dashboard_is_well_formed(name: str) -> None:
    """By the fields that Grafana reads; Grafana itself is not among the packages of the system."""
    dashboard = dashboards()[name]
    assert dashboard["uid"] == name
    assert dashboard["schemaVersion"] >= 36
    (variable,) = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    taken: set[tuple[int, int]] = set()
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers) >= 10
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))


def test_alerts_say_what_happened_and_what_to_do() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    assert len(set(names)) == len(names)
    for rule in alert_rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        assert rule["annotations"]["action"].endswith("."), rule["alert"]
    tests = PROMETHEUS.joinpath("koala-alerts-test.yml").read_text(encoding="utf-8")
    assert [name for name in names if not re.search(rf"\b{name}\b", tests)] == []
