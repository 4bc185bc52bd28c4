"""The words of Slurm: what is submitted, and answers of Slurm 22.05 and 24.11."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import BatchJob, JobState
from koala_agent.lrm.local_manager import EndCause, RequestRefusedError
from tests.lrm.batch.dialects import (
    ALWAYS,
    AWAY,
    REFUSED,
    RICH,
    SLURM,
    WISHES,
    WRONG,
    kind_of,
    options,
    placeholder,
    row,
)
from tests.lrm.batch.first_claim import said
from tests.lrm.batch.imitated_slurm import listed


def slurm_row(
    number: str, name: str, state: str, code: str, reason: str, comment: str = "(null)"
) -> str:
    row = listed(number, state, name, code=code, owner="", reason=reason, comment=comment)
    return row.removesuffix("\n")


def test_sbatch_never_requeues_and_rounds_limits_up() -> None:
    command = SLURM.submit(placeholder(), name="koala-ab-j12.1.0.1", script="#!/bin/sh\n")
    assert command.stdin == "#!/bin/bash -p\n"
    assert command.argv == (
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--job-name=koala-ab-j12.1.0.1",
        "--ntasks=3",
        "--time=11",
        "--chdir=/scratch/work folder",
        "--output=/scratch/work folder/placeholder.out",
        "--open-mode=append",
        "--account=physics",
        "--partition=batch",
        "--constraint=fast",
    )
    endless = SLURM.submit(placeholder(time_limit_s=math.inf), name="n", script="")
    assert not [word for word in endless.argv if word.startswith("--time")]


def test_slurm_acts_on_wishes_where_the_site_says_nothing() -> None:
    assert options(Slurm(native=("*",)), **WISHES, processes=3) == [
        "--account=ocean",
        "--partition=gpu",
        "--nodes=2",
        "--mem-per-cpu=900M",
    ]
    assert Slurm().honours == (*ALWAYS, "queue", "project", "qos")
    assert Slurm(native=("--x",), qos="long").honours == (*ALWAYS, "queue", "project", "native")
    assert options(Slurm()) == []


def test_resources_in_the_words_of_slurm() -> None:
    assert options(Slurm(), **RICH) == [
        "--qos=long",
        "--ntasks-per-node=2",
        "--gpus=a100:4",
        "--constraint=ib&rome",
        "--licenses=matlab:2,ansys:1",
        "--exclusive",
    ]
    assert options(Slurm(), gpus=3) == ["--gpus=3"]


def test_processes_of_several_processors_in_the_words_of_slurm() -> None:
    wide = placeholder(
        processors=8, processes=4, resources=Resources(cpus_per_task=2, memory_min_mb=901)
    )
    argv = Slurm().submit(wide, name="n", script="").argv
    assert {"--ntasks=4", "--cpus-per-task=2", "--mem-per-cpu=451M"} <= set(argv)


@pytest.mark.parametrize(
    ("text", "allowed", "passed"),
    [
        ("--reservation=course --gpu-bind=closest", ("*",), True),
        ("--reservation=course", ("--reservation",), True),
        ("--comment='two words'", ("*",), True),
        ("--reservation=course", ("--nice",), False),
        ("--reservation=course", (), False),
        ("--job-name=mine", ("*",), False),
        ("--job-n=mine", ("*",), False),  # sbatch takes it for --job-name
        ("--wrap=true", ("*",), False),
        ("--gpus-per-task=4", ("*",), False),  # it would not be counted
        ("--uid=0", ("--uid",), False),
        ("-p gpu", ("*",), False),
        ("--nice 5", ("*",), False),  # 5 would be the script
        ("--nice\n--uid=0", ("*",), False),
        ("'", ("*",), False),
    ],
)
def test_native_options_of_slurm(text: str, allowed: tuple[str, ...], passed: bool) -> None:
    slurm = Slurm(native=allowed)
    if passed:
        assert options(slurm, native=text) == shlex.split(text)
    else:
        with pytest.raises(RequestRefusedError, match=r"native: .* is refused \(expected"):
            options(slurm, native=text)


def test_a_single_process_asks_for_the_memory_of_its_machine() -> None:
    assert options(Slurm(), memory_min_mb=900, processes=1) == ["--mem=900M"]


@pytest.mark.parametrize(
    ("out", "number"), [("17\n", "17"), ("18;alpha\n", "18"), ("7 of 9 quotas left\n\n19\n", "19")]
)
def test_the_number_of_a_slurm_job(out: str, number: str) -> None:
    assert SLURM.read_submitted(said(out)) == number


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("Batch job submission failed: Invalid partition name specified", WRONG),
        ("Batch job submission failed: Invalid qos specification", WRONG),
        (
            "Batch job submission failed: Invalid account or account/partition combination"
            " specified",
            WRONG,
        ),
        (
            "Batch job submission failed: User's group not permitted to use this partition",
            WRONG,
        ),
        ("Invalid --time specification", WRONG),
        ("Batch job submission failed: Requested node configuration is not available", REFUSED),
        (
            "Batch job submission failed: Requested time limit is invalid (missing or exceeds some"
            " limit)",
            REFUSED,
        ),
        (
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit,"
            " user's size and/or time limits)",
            REFUSED,
        ),
        (
            "Batch job submission failed: Required partition not available (inactive or drain)",
            REFUSED,
        ),
        (
            "Batch job submission failed: Unable to contact slurm controller (connect failure)",
            AWAY,
        ),
        ("Batch job submission failed: Socket timed out on send/recv operation", AWAY),
        ("Slurm temporarily unable to accept job, sleeping and retrying", AWAY),
    ],
)
def test_what_slurm_will_not_have_is_no_error_of_the_site_and_silence_is_no_refusal(
    err: str, kind: str
) -> None:
    answer = said(status=1, err=f"sbatch: error: {err}")
    with pytest.raises(LocalManagerError, match=re.escape(err.rpartition(": ")[2])) as caught:
        SLURM.read_submitted(answer)
    assert kind_of(caught.value) == kind
    with pytest.raises(LocalManagerError) as caught:
        SLURM.read_asked(answer)
    assert kind_of(caught.value) == kind


def test_slurm_is_asked_before_with_the_same_words() -> None:
    submit = SLURM.submit(placeholder(), name="n", script="#!/bin/sh\n")
    ask = SLURM.ask(placeholder(), name="n", script="#!/bin/sh\n")
    assert ask is not None
    assert (ask.argv, ask.stdin) == ((*submit.argv, "--test-only"), submit.stdin)


def test_an_estimate_of_slurm_refuses_nothing() -> None:
    """With jobs ahead it said minutes where backfilling began at once."""
    SLURM.read_asked(
        said(err="sbatch: Job 9 to start at 2036-11-21T16:00:01 using 4 processors on nodes n2")
    )


@pytest.mark.parametrize(
    ("state", "code", "reason", "expected"),
    [
        ("PENDING", "0", "Priority", row("7", JobState.QUEUED, reason="Priority")),
        (
            "PENDING",
            "0",
            "PartitionConfig",
            row("7", JobState.STUCK, cause=EndCause.WITHDRAWN, reason="PartitionConfig"),
        ),
        (
            "PENDING",
            "0",
            "QOSMaxJobsPerUserLimit",
            row("7", JobState.QUEUED, reason="QOSMaxJobsPerUserLimit", is_limited=True),
        ),
        ("SUSPENDED", "0", "None", row("7", JobState.RUNNING, reason="None")),
        ("REQUEUE_HOLD", "0", "None", row("7", JobState.STUCK, cause=EndCause.LOST, reason="None")),
        ("YET_UNHEARD_OF", "0", "None", row("7", JobState.RUNNING, reason="None")),
        (
            "PENDING",
            "0",
            "ReqNodeNotAvail, UnavailableNodes:alpha2",
            row("7", JobState.QUEUED, reason="ReqNodeNotAvail, UnavailableNodes:alpha2"),
        ),
        ("RUNNING", "0", "alpha1", row("7", JobState.RUNNING, reason="alpha1")),
        ("COMPLETING", "0", "alpha1", row("7", JobState.RUNNING, reason="alpha1")),
        ("COMPLETED", "0", "None", row("7", JobState.ENDED, exit_status=0)),
        (
            "FAILED",
            "1792",
            "NonZeroExitCode",
            row("7", JobState.ENDED, exit_status=7, reason="Slurm: FAILED (NonZeroExitCode)"),
        ),
        (
            "FAILED",
            "11",
            "None",
            row("7", JobState.ENDED, exit_status=-11, reason="Slurm: FAILED"),
        ),
        (
            "OUT_OF_MEMORY",
            "0",
            "OutOfMemory",
            row("7", JobState.ENDED, exit_status=-9, reason="Slurm: OUT_OF_MEMORY (OutOfMemory)"),
        ),
        (
            "TIMEOUT",
            "15",
            "TimeLimit",
            row(
                "7",
                JobState.ENDED,
                cause=EndCause.TIME_LIMIT,
                reason="Slurm: TIMEOUT (1:00:00)",
            ),
        ),
        (
            "CANCELLED",
            "15",
            "None",
            row(
                "7",
                JobState.ENDED,
                cause=EndCause.CANCELLED_BY_SITE,
                reason="Slurm: CANCELLED",
            ),
        ),
        (
            "NODE_FAIL",
            "0",
            "NodeDown",
            row(
                "7",
                JobState.ENDED,
                cause=EndCause.UNREACHABLE,
                reason="Slurm: NODE_FAIL (NodeDown)",
            ),
        ),
    ],
)
def test_every_state_of_slurm_has_its_meaning(
    state: str, code: str, reason: str, expected: BatchJob
) -> None:
    line = slurm_row("7", "koala-ab-j1.1.0.1", state, code, reason)
    (found,) = SLURM.read_jobs(said(f"{line}\n"))
    if found.state in (JobState.QUEUED, JobState.RUNNING):
        found = replace(found, cause=EndCause.EXITED, processors=0)  # counts for others only
    assert found == expected


def test_a_cancelled_job_tells_by_its_status_whether_its_script_ran() -> None:
    """A prolog that fails looks like a cancel otherwise, and leaves no status."""
    causes = []
    for code, nodes in (("0", "alpha1"), ("15", "alpha1"), ("0:15", "alpha1"), ("0", "")):
        line = listed("7", "CANCELLED", "koala-ab-j1.1.0.1", code=code, nodes=nodes)
        causes += [job.cause for job in SLURM.read_jobs(said(line))]
    assert causes == [EndCause.CANCELLED_BEGUN, *[EndCause.CANCELLED_BY_SITE] * 3]


def test_the_end_of_a_reservation_is_no_fault_of_the_site_to_jobs_that_run_or_wait_in_it() -> None:
    """A job that runs looks as one that could not be launched."""
    ends = []
    for state, reason, reservation in (
        ("TIMEOUT", "TimeLimit", "course"),
        ("FAILED", "JobLaunchFailure", "course"),
        ("FAILED", "JobLaunchFailure", "(null)"),
        ("RESV_DEL_HOLD", "Reservation course was deleted", "(null)"),
    ):
        line = listed("7", state, "koala-ab-j1.1.0.1", reason=reason, reservation=reservation)
        (found,) = SLURM.read_jobs(said(line))
        ends.append((found.cause, "or the end of reservation course" in found.reason))
    assert ends == [
        (EndCause.TIME_LIMIT, True),
        (EndCause.CANCELLED_BEGUN, True),
        (EndCause.EXITED, False),
        (EndCause.CANCELLED_BY_SITE, False),
    ]


@pytest.mark.parametrize(
    ("state", "old", "new", "status"),
    [
        ("COMPLETED", "0", "0:0", 0),
        ("FAILED", "1792", "7:0", 7),
        ("FAILED", "11", "0:11", -11),
        ("OUT_OF_MEMORY", "0", "0:125", -125),
    ],
)
def test_newer_slurm_has_another_form_of_the_exit_status(
    state: str, old: str, new: str, status: int
) -> None:
    """22.05 has the wait status in its listings, 24.11 STATUS:SIGNAL, as `scontrol` always had."""
    for code in (old, new)[state == "OUT_OF_MEMORY" :]:
        (found,) = SLURM.read_jobs(said(slurm_row("7", "koala-ab-j1.1.0.1", state, code, "None")))
        assert found.exit_status == status
    with pytest.raises(LocalManagerError, match="not a row of a listing"):
        SLURM.read_jobs(said(slurm_row("7", "koala-ab-j1.1.0.1", state, f"{new}:0", "None")))


def test_a_controller_that_is_away_is_no_empty_listing() -> None:
    err = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(LocalManagerError, match="Unable to contact") as caught:
        SLURM.read_jobs(said(status=1, err=err))
    assert caught.value.transient
    assert SLURM.read_jobs(said()) == []


@pytest.mark.parametrize("name", ["Übung-3", "a\nb", "\n", "\u2028", "\x85koala", "é" * 100])
def test_the_name_of_another_job_hides_no_row(name: str) -> None:
    others = slurm_row("8", name, "FAILED", "256", "NonZeroExitCode")
    ours = slurm_row("9", "koala-ab-j1.1.0.1", "RUNNING", "0", "None")
    jobs = SLURM.read_jobs(said(f"{others}\n{ours}\n"))
    assert [(job.number, job.state) for job in jobs] == [
        ("8", JobState.ENDED),
        ("9", JobState.RUNNING),
    ]
    assert jobs[0].exit_status == 1
    assert jobs[1].name == "koala-ab-j1.1.0.1"


def test_what_left_the_listing_of_slurm_has_a_record_or_none() -> None:
    name = "koala-ab-j1.1.0.1"
    out = f"JobId=7 JobName={name} JobState=FAILED Reason=NonZeroExitCode ExitCode=7:0"
    found = SLURM.read_record(said(out), number="7", name=name)
    assert found == row("7", JobState.ENDED, exit_status=7, reason="Slurm: FAILED")
    unknown = said(status=1, err="slurm_load_jobs error: Invalid job id specified")
    assert SLURM.read_record(unknown, number="7", name="n") is None
    other = said(out.replace(name, f"{name}1"))
    assert SLURM.read_record(other, number="7", name=name) is None, "it has the number now"
