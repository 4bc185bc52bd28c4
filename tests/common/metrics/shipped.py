"""Readers of what deploy/ ships for Prometheus and Grafana: rules, dashboards and their queries."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import yaml

from koala.common.metrics.declarations import METRICS, Metric
from tests.tidy.sources import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
NAME = re.compile(r"\bkoala_[a-z_]+\b")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SELECTED = re.compile(r"\{([^}]*)\}")
TARGET_LABELS = {"job", "instance", "agent", "le"}
"""Labels that Prometheus adds, and that of buckets."""


def dashboard_maker() -> ModuleType:
    """Load the module that makes the dashboards; its folder is no package."""
    path = GRAFANA / "make_dashboards.py"
    spec = importlib.util.spec_from_file_location("make_dashboards", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_dashboards"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def dashboards() -> dict[str, Any]:
    """Read the dashboards by their names."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(GRAFANA.joinpath("dashboards").glob("*.json"))
    }


def panel_queries() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each query in the dashboards."""
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]


def alert_rules() -> list[dict[str, Any]]:
    """Read all alerts."""
    text = PROMETHEUS.joinpath("koala-alerts.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def metrics_in(query: str) -> dict[str, Metric | None]:
    """Return the metrics that a query names, None for an unknown one."""
    known = {metric.name: metric for metric in METRICS}
    for metric in METRICS:
        if metric.buckets:
            known.update({f"{metric.name}_{end}": metric for end in ("bucket", "count", "sum")})
            del known[metric.name]
    return {name: known.get(name) for name in NAME.findall(query)}


def labels_in(query: str) -> set[str]:
    """Return the labels that a query groups by or selects."""
    grouped = {label.strip() for found in GROUPED.findall(query) for label in found.split(",")}
    selected = {
        part.partition("=")[0].strip()
        for found in SELECTED.findall(query)
        for part in re.sub(r'"[^"]*"', '""', found).split(",")
    }
    return {label for label in grouped | selected if label}
