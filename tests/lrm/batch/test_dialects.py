"""Answers of real batch systems (Slurm 22.05, Grid Engine 8.1.9) are understood."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala.protocol.messages import Resources
from koala_agent.lrm.batch.dialect import (
    BatchJob,
    Dialect,
    Figures,
    JobState,
    claim_of,
    job_name,
    script,
)
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import COLUMNS, Slurm
from koala_agent.lrm.port import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.port import Answer

SLURM = Slurm(partition="batch", account="physics", options=("--constraint=fast",))
GRID_ENGINE = GridEngine(parallel_environment="grid", queue="batch")


def said(out: str = "", *, status: int = 0, err: str = "") -> Answer:
    return Answer(status=status, out=out, err=err)


def placeholder(**changes: object) -> Placeholder:
    given = {
        "claim": "j12/1/0/1",
        "processors": 3,
        "time_limit_s": 601.0,
        "argv": ("/usr/bin/python3", "starter.py", "it's here"),
        "directory": Path("/scratch/work folder"),
        **changes,
    }
    return Placeholder(**given)  # type: ignore[arg-type]


def slurm_row(number: str, name: str, state: str, code: str, reason: str) -> str:
    """Padded by bytes, as Slurm does."""
    fields = zip((number, state, code, "0", name, reason), COLUMNS, strict=True)
    row = b"".join(text.encode().ljust(width) for text, (_, width) in fields)
    return row.decode()


def row(number: str, state: JobState, **more: object) -> BatchJob:
    return BatchJob(number=number, name="koala-ab-j1.1.0.1", state=state, **more)  # type: ignore[arg-type]


# Names and scripts ---------------------------------------------------------------------------


def test_a_claim_is_found_again_by_the_name_of_its_batch_job() -> None:
    assert job_name("j12/1/0/1", scope="ab") == "koala-ab-j12.1.0.1"
    assert claim_of("koala-ab-j12.1.0.1", scope="ab") == "j12/1/0/1"
    assert claim_of("koala-ab-a.b.1.0.1", scope="ab") == "a.b/1/0/1"


@pytest.mark.parametrize(
    "name",
    [
        "koala-cd-j1.1.0.1",
        "koala-ab-j1.1.0",
        "koala-ab-j1.1.0.x",
        "train.sh",
        "",
        # Whoever may submit chooses a name; what the daemon would not take is no claim.
        f"koala-ab-{'j' * 65}.1.0.1",
        "koala-ab-../j.1.0.1",
        "koala-ab-\u00fc.1.0.1",
        "koala-ab-j.1.0.1234567890",
        "koala-ab-j.1.0.\u0661",
    ],
)
def test_jobs_of_others_are_nobodys_claims(name: str) -> None:
    assert claim_of(name, scope="ab") is None


def test_the_script_keeps_every_character_of_its_arguments_and_values() -> None:
    text = script(placeholder(environment=(("NAME", "a $HOME `id` 'b'"),)), scope="ab")
    assert text.splitlines() == [
        "#!/bin/sh",
        """export NAME='a $HOME `id` '"'"'b'"'"''""",
        "export KOALA_CLAIM=j12/1/0/1",
        "export KOALA_LOCAL_MANAGER=ab",
        "cd '/scratch/work folder' || exit 71",
        """exec /usr/bin/python3 starter.py 'it'"'"'s here'""",
    ]


# Slurm ---------------------------------------------------------------------------


def test_sbatch_never_requeues_and_rounds_limits_up() -> None:
    command = SLURM.submit(placeholder(), name="koala-ab-j12.1.0.1", script="#!/bin/sh\n")
    assert command.stdin == "#!/bin/sh\n"
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
    assert "--time=UNLIMITED" in endless.argv


ALWAYS = (
    *("hostCount", "tasksPerNode", "cpusPerTask", "minMemory"),
    *("gpus", "gpuType", "constraint", "licenses", "exclusive"),
)
WISHES = {"queue": "gpu", "project": "ocean", "hosts": 2, "memory_min_mb": 900}


def options(dialect: Dialect, **wishes: object) -> list[str]:
    processes = wishes.pop("processes", 1)
    asked = placeholder(processes=processes, resources=Resources(**wishes))  # type: ignore[arg-type]
    argv = dialect.submit(asked, name="n", script="").argv
    if isinstance(dialect, Slurm):
        plain = dialect.submit(placeholder(), name="n", script="").argv
        return [word for word in argv if word not in plain]
    values = ("-q", "-P", "-l")
    found = [" ".join(argv[i : i + 2]) for i, word in enumerate(argv) if word in values]
    return [option for option in found if "h_rt" not in option]


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


def test_the_sites_own_words_win_over_wishes() -> None:
    assert options(SLURM, **WISHES) == ["--nodes=2", "--mem=900M"]
    assert SLURM.honours == (*ALWAYS, "qos")
    assert options(GRID_ENGINE, **WISHES) == ["-q batch", "-P ocean"]
    everywhere = ("gpus", "constraint", "licenses", "exclusive")
    assert GRID_ENGINE.honours == (*everywhere, "project")
    free = GridEngine(parallel_environment="grid", native=("-p",))
    assert options(free, **WISHES) == ["-q gpu", "-P ocean"]
    assert free.honours == (*everywhere, "queue", "project", "native")


RICH = {
    "gpus": 4,
    "gpu_type": "a100",
    "constraint": "ib&rome",
    "licenses": (("matlab", 2), ("ansys", 1)),
    "qos": "long",
    "tasks_per_host": 2,
    "is_exclusive": True,
}


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


def test_resources_in_the_words_of_grid_engine() -> None:
    complexes = "-l matlab=2,ansys=1,ib=TRUE,rome=TRUE,exclusive=TRUE,"
    cell = GridEngine(parallel_environment="grid", gpu_resource="ngpus")
    assert options(cell, **RICH) == [f"{complexes}ngpus=4"]
    with pytest.raises(RequestRefusedError, match=r"'a\|b' is refused: allowed are features"):
        options(cell, constraint="a|b")


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
        with pytest.raises(RequestRefusedError, match=r"native: .* is refused: allowed"):
            options(slurm, native=text)


@pytest.mark.parametrize(
    ("text", "allowed", "passed"),
    [
        ("-p -10 -l mem_free=2G", ("*",), True),
        ("-p -10", ("-p",), True),
        ("-p -10", ("-l",), False),
        ("-l h_rt=999", ("*",), False),
        ("-l mem_free=1G,gpu=4", ("*",), False),
        ("-N mine", ("*",), False),
        ("-p", ("*",), False),
        ("-l a=1 /bin/sh", ("*",), False),
        ("-@ file", ("*",), False),
    ],
)
def test_native_options_of_grid_engine(text: str, allowed: tuple[str, ...], passed: bool) -> None:
    cell = GridEngine(parallel_environment="grid", native=allowed)
    if passed:
        assert set(shlex.split(text)) <= set(
            cell.submit(placeholder(resources=Resources(native=text)), name="n", script="").argv
        )
    else:
        with pytest.raises(RequestRefusedError, match=r"native: .* is refused: allowed"):
            options(cell, native=text)


def test_a_single_process_asks_for_the_memory_of_its_machine() -> None:
    assert options(Slurm(), memory_min_mb=900, processes=1) == ["--mem=900M"]


@pytest.mark.parametrize(("out", "number"), [("17\n", "17"), ("18;alpha\n", "18")])
def test_the_number_of_a_slurm_job(out: str, number: str) -> None:
    assert SLURM.read_submitted(said(out)) == number


REFUSED, WRONG, AWAY = "refused", "wrong", "away"


def kind_of(error: LocalManagerError) -> str:
    if isinstance(error, RequestRefusedError):
        assert not error.transient
        return REFUSED
    return AWAY if error.transient else WRONG


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
                reason="Slurm: TIMEOUT (TimeLimit)",
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
        found = replace(found, cause=EndCause.EXITED)  # counts for others only
    assert found == expected


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
    with pytest.raises(LocalManagerError, match="no row of a listing"):
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


# Grid Engine ---------------------------------------------------------------------------

LISTING = """<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/qstat.xsd">
  <queue_info>
    <job_list state="running"><JB_job_number>10</JB_job_number><JB_name>other</JB_name>
      <JB_owner>root</JB_owner><state>r</state><slots>12</slots></job_list>
  </queue_info>
  <job_info>
    <job_list state="pending"><JB_job_number>9</JB_job_number><JB_name>koala-ab-j1.1.0.1</JB_name>
      <state>STATE</state><queue_name></queue_name><slots>12</slots></job_list>
  </job_info>
</job_info>
"""
RECORD = """==============================================================
qname        batch
jobname      koala-ab-j1.1.0.1
jobnumber    9
failed       FAILED
exit_status  STATUS
ru_wallclock 0s
"""


def test_qsub_is_never_run_again_and_takes_the_script_from_standard_input() -> None:
    command = GRID_ENGINE.submit(placeholder(), name="koala-ab-j12.1.0.1", script="#!/bin/sh\n")
    assert command.stdin == "#!/bin/sh\n"
    assert " ".join(command.argv) == (
        "qsub -terse -w e -r n -notify -j y -S /bin/sh -N koala-ab-j12.1.0.1 -pe grid 3"
        " -o /scratch/work folder/placeholder.out -l h_rt=601 -q batch"
    )


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        ("qw", JobState.QUEUED),
        ("hqw", JobState.QUEUED),
        ("Rq", JobState.QUEUED),
        ("hRwq", JobState.QUEUED),
        ("hr", JobState.RUNNING),
        ("Rr", JobState.RUNNING),
        ("s", JobState.RUNNING),
        ("tS", JobState.RUNNING),
        ("t", JobState.RUNNING),
        ("r", JobState.RUNNING),
        ("dr", JobState.RUNNING),
        ("Eqw", JobState.STUCK),
    ],
)
def test_every_state_of_grid_engine_has_its_meaning(letters: str, state: JobState) -> None:
    jobs = GRID_ENGINE.read_jobs(said(LISTING.replace("STATE", letters)))
    assert [(job.number, job.state) for job in jobs] == [("9", state), ("10", JobState.RUNNING)]
    assert jobs[0].name == "koala-ab-j1.1.0.1"


@pytest.mark.parametrize(
    ("failed", "status", "cause", "exit_status"),
    [
        ("0", "0", EndCause.EXITED, 0),
        ("0", "7", EndCause.EXITED, 7),
        ("100 : assumedly after job", "139", EndCause.EXITED, -11),
        ("100 : assumedly after job", "137", EndCause.CANCELLED_BY_SITE, None),
        ("26  : opening input/output file", "0", EndCause.LOST, None),
        ("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "137", EndCause.TIME_LIMIT, None),
        ("21  : in recognizing job", "0", EndCause.UNREACHABLE, None),
    ],
)
def test_every_record_of_grid_engine_has_its_meaning(
    failed: str, status: str, cause: EndCause, exit_status: int | None
) -> None:
    text = RECORD.replace("FAILED", failed).replace("STATUS", status)
    found = GRID_ENGINE.read_record(said(text), number="9", name="koala-ab-j1.1.0.1")
    assert found is not None
    assert (found.cause, found.exit_status) == (cause, exit_status)


def test_a_job_of_grid_engine_that_is_run_again_is_seen() -> None:
    found = [
        GRID_ENGINE.read_jobs(said(LISTING.replace("STATE", letters)))[0].is_again
        for letters in ("Rq", "hRwq", "Rr", "r", "qw")
    ]
    assert found == [True, True, True, False, False]


def test_a_kill_at_the_limit_is_the_limits() -> None:
    """Its execution daemon ends a job at its h_rt by KILL, and the record does not say why."""
    text = RECORD.replace("FAILED", "100 : assumedly after job").replace("STATUS", "137 (Killed)")
    for ran, cause in (("9.8s", EndCause.CANCELLED_BY_SITE), ("10s", EndCause.TIME_LIMIT)):
        more = f"{text}ru_wallclock {ran}\ncategory     -l h_rt=10,mem=1 -pe grid 1\n"
        found = GRID_ENGINE.read_record(said(more), number="9", name="koala-ab-j1.1.0.1")
        assert found is not None
        assert found.cause is cause


def test_a_record_of_another_job_with_the_same_number_is_not_ours() -> None:
    earlier = RECORD.replace("FAILED", "0").replace("STATUS", "0")
    assert GRID_ENGINE.read_record(said(earlier), number="9", name="koala-ab-j2.1.0.1") is None
    none_yet = said(status=1, err="error: job id 9 not found")
    assert GRID_ENGINE.read_record(none_yet, number="9", name="koala-ab-j1.1.0.1") is None


def test_slots_that_are_disabled_or_in_error_do_not_count() -> None:
    summary = """<job_info><cluster_queue_summary><name>batch</name><used>2</used>
      <available>10</available><total>16</total><temp_disabled>4</temp_disabled>
      <manual_intervention>0</manual_intervention></cluster_queue_summary></job_info>"""
    for letters, queued_jobs in (("qw", 1), ("hqw", 0), ("Eqw", 0)):
        answers = (said(summary), said(LISTING.replace("STATE", letters)))
        expected = Figures(processors=12, idle=10, queued_jobs=queued_jobs)
        assert GRID_ENGINE.read_figures(answers) == expected


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("Unable to run job: error: no suitable queues\nExiting.", REFUSED),
        (
            'Unable to run job: job rejected: the requested parallel environment "x" does not'
            " exist\nExiting.",
            WRONG,
        ),
        (
            "error: commlib error: got select error (Connection refused)\nUnable to run job: unable"
            ' to send message to qmaster using port 6444 on host "h": got send error.\nExiting.',
            AWAY,
        ),
    ],
)
def test_a_refusal_of_qsub_is_final_and_a_master_that_is_away_is_not(err: str, kind: str) -> None:
    with pytest.raises(LocalManagerError, match="Unable to run job") as caught:
        GRID_ENGINE.read_submitted(said(status=1, err=err))
    assert kind_of(caught.value) == kind


def test_a_job_that_is_gone_already_is_withdrawn() -> None:
    GRID_ENGINE.read_withdrawn(said('denied: job "9" does not exist\n', status=1))
    SLURM.read_withdrawn(said(status=0))


@pytest.mark.parametrize("dialect", [SLURM, GRID_ENGINE])
@pytest.mark.parametrize("text", ["garbage", "<xml", "\0\0", "1 2 3"])
def test_an_answer_that_is_none_is_an_error_and_no_empty_listing(
    dialect: Dialect, text: str
) -> None:
    with pytest.raises(LocalManagerError):
        dialect.read_jobs(said(text))
