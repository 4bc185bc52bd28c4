"""Runs of policies in scenes, and the table over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any

from koala.common.runtime.option_values import Bounds as Limits
from koala.lab.backlog.bound import BoundTask, summarised
from koala.lab.backlog.scenes import DAY_S, END_S, JOBS_D, Coallocated, Scene
from koala.lab.experiments import Experiment
from koala.lab.rows import Row, Rows
from koala.lab.sim.metrics import JobRecord
from koala.lab.sim.options import Declared, flag, number, whole
from koala.lab.sim.statistics import geometric
from koala.lab.sweeps import Point

PLAIN = "plain jobs"
"""Name of the bound in tables."""
RATIOS = ("median_s", "p90_s", "mean_s")
"""Metrics that are given as ratios to the bound."""


def waits(jobs: Iterable[JobRecord]) -> list[float]:
    """Return the wait of each job; one that has not started at the end has waited until then."""
    return [
        (END_S if job.started_at is None else job.started_at) - job.submitted_at for job in jobs
    ]


def _metric(name: str, jobs: Sequence[JobRecord]) -> float:
    return summarised(waits(jobs))[name]


METRICS = {name: partial(_metric, name) for name in (*RATIOS, "in_72h_percent")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Settings of a comparison: scenes, their jobs, and policies of tickets. A share `bookable` of
    all machines books processors, evenly spread over them."""

    scenes: tuple[Scene, ...]
    policies: tuple[str, ...]
    percent: float = number(
        10.0,
        "Processors of a job at each site, of all that it has.",
        name="size",
        metavar="PERCENT",
        bounds=Limits(low=0.1, high=100),
    )
    run_s: int = number(3600, "Run time of jobs.", metavar="SECONDS", bounds=Limits(low=1))
    every_s: int = number(
        432_000,
        "One job in each so long time.",
        metavar="SECONDS",
        bounds=Limits(low=1, high=JOBS_D * DAY_S),
    )
    components: int | None = whole(
        "Components of a job, which may run at any of the sites.",
        low=1,
        metavar="N",
        unset="one at each site",
    )
    redundancy: int = number(
        1,
        "With --components: sites in whose queues a component waits.",
        metavar="QUEUES",
        bounds=Limits(low=1),
    )
    has_gate: bool = flag("The sites have no gates.", name="no-gate", default=True)
    has_forecast: bool = flag(
        "The sites do not tell when claims would start.", name="no-forecast", default=True
    )
    bookable: float = number(
        0.0,
        "Share of all sites that book processors for a planned start.",
        metavar="SHARE",
        bounds=Limits(low=0, high=1),
    )
    reps: int = 1

    def jobs(self, scene: Scene) -> Coallocated:
        """Return the jobs in a scene."""
        return Coallocated(
            sites=tuple((one.name, one.processors) for one in scene.machines),
            percent=self.percent,
            run_s=self.run_s,
            every_s=self.every_s,
            components=self.components,
            redundancy=self.redundancy,
        )

    def points(self) -> tuple[Point, ...]:
        """List each scene under each policy. Raises ConfigError."""
        found = []
        machines = 0
        for scene in self.scenes:
            numbers = range(machines, machines + len(scene.machines))
            machines = numbers.stop
            grid = scene.grid(
                has_gate=self.has_gate,
                has_forecast=self.has_forecast,
                books=[int(n * self.bookable) < int((n + 1) * self.bookable) for n in numbers],
            )
            base = Experiment(
                grid=grid,
                workload=self.jobs(scene),
                placement="WF-distinct" if self.components else None,
                until_s=END_S,
                is_whole=True,
                metrics=METRICS,
            )
            for policy in self.policies:
                labels = (("sites", scene.name), ("policy", policy))
                found.append(Point(labels=labels, base=replace(base, tickets=policy)))
        return tuple(found)

    def bounds(self, seeds: Iterable[int]) -> tuple[BoundTask, ...]:
        """List the local queues alone, and with the plain jobs of each seed."""
        alone = [BoundTask(scene=scene) for scene in self.scenes]
        plain = [
            BoundTask(scene=scene, jobs=self.jobs(scene), seed=seed)
            for scene in self.scenes
            for seed in seeds
        ]
        return (*alone, *plain)

    def __str__(self) -> str:
        a_day = DAY_S / self.every_s
        often = f"{a_day:g} a day" if a_day >= 1 else f"one in {1 / a_day:g} days"
        words = [f"{self.run_s / 3600:g} h on {self.percent:g} %", often]
        if self.components is not None:
            words.append(f"{self.components} components, redundancy {self.redundancy}")
        words += [] if self.has_gate else ["no gates"]
        words += [] if self.has_forecast else ["no expected starts"]
        words += [f"{100 * self.bookable:g} % of the sites book"] if self.bookable else []
        return ", ".join(words)


OPTIONS = Declared.of(Campaign)


def full(scenes: tuple[Scene, ...]) -> tuple[Campaign, ...]:
    """List the settings of the page docs/backlog.md."""
    base = Campaign(scenes=scenes, policies=("dodge", "turns"), reps=3)
    wide = tuple(scene for scene in scenes if len(scene.machines) > 2)
    often = replace(base, every_s=21_600, policies=("none", "dodge", "turns"), reps=1)
    chosen = replace(base, scenes=wide, components=2, policies=("dodge",))
    found = (
        replace(base, policies=("none", "dodge", "turns"), reps=6),
        replace(base, has_gate=False, policies=("spare",), reps=6),
        replace(base, run_s=21_600),
        replace(base, percent=25),
        often,
        replace(often, percent=25),
        chosen,
        replace(chosen, redundancy=2),
        *(replace(base, bookable=share, policies=("book",)) for share in (0.25, 0.5, 1.0)),
    )
    return tuple(one for one in found if one.scenes)


Values = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The local queues of each scene alone, and the plain jobs of each scene and seed."""

    alone: Mapping[str, Values]
    plain: Mapping[tuple[str, int], Values]


def table(rows: Iterable[Row], policies: Sequence[str], bounds: Bounds) -> Rows:
    """Summarise the runs: a row for the plain jobs, and one for each policy.

    Ratios of waits are geometric means over scenes and seeds, that of medians with its 95 %
    confidence interval. Waste is the processor time that
    claims held before a start, in percent of that which jobs ran. Harm is the change of the local
    jobs' mean wait by these jobs, and a mean, as are the shares.
    """
    by_policy: dict[str, list[tuple[Row, Values, float]]] = {name: [] for name in policies}
    for row in rows:
        cell = (row["sites"], row["seed"])
        alone_s = bounds.alone[row["sites"]]["local_wait_mean"]
        by_policy[row["policy"]].append((row, bounds.plain[cell], alone_s))
    plain: list[dict[str, Any]] = [
        {"sites": sites, "given_back": 0.0, "held_processor_s": 0.0, "jobs": 1.0, **values}
        for (sites, _), values in bounds.plain.items()
    ]
    own: list[tuple[Row, Values, float]] = [
        (row, row, bounds.alone[row["sites"]]["local_wait_mean"]) for row in plain
    ]
    harm_s = _scored(PLAIN, own)["harm_s"]
    found = [_scored(PLAIN, own), *(_scored(name, by_policy[name]) for name in policies)]
    return Rows({**row, "plain_harm_s": harm_s} for row in found)


def _scored(name: str, runs: Sequence[tuple[Mapping[str, Any], Values, float]]) -> Row:
    row: Row = {"policy": name, "runs": len(runs)}
    for metric in RATIOS:
        mean, low, high = geometric(
            own[metric] / plain[metric] for own, plain, _ in runs if own[metric] and plain[metric]
        )
        row[f"{metric.removesuffix('_s')}_ratio"] = mean
        if metric == RATIOS[0]:
            row |= {"median_low": low, "median_high": high}
    ran = sum(own.get("running_processor_s", 0.0) for own, _, _ in runs)
    held = sum(own["held_processor_s"] for own, _, _ in runs)
    row["waste_percent"] = 100 * held / ran if ran else 0.0
    row["in_72h_percent"] = _mean([own["in_72h_percent"] for own, _, _ in runs])
    jobs = sum(own["jobs"] for own, _, _ in runs)
    row["given_back"] = sum(own["given_back"] for own, _, _ in runs) / jobs if jobs else nan
    row["harm_s"] = _mean([own["local_wait_mean"] - alone_s for own, _, alone_s in runs])
    return row


def scene_rows(rows: Iterable[Row], policies: Sequence[str], bounds: Bounds) -> Rows:
    """Return a row for each scene and policy: means over the seeds of median, 90th percentile and
    mean of the waits, in hours."""
    runs: dict[tuple[str, str], list[Values]] = {}
    for (sites, _), values in bounds.plain.items():
        runs.setdefault((sites, PLAIN), []).append(values)
    for row in rows:
        runs.setdefault((row["sites"], row["policy"]), []).append(row)
    return Rows(
        {
            "sites": sites,
            "policy": policy,
            **{
                f"{metric.removesuffix('_s')}_h": _mean([one[metric] for one in found]) / 3600
                for metric in RATIOS
            },
        }
        for sites in bounds.alone
        for policy in (PLAIN, *policies)
        if (found := runs.get((sites, policy)))
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan
