"""The synchronous-queuing paper: what is run, what is claimed, that a claim can fail, and what
readings do."""

from __future__ import annotations

from dataclasses import replace

from koala.lab.papers.synchronous.points import LEVELS, Point, arithmetic, run
from koala.lab.sim.runs import Arithmetic, Effort, Run, Setting

TINY = Effort(name="tiny", replications=2, length=1, levels=LEVELS)


def as_the_paper_says(setting: Setting, metric: str) -> float:
    """All of its sentences are right here."""
    if isinstance(setting, Arithmetic):
        return {**arithmetic(), "slowdown": 1.0}[metric]
    assert isinstance(setting, Point)
    is_sq, is_dense = setting.scheme == "SQ", setting.interarrival_s == 10.0
    sparse = {10.0: 1.0, 100.0: 1.2, 200.0: 1.5, 500.0: 2.0}[setting.interarrival_s]
    skew = (50 if is_sq else 200) * sparse + setting.machines
    quality = (0.9 if is_sq else 0.5) - (0.0 if is_dense else 0.05 if is_sq else 0.2)
    more = is_sq if is_dense else not is_sq
    beta = setting.reading.beta if is_sq else 0.0
    values = {
        "skew_eq2": skew,
        "skew_finish": skew,
        "qos_conformance": quality,
        "effective_cycles": quality,
        "conforming_tasks": quality,
        "synchronous_tasks": quality,
        "acceptance_ratio": 0.01 * setting.machines + 0.1 * more + beta,
        "rate": 1.0 if is_dense else 0.1,
        "ahead": 0.0 if is_dense else 0.5,
        "corrections": 10.0 if is_dense else 100.0,
        "stay": 1.0 if is_sq else 0.5,
    }
    return values[metric.removesuffix(".several")]


def test_tasks_come_more_often_where_there_are_more_of_them() -> None:
    effort = Effort(name="more", replications=1, length=20, levels=LEVELS)
    point = Point(scheme="QoS", machines=5, interarrival_s=10.0)
    assert run(Run(setting=point, seed=1, effort=effort)).values["tasks"] == 60
    sparse = replace(point, interarrival_s=500.0)
    found = run(Run(setting=sparse, seed=1, effort=effort)).values
    assert found["tasks"] == 20
    assert 0 < found["ahead"] < 1
    assert 0 < found["stay"] < 1
