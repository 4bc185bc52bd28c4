"""The simulator agrees with queueing theory about the model (Multiple queues 3.2.2)."""

from __future__ import annotations

from itertools import islice
from math import factorial
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest

from koala.lab.papers.multiqueue.simulation.arrivals import service_times
from koala.lab.papers.multiqueue.simulation.counting import SimulatedPoint
from koala.lab.papers.multiqueue.simulation.runs import run
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.policies.queueing.multiqueue import DISCIPLINES


def point(policy: str, *, load: float, reps: int, **values: Any) -> SimulatedPoint:
    """A point of equal sites, a queue of each equally loaded."""
    values.setdefault("mix", (1.0,))
    values.setdefault("sites", (32,) * 4)
    chosen = Setting(policy=policy, utilization=load, split=(1.0,) * 4, q=0.9, **values)
    return SimulatedPoint(
        setting=chosen, runs=tuple(run(chosen, seed) for seed in range(1, reps + 1))
    )


def erlang_c(servers: int, load: float) -> float:
    """Mean response time of M/M/c whose servers are busy for this share of the time."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    waiting = last / (sum(offered**n / factorial(n) for n in range(servers)) + last)
    return 1 + waiting / (servers - offered)


# Of few servers most jobs wait, so that fewer jobs show a mean as sharply as with many servers.
FEW: dict[str, Any] = {"sizes": (1, 1), "jobs": 8_000, "warmup": 1_000, "reps": 6}


def test_gs_with_jobs_of_one_processor_is_one_queue_with_all_servers() -> None:
    found = point("GS", load=0.8, sites=(1,) * 4, **FEW).response("all")
    assert found.mean == pytest.approx(erlang_c(4, 0.8), abs=2 * found.ci95)
    assert found.ci95 < 0.3


@pytest.mark.parametrize("policy", ["LS-DO", pytest.param("GP", marks=pytest.mark.long)])
def test_local_jobs_of_one_processor_see_the_servers_of_their_site(policy: str) -> None:
    found = point(policy, load=0.8, sites=(4,) * 4, **FEW).response("local")
    assert found.mean == pytest.approx(erlang_c(4, 0.8), abs=2 * found.ci95)
    assert found.ci95 < 0.3


@pytest.mark.parametrize("policy", DISCIPLINES)
def test_jobs_of_whole_clusters_see_one_server_under_every_policy(policy: str) -> None:
    found = point(
        policy, load=0.5, mix=(0, 0, 0, 1), sizes=(32, 32), jobs=3_000, warmup=500, reps=2
    )
    assert found.response("all").mean == pytest.approx(2.0, rel=0.12)


@pytest.mark.parametrize("policy", ["LP-GF", pytest.param("LS-RD", marks=pytest.mark.long)])
def test_jobs_with_a_processor_of_each_cluster_see_the_servers_of_one(policy: str) -> None:
    found = point(policy, load=0.8, mix=(0, 0, 0, 1), sites=(4,) * 4, **FEW).response("all")
    assert found.mean == pytest.approx(erlang_c(4, 0.8), abs=2 * found.ci95)
    assert found.ci95 < 0.3


@pytest.mark.parametrize(
    ("load", "jobs", "is_saturated"), [(0.90, 20_000, False), (0.96, 40_000, True)]
)
def test_local_fcfs_queues_take_a_load_of_0_93(
    load: float, jobs: int, *, is_saturated: bool
) -> None:
    """The multiserver-job queue of the paper's sizes is saturated at 0.9318."""
    found = point("LS-DO", load=load, sizes=(1, 8), jobs=jobs, warmup=5_000, reps=2)
    assert found.is_saturated == is_saturated
    if is_saturated:
        assert found.unserved.mean == pytest.approx(1 - 0.9318 / load, abs=0.01)


def test_little_s_law_holds_for_the_load() -> None:
    found = point(
        "EQ-LF", load=0.6, mix=(1, 1, 1, 1), sizes=(1, 8), jobs=12_000, warmup=3_000, reps=4
    )
    assert found.utilization.mean == pytest.approx(0.6, abs=2.5 * found.utilization.ci95)


def test_the_stream_has_the_moments_of_the_paper() -> None:
    chosen = Setting(
        policy="GS", mix=(50, 0, 0, 50), split=(40, 20, 20, 20), sizes=(4, 32), q=0.9,
        sites=(32,) * 4, utilization=0.7,
    )  # fmt: skip
    jobs = list(islice(chosen.stream.jobs(7), 40_000))
    sizes = [size for job in jobs for size in job.sizes]
    assert fmean(sizes) == pytest.approx(10.444, rel=0.01)
    assert fmean(len(job.sizes) for job in jobs) == pytest.approx(2.5, rel=0.02)
    assert [fmean(job.home == n for job in jobs) for n in range(4)] == pytest.approx(
        [0.4, 0.2, 0.2, 0.2], abs=0.01
    )
    assert fmean(job.service for job in jobs) == pytest.approx(1, rel=0.02)
    rate = len(jobs) / jobs[-1].at
    assert rate * 2.5 * 10.444 / 128 == pytest.approx(0.7, rel=0.02)


@pytest.mark.parametrize("cv", [0, 1, 2.5])
def test_service_times_have_mean_1_and_the_variation_asked_for(cv: float) -> None:
    draw = service_times(cv, Random(1))
    drawn = [draw() for _ in range(50_000)]
    assert fmean(drawn) == pytest.approx(1, rel=0.02)
    assert pstdev(drawn) == pytest.approx(cv, rel=0.03)


def test_policies_get_the_same_jobs_from_the_same_seed() -> None:
    ls, gs = (
        Setting(policy=p, mix=(1, 1), split=(1, 1), sites=(8, 8), utilization=0.5, q=0.9,
                sizes=(1, 8))
        for p in ("LS-DO", "GS")
    )  # fmt: skip
    assert list(islice(ls.stream.jobs(3), 100)) == list(islice(gs.stream.jobs(3), 100))
