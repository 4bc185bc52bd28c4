"""Limits of queues in the words of batch systems. The answers of Slurm and Grid Engine were
recorded, some limits in them changed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import Queue
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.pbs import PBS
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm.reservations import bookings_of
from koala_agent.transport.interface import Answer

SAMPLES = Path(__file__).parent.parent / "samples"
SLURM = [
    SAMPLES / "slurm-22.05" / f"{name}.txt"
    for name in ("partitions", "nodes-of-partitions", "assoc_mgr", "reservations")
]
CELL = [SAMPLES / "sge-8.1.9" / f"qconf-{name}.txt" for name in ("sq", "sc")]
NOTHING = Answer(status=1, out="", err="not here")


def answers(*paths: Path) -> tuple[Answer, ...]:
    return tuple(Answer(status=0, out=path.read_text(encoding="utf-8"), err="") for path in paths)


@pytest.mark.parametrize(
    ("site", "default"),
    [
        ({}, Queue(name="batch", longest_s=3600.0, usual_s=600.0, processors=8)),
        ({"user": "nobody"}, Queue(name="batch", longest_s=3600.0, usual_s=600.0, processors=8)),
        (  # that of the account above is lower than the user's own
            {"user": "nobody", "account": "physics"},
            Queue(name="batch", longest_s=1200.0, usual_s=600.0, processors=5),
        ),
        (
            {"user": "nobody", "account": "physics", "qos": "short"},
            Queue(name="batch", longest_s=1200.0, usual_s=600.0, processors=4, hosts=2),
        ),
        (
            {"qos": "short"},
            Queue(name="batch", longest_s=1800.0, usual_s=600.0, processors=4, hosts=2),
        ),
        (  # with the quality of service of the partition
            {"partition": "long"},
            Queue(name="long", longest_s=1800.0, usual_s=1800.0, processors=4, hosts=1),
        ),
    ],
)
def test_limits_of_slurm_are_the_least_of_partition_association_and_quality(
    site: dict[str, str], default: Queue
) -> None:
    found = Slurm(**site).read_limits(answers(*SLURM))  # type: ignore[arg-type]
    (ours,) = [queue for queue in found.queues if queue.is_default]
    assert ours == replace(default, is_default=True)
    assert found.closes_at == 1795946633.0, "others are for one node, or for a course"
    told, idle_at = SLURM[-1].read_text(encoding="utf-8"), {"alpha1": 8, "beta1": 8}
    (course,) = bookings_of(told, idle_at, {"course": 3}, is_for_others=True)
    assert (course.number, course.processors) == ("course", 5), "the others are for maintenance"
    assert len(bookings_of(told, idle_at, {})) == 3, "in which claims may run, too"


@pytest.mark.parametrize(
    ("found", "said", "ageing"),
    [
        ("MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=20", "MaxJobsAccrue=3(1) MaxWallPJ=20", 3.0),
        ("GrpJobsAccrue=N(0)", "GrpJobsAccrue=2(0)", 2.0),
        ("QOS=short(", "QOS=short( MaxJobsAccruePU=2(0) ", 2.0),
    ],
)
def test_the_number_of_jobs_whose_age_grows_is_known(found: str, said: str, ageing: float) -> None:
    site = Slurm(user="nobody", account="physics", qos="short")
    partitions, nodes, limits, reservations = answers(*SLURM)
    assert site.read_limits((partitions, nodes, limits, reservations)).ageing == math.inf
    limits = replace(limits, out=limits.out.replace(found, said))
    assert site.read_limits((partitions, nodes, limits, reservations)).ageing == ageing


def test_limits_of_grid_engine_are_of_the_queues_with_the_parallel_environment() -> None:
    quotas = Answer(status=0, out="{\n enabled TRUE\n limit users {*} to slots=12\n}\n", err="")
    site = GridEngine(parallel_environment="grid", user="ann")
    cell = site.read_limits((*answers(*CELL), quotas))
    day = {"longest_s": 86_400.0, "usual_s": 86_400.0, "must_ask": True}  # h_rt is forced
    assert cell.queues == (
        Queue(name="batch", is_default=True, processors=12, **day),  # type: ignore[arg-type]
        Queue(name="low", **day),  # type: ignore[arg-type]
        Queue(name="short", is_default=True, processors=12, **day),  # type: ignore[arg-type]
    )
    assert cell.closes_at == math.inf


@pytest.mark.parametrize(
    ("s_rt", "h_rt", "limit_s"),
    [
        ("INFINITY", "INFINITY", 0.0),
        ("INFINITY", "01:30:00", 5400.0),
        ("3600", "01:30:00", 3600.0),
        ("INFINITY", "00:10:00,[@fast=00:20:00],[n1=60]", 1200.0),
    ],
)
def test_a_soft_limit_of_grid_engine_counts_and_hosts_may_have_longer_ones(
    s_rt: str, h_rt: str, limit_s: float
) -> None:
    text = f"qname   all.q\npe_list   make grid\ns_rt    {s_rt}\nh_rt   {h_rt}\n"
    said = (Answer(status=0, out=text, err=""), NOTHING, NOTHING)
    (queue,) = GridEngine(parallel_environment="grid").read_limits(said).queues
    assert queue == Queue(name="all.q", is_default=True, longest_s=limit_s, usual_s=limit_s)


def test_limits_of_pbs_are_of_its_queues_and_its_server() -> None:
    queues = {
        "workq": {
            "queue_type": "Execution",
            "resources_max": {"walltime": "24:00:00", "ncpus": 16},
            "resources_default": {"walltime": "01:00:00"},
        },
        "free": {"queue_type": "Execution"},
        "any": {"queue_type": "Route"},
    }
    server = {"head": {"default_queue": "workq", "resources_max": {"walltime": "48:00:00"}}}
    said = tuple(
        Answer(status=0, out=json.dumps({"timestamp": 1, key: rows}), err="")
        for key, rows in (("Queue", queues), ("Server", server))
    )
    assert PBS().read_limits(said).queues == (
        Queue(name="workq", is_default=True, longest_s=86_400.0, usual_s=3600.0, processors=16),
        Queue(name="free", longest_s=172_800.0),
    )
    assert [one.is_default for one in PBS(queue="free").read_limits(said).queues] == [False, True]
