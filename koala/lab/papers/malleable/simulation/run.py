"""One run of the experiment with malleable jobs, and its measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from koala.core.model.grid import GridView, Placement, PlacementRequest, SiteFacts, Unplaceable
from koala.core.model.parameters import Parameters
from koala.core.policy_api import Policies, ResizePlan, ResizeQuestion
from koala.lab.papers.malleable.simulation.arrivals import RIGID, submissions
from koala.lab.papers.malleable.simulation.setting import APPLICATIONS, Setting
from koala.lab.sim.experiment.setting import SiteSetting
from koala.lab.sim.experiment.world import ExperimentReport, World
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.statistics import mean, percent
from koala.policies import chosen
from koala.policies.placement.cluster_minimization import fcm
from koala.queue_model import local_scheduler

PARAMETERS = Parameters(hold_s=86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements of a run: figures by name, such as `response.all`, and the jobs."""

    seed: int
    values: dict[str, float]
    jobs: tuple[JobRecord, ...]


def start_small(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place a malleable job with its least processors, at the site with most idle ones."""
    split = request.split
    if split is not None and split.is_malleable:
        request = replace(request, split=replace(split, total=split.least))
    return fcm(request, view)


def stay(question: ResizeQuestion) -> ResizePlan:
    """Let no job grow or give way."""
    return ResizePlan()


def _policies(setting: Setting) -> Policies:
    found = chosen(placement="WF", resizing=setting.manager)
    if setting.shape == "moldable":
        return replace(found, split=fcm, resize=stay)
    return replace(found, split=start_small)


def world(setting: Setting, seed: int) -> World:
    """Build the world before the first event."""
    is_moldable = setting.shape == "moldable"
    parameters = replace(
        PARAMETERS,
        resize_first="running" if is_moldable else setting.first,
        resize_step_s=setting.step_s,
    )
    return World(
        sites=[
            SiteSetting(
                name=name,
                facts=SiteFacts(processors=processors, grace_s=1.0, starts_after_stop=True),
                discipline=local_scheduler("easy"),
            )
            for name, processors in zip(setting.names, setting.sites, strict=True)
        ],
        submissions=submissions(setting, seed),
        parameters=parameters,
        policies=_policies(setting),
    )


def run(setting: Setting, seed: int) -> Measured:
    """Run to the end of the last job."""
    report = world(setting, seed).run()
    return Measured(seed=seed, values=_values(setting, report), jobs=report.jobs)


def groups(jobs: tuple[JobRecord, ...]) -> dict[str, list[JobRecord]]:
    """Return the jobs by group: all; those of the setting's shape, and by their application; and
    the rigid ones."""
    found: dict[str, list[JobRecord]] = {"all": list(jobs), "shaped": [], RIGID: []}
    found |= {name: [] for name in APPLICATIONS}
    for job in jobs:
        first = job.job.partition("-")[0]
        if first == RIGID:
            found[RIGID].append(job)
        else:
            found["shaped"].append(job)
            found[first].append(job)
    return found


def _values(setting: Setting, report: ExperimentReport) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, jobs in groups(report.jobs).items():
        found[f"response.{name}"] = mean(job.response_s for job in jobs)
        found[f"wait.{name}"] = mean(job.waiting_s for job in jobs)
        found[f"size.{name}"] = mean(map(size_of, jobs))
        found[f"most.{name}"] = mean(float(max(_sizes(job))) for job in jobs)
    changes = [change for job in report.jobs for change in _changes(job)]
    count = max(1, len(report.jobs))
    found["grown"] = sum(change > 0 for change in changes) / count
    found["shrunk"] = sum(change < 0 for change in changes) / count
    capacity_s = sum(setting.sites) * report.ended_at
    found["used"] = percent(report.running_s, capacity_s)
    found["unfinished"] = float(sum(not job.is_finished for job in report.jobs))
    return found


def _sizes(job: JobRecord) -> list[int]:
    """List the processors that a job had, one after the other."""
    return [size for _, size in job.sizes] or [job.processors]


def size_of(job: JobRecord) -> float:
    """Return the mean processors of a job while it ran."""
    return job.mean_processors or float(job.processors)


def _changes(job: JobRecord) -> Iterator[int]:
    """Yield by how much each resize of a job changed its processors, but for its begin and end."""
    sizes = _sizes(job)
    for size, other in pairwise(sizes[:-1]):
        yield other - size
