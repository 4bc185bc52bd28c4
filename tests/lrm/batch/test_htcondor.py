"""The words of HTCondor: what is submitted, and recorded answers of version 23.9.6 from `samples`.

The listing has jobs that run, are suspended, evicted, held by a person, and wait; the history has
their ends.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.htcondor import HTCondor
from koala_agent.lrm.dialect import BatchJob, JobState
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer
from tests.lrm.batch.first_claim import FIRST, NAME, said

SAMPLES = Path(__file__).parent / "samples" / "condor-23.9"
POOL = HTCondor(native=("*",))


def recorded(name: str) -> Answer:
    return said((SAMPLES / name).read_text(encoding="utf-8"))


def description(
    pool: HTCondor = POOL, placeholder: Placeholder = FIRST, **wishes: Any
) -> list[str]:
    asking = replace(placeholder, resources=Resources(**wishes))
    *_, text = pool.submit(asking, name=NAME, script="#!/bin/sh\ntrue\n").argv
    return text.splitlines()


def listed() -> dict[str, BatchJob]:
    jobs = POOL.read_jobs(recorded("jobs.json"))
    return {job.name.removeprefix("koala-ab-j1.1."): job for job in jobs}


# Submission -----------------------------------------------------------------------------------


def test_a_job_starts_once_and_stays_nowhere() -> None:
    lines = description()
    assert f'+KoalaClaim = "{NAME}"' in lines
    assert "request_cpus = 4" in lines
    assert "allowed_job_duration = 91" in lines
    once = "((NumShadowStarts ?: 0) < 1)"
    assert f"requirements = {once} && (MY.KoalaGated =!= true)" in lines
    assert "leave_in_queue = False" in lines
    (removed,) = (line for line in lines if line.startswith("periodic_remove "))
    assert "JobStatus == 1 && NumShadowStarts > 0" in removed
    assert "JobStatus == 5" in removed
    assert lines[-1] == "queue"
    forever = description(placeholder=replace(FIRST, time_limit_s=math.inf))
    assert not [line for line in forever if "duration" in line.partition("=")[0].split("_")]


def test_the_script_comes_by_standard_input_and_is_in_no_attribute() -> None:
    """Everybody may read attributes, and a script has its claim's secret."""
    command = POOL.submit(replace(FIRST, body="secret"), name=NAME, script="#!/bin/sh\nsecret")
    assert command.stdin == "#!/bin/sh\nsecret"
    assert not [word for word in command.argv if "secret" in word]
    plain = POOL.submit(FIRST, name=NAME, script="#!/bin/sh\ntrue\n").stdin
    assert "exec >> '/scratch/it'\"'\"'s/placeholder.out' 2>&1" in plain.splitlines()


def test_resources_in_the_words_of_htcondor() -> None:
    lines = description(
        memory_min_mb=500,
        gpus=2,
        gpu_type="NVIDIA A100-SXM4",
        constraint="ib&rome",
        licenses=(("matlab", 2), ("abaqus", 1)),
        project="group_physics.atlas",
    )
    assert "request_memory = 500M" in lines
    assert "request_gpus = 2" in lines
    assert 'require_gpus = DeviceName == "NVIDIA A100-SXM4"' in lines
    assert "concurrency_limits = matlab:2,abaqus:1" in lines
    assert "accounting_group = group_physics.atlas" in lines
    assert [line for line in lines if line.endswith("&& (ib =?= True) && (rome =?= True)")]
    wide = replace(FIRST, processes=4)
    assert "request_memory = 2000M" in description(placeholder=wide, memory_min_mb=500)


def test_the_sites_words_count() -> None:
    pool = HTCondor(project="physics", requirements='Arch == "ARM"', options=('+Image = "a.sif"',))
    lines = description(pool, project="other")
    assert "accounting_group = physics" in lines
    assert '+Image = "a.sif"' in lines
    assert [line for line in lines if line.endswith('&& (Arch == "ARM")')]
    asked = pool.ask(FIRST, name=NAME, script="")
    assert asked is not None
    assert '(TotalSlotCpus >= 4) && (Arch == "ARM")' in asked.argv
    assert {*POOL.honours} - {*pool.honours} == {"project", "native"}


@pytest.mark.parametrize(
    "wishes",
    [
        {"constraint": "ib|rome"},
        {"constraint": "ib&true) || (1"},
        {"project": "a\nqueue 5"},
        {"gpus": 1, "gpu_type": 'a" || true || "'},
        {"licenses": (("a,b", 1),)},
        {"native": "queue=2"},
        {"native": "+KoalaClaim=mine"},
        {"native": "MY.KoalaClaim=mine"},
        {"native": "request_cpus=64"},
        {"native": "Requirements=true"},
        {"native": "PeriodicRemove=false"},
        {"native": "+JobLeaseDuration=9"},
        {"native": "+WantFlocking=$ENV(HOME)"},
        {"native": "+WantFlocking"},
        {"native": "include=/etc/passwd"},
        {"native": "+JobUniverse=7"},
        {"native": "+NumShadowStarts=0"},
        {"native": "+LeaveJobInQueue=True"},
        {"native": "+AcctGroup=other"},
        {"native": "rank=Memory\\\\"},
    ],
    ids=lambda wishes: str(next(reversed(wishes.values()))),
)
def test_words_that_would_become_other_commands_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError, match=r"is refused \(expected"):
        description(**wishes)


def test_native_commands_are_those_that_the_site_allows() -> None:
    assert "rank=Memory" in description(native="rank=Memory +WantFlocking=True")
    with pytest.raises(RequestRefusedError, match="expected rank"):
        description(HTCondor(native=("rank",)), native="+WantFlocking=True")


def test_the_number_of_a_job_and_refusals_of_the_schedd() -> None:
    assert POOL.read_submitted(said("12.0 - 12.0\n", err="WARNING: the line\n")) == "12"
    for out in ("", "12.0 - 13.0", "²\n", "12"):
        with pytest.raises(LocalManagerError):
            POOL.read_submitted(said(out))
    limit = "ERROR: Number of submitted jobs would exceed MAX_JOBS_PER_OWNER"
    with pytest.raises(RequestRefusedError):
        POOL.read_submitted(said(status=1, err=limit))
    for err, is_transient in (
        ("ERROR: Failed to connect to local queue manager\nSECMAN:2011:Connection closed", True),
        ("ERROR: Can't find address of local schedd", True),
        ("ERROR: Parse error in expression: \n requirements = ((", False),
        ("mktemp: failed to create directory", True),
    ):
        with pytest.raises(LocalManagerError) as caught:
            POOL.read_submitted(said(status=1, err=err))
        assert not isinstance(caught.value, RequestRefusedError)
        assert caught.value.transient is is_transient, err


# Listings --------------------------------------------------------------------------------------


def test_every_state_of_a_listing_has_its_meaning() -> None:
    jobs = listed()
    assert {name: job.state for name, job in jobs.items()} == {
        "4.1": JobState.RUNNING,
        "5.1": JobState.RUNNING,  # suspended
        "6.1": JobState.QUEUED,  # evicted
        "8.1": JobState.HELD,  # by a person
        "9.1": JobState.QUEUED,
        "10.1": JobState.STUCK,  # held by a person before its start
    }
    assert [name for name, job in jobs.items() if job.is_again] == ["6.1"]
    assert jobs["8.1"].cause is EndCause.CANCELLED_BY_SITE
    assert jobs["8.1"].reason == "HTCondor: held: via condor_hold (by user daemon)"


def test_a_job_whose_script_is_on_its_way_waits_for_a_while() -> None:
    assert held(16).state is JobState.QUEUED
    assert held(16, waited_s=61).state is JobState.STUCK


def held(code: int, *, waited_s: int = 0, **more: object) -> BatchJob:
    ad = {"ClusterId": 3, "KoalaClaim": NAME, "JobStatus": 5, "HoldReasonCode": code}
    times = {"ServerTime": 1000 + waited_s, "EnteredCurrentStatus": 1000}
    (job,) = POOL.read_jobs(said(json.dumps([{**ad, **times, **more}])))
    return job


def test_a_hold_at_a_limit_is_the_limits() -> None:
    why = "The job exceeded allowed job duration of 00:02"
    job = held(46, HoldReason=why, NumShadowStarts=1)
    assert (job.state, job.cause) == (JobState.HELD, EndCause.TIME_LIMIT)
    assert job.reason == f"HTCondor: held: {why}"


def test_too_much_memory_is_the_programs_own_end() -> None:
    job = held(34, HoldReason="Error: memory usage exceeded request_memory", NumShadowStarts=1)
    assert (job.state, job.cause) == (JobState.HELD, EndCause.EXITED)


@pytest.mark.parametrize(
    "answer",
    [
        said(status=1, err="-- Failed to fetch ads from: <127.0.0.1:9618> : head"),
        said("[ {"),
        said("{}"),
        said("null"),
        said("[" * 100_000),
        said('[{"ClusterId": "²", "JobStatus": 2}]'),
        said('[{"ClusterId": 1}]'),
    ],
    ids=["away", "cut", "no list", "null", "deep", "no number", "no state"],
)
def test_an_answer_that_is_none_is_no_empty_listing(answer: Answer) -> None:
    with pytest.raises(LocalManagerError) as caught:
        POOL.read_jobs(answer)
    assert caught.value.transient
    assert POOL.read_jobs(said("\n")) == []


def test_a_job_that_is_gone_already_is_withdrawn() -> None:
    gone = "Couldn't find/remove all jobs in cluster 5\n"
    POOL.read_withdrawn(said(status=1, err=gone))
    with pytest.raises(LocalManagerError):
        POOL.read_withdrawn(
            said(status=1, err=f"SECMAN:2007:Failed to end classad message.\n{gone}")
        )


# Records and figures -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "cause", "status"),
    [
        ("0.1", EndCause.EXITED, 0),
        ("1.1", EndCause.EXITED, 7),
        ("2.1", EndCause.EXITED, -11),
        ("3.1", EndCause.CANCELLED_BY_SITE, None),
        ("6.1", EndCause.CANCELLED_BY_SITE, None),
        ("7.1", EndCause.TIME_LIMIT, None),
        ("8.1", EndCause.CANCELLED_BY_SITE, None),
    ],
    ids=["0", "7", "signal", "removed", "evicted", "limit", "held"],
)
def test_every_record_has_its_meaning(claim: str, cause: EndCause, status: int | None) -> None:
    name = f"koala-ab-j1.1.{claim}"
    job = POOL.read_record(recorded("history.json"), number="9", name=name)
    assert job is not None
    assert (job.state, job.cause, job.exit_status) == (JobState.ENDED, cause, status)
    assert POOL.read_record(said("[\n]\n"), number="9", name=name) is None


def figures(slots: list[dict[str, object]], *, requirements: str = "") -> tuple[int, int, int]:
    answers = (said(json.dumps(slots)), recorded("totals.txt"), recorded("schedds.json"))
    found = HTCondor(requirements=requirements).read_figures(answers)
    return found.processors, found.idle, found.idle_gpus


def test_figures_of_a_pool() -> None:
    answers = (recorded("slots.json"), recorded("totals.txt"), recorded("schedds.json"))
    found = POOL.read_figures(answers)
    assert (found.processors, found.idle, found.queued_jobs) == (16, 12, 2)
    assert (found.resources.gpus, found.idle_gpus, found.resources.host_memory_mb) == (4, 3, 8192)


def test_jobs_that_are_gated_do_not_wait() -> None:
    gated = recorded("totals.txt").out.replace(
        "Total for query: 0 jobs; 0 completed, 0 removed, 0",
        "Total for query: 1 jobs; 0 completed, 0 removed, 1",
    )
    answers = (recorded("slots.json"), said(gated), recorded("schedds.json"))
    assert POOL.read_figures(answers).queued_jobs == 1


def test_jobs_of_other_schedds_wait_too() -> None:
    schedds = [{"Name": "kappa@", "TotalIdleJobs": 50}, {"Name": "other", "TotalIdleJobs": 3}]
    answers = (recorded("slots.json"), recorded("totals.txt"), said(json.dumps(schedds)))
    assert POOL.read_figures(answers).queued_jobs == 2 + 3


def test_processors_that_no_job_can_have_are_not_idle() -> None:
    whole = {"PartitionableSlot": True, "State": "Unclaimed", "Cpus": 8, "TotalSlotCpus": 8}
    static = {"State": "Unclaimed", "Cpus": 1, "TotalSlotCpus": 1}
    assert figures([whole, static]) == (9, 9, 0)
    assert figures([whole, {**static, "State": "Claimed", "Activity": "Idle"}]) == (9, 8, 0)
    assert figures([{**whole, "State": "Owner"}, static]) == (1, 1, 0)
    assert figures([{**whole, "Start": False}, static]) == (1, 1, 0)
    drained = {**whole, "State": "Drained", "Cpus": 3}
    assert figures([drained, {**static, "Offline": True}]) == (5, 0, 0)
    assert figures([{**whole, "GPUs": 2, "Cpus": 0}]) == (8, 0, 0)


def test_only_machines_that_the_site_wants_are_counted() -> None:
    slots, *_ = HTCondor(requirements='Arch == "ARM"').figures()
    assert slots.argv[2:5] == ("-constraint", 'Arch == "ARM"', "-attributes")


@pytest.mark.parametrize(
    ("rules", "longest_s"),
    [
        ("Not defined: SYSTEM_PERIODIC_REMOVE\nNot defined: SYSTEM_PERIODIC_HOLD", None),
        ("(JobStatus == 2) && (time() - EnteredCurrentStatus > 24 * 60 * 60)", 86_400),
        ("(CurrentTime - JobCurrentStartDate) > 7200 || RemoteWallClockTime > (3600*3)", 7200),
        ("JobStatus == 5 && time() - EnteredCurrentStatus > 600", None),
        ("NumJobStarts > 3 || MemoryUsage > 4000", None),
    ],
)
def test_the_longest_run_is_that_of_the_rules_of_the_schedd(
    rules: str, longest_s: float | None
) -> None:
    found = [queue.longest_s for queue in POOL.read_limits((said(rules),)).queues]
    assert found == ([] if longest_s is None else [longest_s])
