"""Write the dashboards of Grafana, from the panels below.

    python deploy/grafana/make_dashboards.py        writes deploy/grafana/dashboards/*.json

A test compares the files with this module, and asks a real Prometheus each of their queries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 12, 8
"""Size of a panel; a row of Grafana is 24 wide."""
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel: pairs of a legend and a PromQL query, and the unit of the values."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    is_stacked: bool = False
    about: str = ""


def quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    """Make the queries for the median and the 90 and 99 % quantiles of a histogram."""
    found = []
    for quantile in (0.5, 0.9, 0.99):
        labels = f"le, {by}" if by else "le"
        legend = f"{quantile:.0%} {{{{{by}}}}}" if by else f"{quantile:.0%}"
        rate = f"sum by ({labels}) (rate({metric}_bucket{RATE}))"
        found.append((legend, f"histogram_quantile({quantile:g}, {rate})"))
    return tuple(found)


GRID = (
    Panel(
        title="Sites by state",
        queries=(("{{state}}", "koala_sites"),),
        kind="stat",
        about="disconnected, usable, drained, or resting after errors",
    ),
    Panel(
        title="Processors by use",
        queries=(("{{use}}", "sum by (use) (koala_site_processors)"),),
        is_stacked=True,
    ),
    Panel(
        title="Processors in use by Koala, by site",
        queries=(("{{site}}", 'sum by (site) (koala_site_processors{use=~"asked|held|running"})'),),
        is_stacked=True,
    ),
    Panel(
        title="Held processors, by site",
        queries=(("{{site}}", 'koala_site_processors{use="held"}'),),
        is_stacked=True,
        about="held at a barrier: the price of starting together",
    ),
    Panel(
        title="Claims granted and refused",
        queries=(
            ("granted at {{site}}", f"sum by (site) (rate(koala_claims_granted_total{RATE}))"),
            (
                "{{reason}} at {{site}}",
                f"sum by (site, reason) (rate(koala_claims_refused_total{RATE}))",
            ),
        ),
        unit="ops",
    ),
    Panel(
        title="Faults and expired leases",
        queries=(
            (
                "{{reason}} at {{site}}",
                "sum by (site, reason) (increase(koala_site_faults_total[1h]))",
            ),
            ("lease at {{site}}", "sum by (site) (increase(koala_leases_expired_total[1h]))"),
        ),
        about="within an hour",
    ),
    Panel(
        title="Links to agents",
        queries=(("{{site}}", "koala_site_up"),),
        kind="state-timeline",
    ),
    Panel(
        title="Round trips",
        queries=(("{{site}}", "koala_site_round_trip_seconds"),),
        unit="s",
    ),
    Panel(
        title="Copies to sites",
        queries=(("{{site}}", f"sum by (site) (rate(koala_transfer_bytes_total{RATE}))"),),
        unit="Bps",
    ),
    Panel(
        title="The relay",
        queries=(("{{direction}}", f"sum by (direction) (rate(koala_relay_bytes_total{RATE}))"),),
        unit="Bps",
    ),
    Panel(
        title="Queues of the sites",
        queries=(
            ("jobs at {{instance}}", "koala_agent_queued_jobs"),
            ("local processors at {{instance}}", "koala_agent_local_processors"),
        ),
        about="by the agents' own answers",
    ),
    Panel(
        title="Days until certificates end",
        queries=(
            ("{{site}}", "(koala_site_certificate_expiry_timestamp_seconds - time()) / 86400"),
            ("{{job}}", "(koala_certificate_expiry_timestamp_seconds - time()) / 86400"),
        ),
        kind="bargauge",
    ),
)

SCHEDULER = (
    Panel(
        title="Jobs by phase",
        queries=(("{{phase}}", "sum by (phase) (koala_jobs)"),),
        is_stacked=True,
    ),
    Panel(
        title="Jobs in placement queues",
        queries=(("{{queue}}", 'sum by (queue) (koala_jobs{phase="placing"})'),),
        is_stacked=True,
    ),
    Panel(
        title="Submitted and ended",
        queries=(
            ("submitted, {{priority}}", f"rate(koala_jobs_submitted_total{RATE})"),
            ("{{outcome}}", f"rate(koala_jobs_ended_total{RATE})"),
        ),
        unit="ops",
    ),
    Panel(
        title="Age of the heads of queues",
        queries=(("{{queue}}", "koala_queue_head_age_seconds"),),
        unit="s",
    ),
    Panel(
        title="Wait until the start",
        queries=quantiles("koala_job_wait_seconds", "priority"),
        unit="s",
    ),
    Panel(title="Start skew", queries=quantiles("koala_start_skew_seconds"), unit="s"),
    Panel(title="Holds", queries=quantiles("koala_claim_hold_seconds", "outcome"), unit="s"),
    Panel(
        title="Processors used for running and holding",
        queries=(("{{use}}", f"sum by (use) (rate(koala_processor_seconds_total{RATE}))"),),
        is_stacked=True,
        about="mean number of processors, of claims that ended",
    ),
    Panel(
        title="Setbacks and preemptions",
        queries=(
            ("set back", f"rate(koala_job_setbacks_total{RATE})"),
            ("preempted", f"rate(koala_job_preemptions_total{RATE})"),
        ),
        unit="ops",
    ),
    Panel(
        title="Commits of the journal", queries=quantiles("koala_journal_commit_seconds"), unit="s"
    ),
    Panel(
        title="Lag of the event loop",
        queries=quantiles("koala_event_loop_lag_seconds", "job"),
        unit="s",
    ),
    Panel(
        title="Calls",
        queries=(
            (
                "{{method}} {{status}}",
                f"sum by (method, status) (rate(koala_calls_total{RATE})) > 0",
            ),
        ),
        unit="ops",
    ),
    Panel(
        title="Errors of metrics and traces",
        queries=(("{{observer}}", f"increase(koala_observer_errors_total{RATE})"),),
    ),
    Panel(
        title="Memory of the processes",
        queries=(("memory of {{job}}", 'process_resident_memory_bytes{job=~"koala-.*"}'),),
        unit="bytes",
    ),
    Panel(
        title="Processor time of the processes",
        queries=(("{{job}}", f'rate(process_cpu_seconds_total{{job=~"koala-.*"}}{RATE})'),),
    ),
    Panel(
        title="Disk",
        queries=(
            ("free for {{job}}", "koala_disk_free_bytes"),
            ("journal", "koala_journal_size_bytes"),
        ),
        unit="bytes",
    ),
)

DASHBOARDS = {
    "koala-grid": ("Koala: grid", GRID),
    "koala-scheduler": ("Koala: scheduler", SCHEDULER),
}


def dashboard(uid: str) -> dict[str, Any]:
    """Make the document of a dashboard."""
    title, panels = DASHBOARDS[uid]
    return {
        "uid": uid,
        "title": title,
        "tags": ["koala"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "current": {},
                }
            ]
        },
        "annotations": {"list": []},
        "panels": [_panel(panel, number) for number, panel in enumerate(panels)],
    }


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    place = {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT}
    custom = {"fillOpacity": 30, "stacking": {"mode": "normal"}} if panel.is_stacked else {}
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "options": {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (legend, query) in enumerate(panel.queries)
        ],
    }


def text_of(uid: str) -> str:
    """Render a dashboard as its file has it."""
    return json.dumps(dashboard(uid), indent=2) + "\n"


def main() -> None:
    """Write all dashboards."""
    for uid in DASHBOARDS:
        FOLDER.joinpath(f"{uid}.json").write_text(text_of(uid), encoding="utf-8")


if __name__ == "__main__":
    main()
