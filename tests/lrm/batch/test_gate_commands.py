"""Gates in the words of each batch system, with answers that real ones gave (those of PBS are from
its documents)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.htcondor import HTCondor
from koala_agent.lrm.batch.oar import OAR
from koala_agent.lrm.batch.pbs import PBS
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm.gates import GATED, gates_of
from koala_agent.lrm.dialect import Dialect, Gate, JobState
from koala_agent.lrm.local_manager import RequestRefusedError
from koala_agent.transport.interface import Answer
from tests.lrm.batch.first_claim import FIRST, NAME, said
from tests.lrm.batch.imitated_slurm import listed
from tests.lrm.batch.test_slurm import slurm_row

CONFIG = "PriorityType            = priority/basic\n"
SLURM, CELL, POOL, SERVER, CLUSTER = (
    *(Slurm(), GridEngine(parallel_environment="grid"), HTCondor(), PBS(), OAR()),
)


def gate_of(dialect: Dialect) -> Gate:
    answers = (said(CONFIG), said("n[1-2]\n")) if dialect.gates() else ()
    return dialect.read_gates(answers)[0]


@pytest.mark.parametrize(
    ("dialect", "submitted", "shut", "opened"),
    [
        (
            SLURM,
            "--begin=now+7days --comment=koala-gated",
            "scontrol update JobId=7,8 StartTime=now+7days Comment=koala-gated",
            "scontrol update JobId=7,8 StartTime=now Comment=",
        ),
        (CELL, "-h", "qhold 7 8", "qrls 7 8"),
        (SERVER, "-h", "qhold -h u 7 8", "qrls -h u 7 8"),
        (CLUSTER, "--hold", "oarhold 7 8", "oarresume 7 8"),
        (
            POOL,
            "+KoalaGated = true",
            "condor_qedit -constraint ClusterId == 7 || ClusterId == 8 KoalaGated true",
            "condor_qedit -constraint ClusterId == 7 || ClusterId == 8 KoalaGated false",
        ),
    ],
)
def test_the_orders_of_each_batch_system(
    dialect: Dialect, submitted: str, shut: str, opened: str
) -> None:
    plain, gated = (
        " ".join(dialect.submit(placeholder, name=NAME, script="#!/bin/sh\ntrue\n").argv)
        for placeholder in (FIRST, replace(FIRST, is_gated=True))
    )
    assert submitted in gated.replace(plain, "").replace("\n", " ")
    assert f" {submitted} " not in f" {plain} "
    gate = gate_of(dialect)
    assert gate.is_native
    assert " ".join(gate.shut(["7", "8"]).argv) == shut
    assert " ".join(gate.open(["7", "8"]).argv) == opened


FINE = [
    (SLURM, said()),
    (SLURM, said(status=1, err="Invalid job id specified for job 77\n")),
    (SLURM, said(status=1, err="Job has already finished for job 3\n")),
    (CELL, said("modified hold of job 2\n")),
    (CELL, said('denied: job "77" does not exist\nmodified hold of job 5\n', status=3)),
    (CELL, said()),
    (SERVER, said(status=153, err="qhold: Unknown Job Id 9.server\n")),
    (CLUSTER, said("[4] Hold request was sent to the OAR server.\n")),
    (CLUSTER, said(status=1, err="/!\\ Cannot hold 99: this job does not exist.\n")),
    (
        CLUSTER,
        said(
            status=1,
            err="/!\\ Cannot hold 2: the job is not in the right state (try '-r' option).\n",
        ),
    ),
    (POOL, said('Set attribute "KoalaGated" for 2 matching jobs.\n')),
    (
        POOL,
        said(
            status=1,
            err='Failed to set attribute "KoalaGated" by constraint: ( (ClusterId == 99) )\n'
            "Queue transaction failed.  No attributes were set.\n",
        ),
    ),
]
REFUSED = [
    (SLURM, said(status=1, err="Invalid user id for job 6\n")),
    (SLURM, said(status=1, err="slurm_update error: Access/permission denied\n")),
    (
        CELL,
        said(
            'denied: "nobody" must be at least owner of job 5 to change job attributes\n', status=18
        ),
    ),
    (SERVER, said(status=159, err="qhold: Unauthorized Request  9.server\n")),
    (CLUSTER, said(status=1, err="/!\\ Cannot hold 2: you are not the right user.\n")),
    (POOL, said(status=1, err="Attribute KoalaGated is not allowed to be changed\n")),
]
AWAY = [
    (
        SLURM,
        said(status=1, err="slurm_update error: Unable to contact slurm controller\n"),
    ),
    (CELL, said(status=1, err="error: commlib error: got select error\n")),
    (SERVER, said(status=1, err="qhold: cannot connect to server pbs (errno=111)\n")),
    (CLUSTER, said(status=2, err="DB connection failed\n")),
    (POOL, said(status=1, err="Failed to connect to queue manager\n")),
]


@pytest.mark.parametrize(("dialect", "answer"), FINE)
def test_jobs_that_have_started_or_ended_are_no_error(dialect: Dialect, answer: Answer) -> None:
    gate_of(dialect).read(answer)


@pytest.mark.parametrize(("dialect", "answer"), REFUSED)
def test_what_an_account_may_not_do_is_a_refusal(dialect: Dialect, answer: Answer) -> None:
    with pytest.raises(RequestRefusedError):
        gate_of(dialect).read(answer)


@pytest.mark.parametrize(("dialect", "answer"), AWAY)
def test_a_batch_system_that_is_away_has_refused_nothing(dialect: Dialect, answer: Answer) -> None:
    with pytest.raises(LocalManagerError) as caught:
        gate_of(dialect).read(answer)
    assert caught.value.transient


def job_list(state: str) -> str:
    job = f"<JB_job_number>7</JB_job_number><JB_name>{NAME}</JB_name><state>{state}</state>"
    return f"<job_info><job_info><job_list>{job}</job_list></job_info></job_info>"


def pbs_job(**more: object) -> str:
    job = {"Job_Name": NAME, "job_state": "H", "Job_Owner": "ann@host", "run_count": 0, **more}
    return json.dumps({"timestamp": 1, "Jobs": {"7.server": job}})


def oar_job(state: str) -> str:
    return json.dumps({"7": {"name": NAME, "state": state, "message": ""}})


def condor_job(status: int, **more: object) -> str:
    return json.dumps([{"ClusterId": 7, "KoalaClaim": NAME, "JobStatus": status, **more}])


@pytest.mark.parametrize(
    ("dialect", "listing", "is_gated"),
    [
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "BadConstraints", GATED), True),
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "None", GATED), True),
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "Resources", GATED), False),
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "Resources", f"{GATED}-nice"), True),
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "BeginTime"), False),
        (SLURM, slurm_row("7", NAME, "PENDING", "0", "JobHeldAdmin"), False),
        (SLURM, slurm_row("7", NAME, "RUNNING", "0", "None", GATED), False),
        (CELL, job_list("hqw"), True),
        (CELL, job_list("qw"), False),
        (CELL, job_list("hr"), False),
        (SERVER, pbs_job(Hold_Types="u"), True),
        (SERVER, pbs_job(Hold_Types="so"), False),
        (CLUSTER, oar_job("Hold"), True),
        (CLUSTER, oar_job("Waiting"), False),
        (POOL, condor_job(1, KoalaGated=True), True),
        (POOL, condor_job(1, KoalaGated=False), False),
        (POOL, condor_job(2, KoalaGated=True), False),
    ],
)
def test_a_gated_job_is_known_from_the_listing_and_not_taken_for_a_stuck_one(
    dialect: Dialect, listing: str, is_gated: bool
) -> None:
    (job,) = dialect.read_jobs(said(listing))
    assert job.is_gated == is_gated
    assert job.state in (JobState.QUEUED, JobState.RUNNING)


@pytest.mark.parametrize(
    ("config", "best", "others"),
    [
        ("PriorityType = priority/basic\n", "start time", ["nice value"]),
        (
            "AccountingStorageType = accounting_storage/slurmdbd\nPriorityType = priority/basic\n",
            "start time",
            ["nice value"],
        ),
        (
            "AccountingStorageType = accounting_storage/none\n"
            "PriorityType = priority/multifactor\n",
            "start time",
            ["nice value"],
        ),
        (
            "AccountingStorageType   = accounting_storage/slurmdbd\n"
            "PriorityFlags           = SMALL_RELATIVE_TO_TIME,ACCRUE_ALWAYS\n"
            "PriorityType            = priority/multifactor\n",
            "start time",
            ["nice value"],
        ),
        (
            "AccountingStorageType   = accounting_storage/slurmdbd\n"
            "PriorityFlags           = \n"
            "PriorityType            = priority/multifactor\n",
            "excluded nodes",
            ["nice value"],
        ),
    ],
)
def test_the_configuration_of_slurm_decides_which_gate_keeps_the_place(
    config: str, best: str, others: list[str]
) -> None:
    keeping = [gate.name for gate in gates_of(config, "n[1-2]") if gate.keeps_place]
    assert keeping == [best, *others]


def test_the_place_of_a_job_of_slurm_is_told_once_it_has_one() -> None:
    gate = gates_of(CONFIG.replace("basic", "multifactor"), "n1")[0]
    assert gate.place is not None
    question = gate.place("7")
    assert question.command.argv == ("scontrol", "-o", "show", "job", "7")
    assert question.read(said("JobId=7 AccrueTime=Unknown Priority=1")) == ""
    answer = said("JobId=7 AccrueTime=2026-11-29T06:17:29 Priority=1")
    assert question.read(answer) == "AccrueTime=2026-11-29T06:17:29"
    assert question.read(said(status=1, err="slurm_load_jobs error: Invalid job id")) == ""


def test_the_queue_of_slurm_in_the_order_of_its_starts() -> None:
    """A gated job that the scheduler has looked at has no priority, and the place of the job that
    was submitted after it."""
    rows = [
        listed("11", priority="20", reason="Priority"),
        listed("12", left="1-02:03:04", priority="0", reason="BadConstraints", comment=GATED),
        listed("13_[1-3]", left="UNLIMITED", priority="30", reason="Resources"),
        listed("14", priority="0", reason="JobHeldUser"),
        listed("15", priority="0", reason="BeginTime", comment=GATED),
        listed("16", "RUNNING", left="4:05"),
        listed("17", "COMPLETING", left="INVALID"),
        listed("18", "COMPLETED"),
    ]
    text = "".join(rows) + "the rest of a comment\n"
    found = SLURM.read_queue(said(text))
    assert [(job.number, job.left_s, job.is_running) for job in found] == [
        ("16", 245.0, True),
        ("17", 0.0, True),
        ("12", 93_784.0, False),
        ("13_[1-3]", float("inf"), False),
        ("11", 60.0, False),
        ("15", 60.0, False),
    ]
