"""One run of the experiment and its measurements (KOALA 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, nan
from typing import Any

from koala.core.model.grid import SiteFacts
from koala.core.model.values import FOREVER, Instant
from koala.lab.papers.koala.simulation.arrivals import local_jobs, submissions
from koala.lab.papers.koala.simulation.setting import Group, Setting
from koala.lab.sim.experiment.setting import FaultRates, Links, Outage, RandomFaults, SiteSetting
from koala.lab.sim.experiment.usage import Span
from koala.lab.sim.experiment.world import ExperimentReport, Watch, World
from koala.lab.sim.metrics import JobRecord, measure
from koala.lab.sim.statistics import percent
from koala.policies import chosen
from koala.queue_model import local_scheduler

USES = ("busy", "local", "koala", "held", "running")
"""Uses of processors, in percent of those that the scheduler may use: in all, by the sites' own
users, by the scheduler's jobs, and of these by claims before their barrier and by components."""
DRAWN_S = 1400 * 60.0
"""Time that figure 2 of the paper shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of a run: figures by name (`placement_s.72x8.high`,
    `utilization.arrivals.busy`), jobs, usage over time, and why the first unfinished jobs wait.
    Instants count from the beginning of the experiment."""

    seed: int
    values: dict[str, float]
    jobs: tuple[JobRecord, ...]
    spans: tuple[Span, ...]
    unfinished: int
    ended_at: Instant
    waiting: tuple[str, ...] = ()


def world(setting: Setting, seed: int, *, watch: Watch | None = None) -> World:
    """Build the world before the first event."""
    sites = [
        SiteSetting(
            name=name,
            facts=SiteFacts(processors=processors, grace_s=setting.grace_s, starts_after_stop=True),
            discipline=local_scheduler(setting.discipline),
            local_jobs=local_jobs(setting, name, processors, seed),
        )
        for name, processors in zip(setting.names, setting.sites, strict=True)
    ]
    rates = {
        name: FaultRates(claim=claim, component=component)
        for name, claim, component in zip(
            setting.names,
            setting.each(setting.claim_errs),
            setting.each(setting.component_fails),
            strict=True,
        )
    }
    outages = []
    if setting.lost_site is not None:
        lost = setting.names[setting.lost_site - 1]
        outages.append(Outage(site=lost, at=setting.warmup_s + setting.lost_at_s, until=FOREVER))
    return World(
        sites=sites,
        submissions=submissions(setting, seed),
        parameters=replace(setting.parameters, bandwidth_default_bps=setting.bandwidth_bps),
        policies=chosen(
            placement=setting.placement, queueing=setting.queueing, claiming=setting.claiming
        ),
        links=Links(is_shared=setting.shared_links),
        faults=RandomFaults(seed, rates, outages),
        bin_s=setting.bin_s,
        watch=watch,
    )


def run(setting: Setting, seed: int) -> Measured:
    """Run to the end of the last job, or to the horizon."""
    report = world(setting, seed).run(until=setting.warmup_s + setting.horizon_s)
    return measured(setting, seed, report)


def measured(setting: Setting, seed: int, report: ExperimentReport) -> Measured:
    """Extract the measurements from a report."""
    jobs = tuple(_from(record, setting.warmup_s) for record in report.jobs)
    spans = tuple(
        replace(span, begin_at=span.begin_at - setting.warmup_s)
        for span in report.spans
        if span.begin_at >= setting.warmup_s
    )
    ended_at = report.ended_at - setting.warmup_s
    return Measured(
        seed=seed,
        values={
            **_by_group(setting, jobs),
            **_utilization("whole", spans),
            **_over_time(setting, spans),
            **_utilization("arrivals", _until(spans, max(job.submitted_at for job in jobs))),
            "unfinished": float(report.unfinished),
            "makespan_s": ended_at if not report.unfinished else nan,
        },
        jobs=jobs,
        spans=spans,
        unfinished=report.unfinished,
        ended_at=ended_at,
        waiting=report.waiting,
    )


_INSTANTS = ("submitted_at", "placed_at", "claimed_at", "start_at", "started_at", "ended_at")


def _from(record: JobRecord, begin_at: Instant) -> JobRecord:
    """Return the record with instants that count from `begin_at`."""
    moved: dict[str, Any] = {
        name: None if (at := getattr(record, name)) is None else at - begin_at for name in _INSTANTS
    }
    return replace(record, **moved)


def _by_group(setting: Setting, jobs: Iterable[JobRecord]) -> dict[str, float]:
    members: dict[Group, list[JobRecord]] = {group: [] for group in setting.groups}
    for record in jobs:
        for size in (None, record.processors):
            for count in (None, record.components):
                for priority in (None, record.priority):
                    group = Group(processors=size, components=count, priority=priority)
                    members[group].append(record)
    return {
        f"{name}.{group}": value
        for group, records in members.items()
        for name, value in measure(records).items()
    }


def _until(spans: Iterable[Span], at: Instant) -> list[Span]:
    return [span for span in spans if span.begin_at < at]


def _utilization(period: str, spans: Sequence[Span]) -> dict[str, float]:
    capacity_s = sum(span.processors * span.duration_s for span in spans)
    return {
        f"utilization.{period}.{use}": percent(
            sum(getattr(span, use) * span.duration_s for span in spans), capacity_s
        )
        for use in USES
    }


def over_time(use: str, minute: float) -> str:
    """Name of the use in the bin that begins at this minute."""
    return f"utilization.{use}@{minute:g}"


def _over_time(setting: Setting, spans: Sequence[Span]) -> dict[str, float]:
    """List usage by bin; nan after the end of a run that was shorter than the chart."""
    bins = max(len(spans), ceil(DRAWN_S / setting.bin_s))
    return {
        over_time(use, index * setting.bin_s / 60): (
            percent(getattr(spans[index], use), spans[index].processors)
            if index < len(spans)
            else nan
        )
        for index in range(bins)
        for use in USES
    }
