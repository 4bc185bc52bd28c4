"""Metrics of the hints paper's simulation (Hints 5): response times by class, jobs that were never
placed, and link utilisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from koala.lab.papers.hints.simulation.run import JobRecord, RunRecord
from koala.lab.papers.hints.simulation.setting import Setting
from koala.lab.sim.statistics import Interval, batch_means, intervals, mean, ratio

KINDS: dict[str, Callable[[JobRecord], bool]] = {
    "all": lambda _job: True,
    "io": lambda job: job.is_io,
    "cpu": lambda job: not job.is_io,
}
"""Classes of jobs."""
LABELS = {"all": "all jobs", "io": "I/O-bound", "cpu": "CPU-bound"}


def metrics(setting: Setting, run: RunRecord) -> dict[str, float]:
    """Compute the numbers of one run; nan where nothing of the kind happened."""
    found: dict[str, float] = {}
    for name, is_of in KINDS.items():
        jobs = [job for job in run.jobs if job.site is not None and is_of(job)]
        found[f"response.{name}"] = mean([job.response_s for job in jobs])
        found[f"wait.{name}"] = mean([job.placed_at - job.submitted_at for job in jobs])
        found[f"remote.{name}"] = mean([float(job.site != job.home) for job in jobs])
        slow = [float(job.mips < setting.preferred_mips * (1 - 1e-9)) for job in jobs]
        found[f"below_preferred.{name}"] = mean(slow)
    found["unplaced"] = float(sum(job.site is None for job in run.jobs))
    for ends, mbps in setting.links.items():
        carried = ratio(8 * run.moved_mb[ends], mbps * run.ended_at)
        found[f"links.{setting.name_of(ends)}"] = carried
    capacity = sum(setting.links.values())
    moved = 8 * sum(run.moved_mb.values())
    found["link_utilization"] = ratio(moved, capacity * run.ended_at)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Metrics over replications; of one replication, response times by batch means."""

    metrics: dict[str, Interval]
    replications: int

    def document(self) -> dict[str, Any]:
        """Return the document for JSON; `unplaced` and `link_utilization` are means over the
        replications."""
        by_kind = {
            name: {kind: self.metrics[f"{name}.{kind}"].document() for kind in KINDS}
            for name in ("response", "wait", "remote", "below_preferred")
        }
        links = {
            name.removeprefix("links."): found.document()
            for name, found in self.metrics.items()
            if name.startswith("links.")
        }
        return {
            **by_kind,
            "unplaced": self.metrics["unplaced"].document()["mean"],
            "link_utilization": self.metrics["link_utilization"].document()["mean"],
            "links": links,
            "replications": self.replications,
        }


def summarize(setting: Setting, runs: Sequence[RunRecord]) -> Summary:
    """Compute means over replications with 95 % intervals."""
    values = [metrics(setting, run) for run in runs]
    found = intervals(values, values[0])
    if len(runs) == 1:
        for kind, is_of in KINDS.items():
            jobs = [job for job in runs[0].jobs if job.site is not None and is_of(job)]
            spread = batch_means([job.response_s for job in jobs])
            found[f"response.{kind}"] = replace(spread, mean=found[f"response.{kind}"].mean)
    return Summary(metrics=found, replications=len(runs))
