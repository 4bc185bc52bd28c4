"""The words of Grid Engine: what is submitted, and answers of Grid Engine 8.1.9."""

from __future__ import annotations

import shlex

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.gridengine.hosts import SHUT
from koala_agent.lrm.dialect import JobState
from koala_agent.lrm.local_manager import EndCause, RequestRefusedError
from tests.lrm.batch.dialects import (
    AWAY,
    CLOCK,
    GRID_ENGINE,
    REFUSED,
    RICH,
    UNBOOKED,
    WRONG,
    kind_of,
    options,
    placeholder,
)
from tests.lrm.batch.first_claim import said


def test_resources_in_the_words_of_grid_engine() -> None:
    complexes = "-l matlab=2,ansys=1,ib=TRUE,rome=TRUE,exclusive=TRUE,"
    cell = GridEngine(parallel_environment="grid", gpu_resource="ngpus")
    assert options(cell, **RICH) == [f"{complexes}ngpus=4"]
    with pytest.raises(RequestRefusedError, match=r"'a\|b' is refused \(expected features"):
        options(cell, constraint="a|b")


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
        with pytest.raises(RequestRefusedError, match=r"native: .* is refused \(expected"):
            options(cell, native=text)


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
        "qsub -terse -w e -r n -notify -j y -S /bin/bash -N koala-ab-j12.1.0.1 -pe grid 3"
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


QUEUES = "<a><cluster_queue_summary><name>batch</name></cluster_queue_summary></a>"
HOST = """<qhost><host name='node'>
      <resourcevalue name='slots' dominance='hc'>FREE</resourcevalue>
      <queue name='batch'><queuevalue name='slots_used'>USED</queuevalue>
      <queuevalue name='slots'>16</queuevalue><queuevalue name='slots_resv'>0</queuevalue>
      <queuevalue name='state_string'>STATE</queuevalue></queue></host></qhost>"""


@pytest.mark.parametrize(
    ("free", "state", "processors", "idle"),
    [
        ("14.000", "", 16, 14),
        ("9.000", "", 11, 9),  # of 11 slots of the host
        ("none", "", 16, 14),
        ("14.000", "d", 2, 0),
        ("14.000", "D", 2, 0),
        ("14.000", "au", 2, 0),
        ("14.000", "S", 2, 0),
        ("14.000", "E", 2, 0),
    ],
)
def test_slots_that_are_disabled_or_in_error_do_not_count(
    free: str, state: str, processors: int, idle: int
) -> None:
    host = HOST.replace("FREE", free).replace("USED", "2").replace("STATE", state)
    for letters, queued_jobs in (("qw", 1), ("hqw", 0), ("Eqw", 0)):
        listing = LISTING.replace("STATE", letters)
        found = GRID_ENGINE.read_figures(tuple(map(said, (QUEUES, listing, host, "", UNBOOKED))))
        assert (found.processors, found.idle) == (processors, idle)
        assert found.queued_jobs == (queued_jobs if idle else 0)
        assert found.shut_queues == ({"batch": SHUT[state[-1]]} if not idle else {})
        assert found.closed == (
            () if idle else ("14 in queues that are disabled, suspended or in error",)
        )


@pytest.mark.parametrize(
    ("name", "begin", "begins_at", "left"),
    [
        ("lecture", "11:10:00", 1600.0, 12),
        ("lecture", "10:59:00", 940.0, 9),  # ann has three slots in it
        ("koala-ab-j1.1.0.1", "10:59:00", 940.0, 12),  # and no job of this name
    ],
)
def test_what_is_booked_is_idle_and_told_as_far_as_no_job_uses_it(
    name: str, begin: str, begins_at: float, left: int
) -> None:
    """Its times are in UTC, those of jobs on the clock of the cell."""
    rows = "".join(
        f"<job_list state='running'><JB_owner>{who}</JB_owner><slots>3</slots><JB_name>x</JB_name>"
        f"<JAT_start_time>2026-11-30T{at}</JAT_start_time>"
        "<queue_name>batch@node</queue_name></job_list>"
        for who, at in (("ann", "11:59:30"), ("ann", "11:00:00"), ("bob", "11:59:30"))
    )
    booking = (
        f"<q><ar_summary><id>7</id><name>{name}</name><owner>ann</owner><state>r</state>"
        f"<start_time>2026-11-30T{begin}</start_time><end_time>2026-11-30T11:20:00</end_time>"
        "<granted_slots_list><granted_slots queue_instance='batch@node' slots='12'/>"
        "<granted_slots queue_instance='long@node' slots='2'/></granted_slots_list>"
        "</ar_summary></q>"
    )
    host = HOST.replace("FREE", "none").replace("USED", "9").replace("STATE", "")
    answers = (QUEUES, f"<q>{rows}</q>", host, "", f"{CLOCK}\n{booking}")
    found = GRID_ENGINE.read_figures(tuple(map(said, answers)))
    (told,) = found.booked
    assert (found.idle, told.processors) == (7, left)
    assert (told.begins_at, told.ends_at) == (begins_at, 2200.0)


@pytest.mark.parametrize(
    ("rules", "idle"),
    [
        ("limit users nobody to slots=0\n limit users {*} to slots=12", 11),  # ann has one of them
        ("limit users * to slots=12", 10),  # everybody's two
        ("limit users {bob,ann} pes {*} to slots=3", 2),
        ("limit users bob to slots=3", 14),
        ("limit users !ann to slots=3", 14),
        ("limit name all users {*} to mem=1G,slots=1", 0),
        ("limit hosts {node} to slots=3\n limit users {*} to slots=12", 1),  # two are in use there
        ("limit hosts n2 to slots=3\n limit users {*} to slots=12", 11),  # another host
        ("limit users {*} hosts {*} to slots=3", 2),  # ann has one there
        ("limit users * queues batch to slots=5", 3),
        ("limit queues long,{short} to slots=0", 14),
        ("limit projects {p1} to slots=4", 3),
        ("limit projects p2 to slots=0", 14),
        ("limit hosts {@big} to slots=0\n limit users {*} to slots=3", 14),  # which are big?
        ("limit users {@staff} to slots=3\n limit users {*} to slots=3", 14),  # is ann one?
        ("limit pes make to slots=3\n limit users {*} to slots=$num_proc", 14),
    ],
)
def test_resource_quotas_bound_what_is_idle(rules: str, idle: int) -> None:
    cell = GridEngine(parallel_environment="grid", user="ann", project="p1")
    host = HOST.replace("FREE", "14.000").replace("USED", "2").replace("STATE", "")
    jobs = (("ann", "running"), ("bob", "running"), ("ann", "pending"))
    rows = "".join(
        f"<job_list state='{state}'><JB_owner>{who}</JB_owner><slots>1</slots>"
        "<queue_name>batch@node</queue_name></job_list>"
        for who, state in jobs
    )
    quotas = f"{{\n name users\n enabled TRUE\n {rules}\n}}\n{{\n enabled FALSE\n {rules}\n}}"
    found = cell.read_figures(tuple(map(said, (QUEUES, f"<q>{rows}</q>", host, quotas, UNBOOKED))))
    assert (found.processors, found.idle, found.shut) == (16, idle, 14 - idle)
    words = f"{14 - idle} beyond what resource quotas allow ann"
    assert found.closed == ((words,) if idle < 14 else ())
    off = quotas.replace("TRUE", "FALSE")
    assert (
        cell.read_figures(tuple(map(said, (QUEUES, f"<q>{rows}</q>", host, off, UNBOOKED)))).idle
        == 14
    )


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        ("Unable to run job: error: no suitable queues\nExiting.", REFUSED),
        ("Unable to run job: the advance reservation id 99 is invalid\nExiting.", REFUSED),
        (
            "Unable to run job: the job duration is longer than duration of the advance"
            " reservation id 1",
            REFUSED,
        ),
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
