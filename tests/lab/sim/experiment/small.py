"""Small grids by hand, and a watch that checks every event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from koala.core.invariants import check
from koala.core.model.actions import Action, Announce
from koala.core.model.events import Event
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, InputFile
from koala.core.model.parameters import PAPER
from koala.core.model.values import FileName, Instant, JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.lab.sim.experiment.setting import LocalJob, Outage, SiteSetting, Submission
from koala.lab.sim.experiment.world import World
from koala.lab.sim.metrics import JobRecord
from koala.policies import chosen
from tests.harness.builders import a_spec

BPS = 10.0
"""Bytes a second of every link: a file of 1000 bytes takes 100 s."""


def site(
    name: str, processors: int, *local_jobs: LocalJob, latency_s: float = 0.0, **facts: Any
) -> SiteSetting:
    """A site with its own users' jobs."""
    facts.setdefault("grace_s", 1.0)
    facts.setdefault("starts_after_stop", True)
    return SiteSetting(
        name=SiteName(name),
        facts=SiteFacts(processors=processors, **facts),
        latency_s=latency_s,
        local_jobs=local_jobs,
    )


def local(at: Instant, processors: int, run_s: float) -> LocalJob:
    """A local user's job that knows how long it takes."""
    return LocalJob(at, processors, run_s, run_s)


def submission(
    name: str,
    at: Instant,
    *components: int | ComponentSpec,
    run_s: float,
    file_bytes: int = 0,
    replicas: tuple[str, ...] = (),
    status: int = 0,
    **spec: Any,
) -> Submission:
    """All components run equally long; with `replicas` there is an input file of the job's own."""
    file = InputFile(name=FileName(f"file of {name}"), size_bytes=file_bytes) if replicas else None
    return Submission(
        job=JobId(name),
        at=at,
        spec=replace(a_spec(*components, **spec), input_file=file),
        run_s=(run_s,) * len(components),
        statuses=(status,) * len(components),
        replicas=tuple(SiteName(replica) for replica in replicas),
    )


class Watched(World):
    """A world in which invariants and capacities are checked after every event."""

    def __init__(self, sites: Iterable[SiteSetting], *submissions: Submission, **more: Any) -> None:
        self.seen: list[tuple[Instant, Event, list[Action]]] = []
        parameters = replace(PAPER, bandwidth_default_bps=BPS, **more.pop("parameters", {}))
        super().__init__(
            sites=sites,
            submissions=submissions,
            parameters=parameters,
            policies=more.pop("policies", chosen()),
            watch=self._look,
            **more,
        )

    def _look(
        self, scheduler: Scheduler, event: Event, actions: Sequence[Action], now: Instant
    ) -> None:
        check(scheduler, now)
        self.seen.append((now, event, [a for a in actions if not isinstance(a, Announce)]))
        for name, place in self.grid.sites.items():
            used, idle = self.grid.usage.used(name), place.queue.idle
            assert used >= 0, (name, now)
            assert idle >= 0, (name, now)
            assert used + idle <= place.setting.facts.processors, (name, now)

    def play(self, until: Instant = 1e6) -> dict[str, JobRecord]:
        """To the end; what became of each job. What the core counted is what the sites saw."""
        report = self.run(until=until)
        same(report.held_s, sum(job.processor_wasted_s for job in report.jobs))
        same(report.running_s, sum(job.processor_run_s for job in report.jobs))
        for name, place in self.grid.sites.items():
            assert self.grid.usage.used(name) + place.queue.idle == place.setting.facts.processors
        return {str(job.job): job for job in report.jobs}


def same(one: float, other: float) -> None:
    """Equal but for rounding."""
    assert abs(one - other) <= 1e-6 * max(1.0, abs(one)), (one, other)


def outage(name: str, at: Instant, until: Instant = float("inf")) -> Outage:
    """A site breaks down."""
    return Outage(site=SiteName(name), at=at, until=until)
