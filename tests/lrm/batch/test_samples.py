"""Whole answers of real batch systems, kept in `samples`, and what is understood of them.

Those of Slurm 22.05.8 and Grid Engine 8.1.9 were recorded (the columns of `squeue` were put in
their present order). Newer Slurm says more words in the same
places (scontrol), and node states as its manuals from 21.08 to 25.05 list them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.protocol.messages import Queue, SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.batch.slurm.nodes import NODE_COLUMNS
from koala_agent.lrm.dialect import BatchJob, JobState
from koala_agent.lrm.local_manager import EndCause
from koala_agent.transport.interface import Answer
from tests.lrm.batch.dialects import UNBOOKED
from tests.lrm.batch.imitated_slurm import listed

SAMPLES = Path(__file__).parent / "samples"
SLURM = SAMPLES / "slurm-22.05"
CELL = SAMPLES / "sge-8.1.9"


def said(path: Path | str) -> Answer:
    out = path.read_text(encoding="utf-8") if isinstance(path, Path) else path
    return Answer(status=0, out=out, err="")


def by_name(jobs: list[BatchJob]) -> dict[str, BatchJob]:
    return {job.name.removeprefix("koala-ab-"): job for job in jobs}


def test_a_listing_of_slurm() -> None:
    jobs = by_name(Slurm().read_jobs(said(SLURM / "squeue.txt")))
    assert {name: job.state for name, job in jobs.items()} == {
        "j1.1.0.1": JobState.ENDED,
        "j1.1.1.1": JobState.ENDED,
        "j1.1.2.1": JobState.ENDED,
        "j1.1.3.1": JobState.ENDED,
        "j1.1.4.1": JobState.RUNNING,
        "j1.1.5.1": JobState.RUNNING,
        "j1.1.6.1": JobState.STUCK,
        "train it": JobState.STUCK,
        "too-long": JobState.STUCK,
        "held": JobState.QUEUED,
        "after": JobState.QUEUED,
        "later": JobState.QUEUED,
    }
    ends = [jobs[f"j1.1.{n}.1"] for n in range(4)]
    assert [(job.cause, job.exit_status) for job in ends] == [
        (EndCause.EXITED, 0),
        (EndCause.EXITED, 7),
        (EndCause.EXITED, -11),
        (EndCause.CANCELLED_BY_SITE, None),
    ]


CANCELLED, ALIVE = "koala-ab-j1.1.3.1", "koala-ab-j1.1.4.1"


def test_records_of_slurm() -> None:
    cancelled = Slurm().read_record(said(SLURM / "job-cancelled.txt"), number="27", name=CANCELLED)
    assert cancelled is not None
    assert (cancelled.state, cancelled.cause) == (JobState.ENDED, EndCause.CANCELLED_BY_SITE)
    running = Slurm().read_record(said(SLURM / "job-running.txt"), number="28", name=ALIVE)
    assert running is not None
    assert running.state is JobState.RUNNING  # in no listing, and alive all the same
    text = (SLURM / "job-unknown.txt").read_text(encoding="utf-8")
    unknown = Answer(status=1, out="", err=text)
    assert Slurm().read_record(unknown, number="9", name="n") is None


def test_figures_of_slurm() -> None:
    """One of two nodes is drained; nobody of those who wait has a right to what is idle."""
    names = ("sinfo", "squeue", "partition", "config")
    answers = tuple(said(SLURM / f"{name}.txt") for name in names)
    found = Slurm().read_figures((*answers, said("No licenses configured in Slurm.\n"), said("")))
    assert (found.processors, found.idle, found.queued_jobs) == (8, 4, 0)
    assert (found.idle_gpus, found.resources.gpus, found.resources.licenses) == (0, 0, ())


def test_gpus_features_and_licences_of_slurm() -> None:
    """Rows of sinfo 22.05: a node in use, one that is down, and one that no job uses."""
    rows = [
        ("n1", "batch*", "up", "2/6/0/8", "mixed", "64000", "0"),
        ("n2", "batch*", "up", "0/0/8/8", "down*", "32000", "0"),
        ("n3", "gpu", "up", "0/8/0/8", "idle", "64000", "0"),
        ("n3", "batch*", "up", "0/8/0/8", "idle", "64000", "0"),
    ]
    more = [
        ("8:1:1", "gpu:a100:2(S:0-1)", "gpu:a100:1(IDX:0)", "ib,rome"),
        ("8:1:1", "gpu:v100:4,shard:8", "gpu:v100:0(IDX:N/A)", "ib"),
        ("8:1:1", "gpu:3", "gpu:(null):1(IDX:2)", "(null)"),
        ("8:1:1", "gpu:3", "gpu:(null):1(IDX:2)", "(null)"),
    ]
    licenses = "LicenseName=a@lm Total=2 Used=0 Free=2 Remote=no\nLicenseName=b Total=30 Used=2\n"
    partitions = "PartitionName=batch\nPartitionName=gpu\n"
    wide = nodes(*[(*row, *rest) for row, rest in zip(rows, more, strict=True)])
    answers = (wide, "", partitions, "", licenses, "")
    found = Slurm().read_figures(tuple(map(said, answers)))
    assert found.idle_gpus == 1 + 2  # n2 is down
    assert found.resources == SiteResources(
        gpus=2 + 4 + 3,
        host_gpus=4,
        gpu_types=("a100", "v100"),
        host_memory_mb=64000,
        host_processors=8,
        features=("ib", "rome"),
        licenses=(("a@lm", 2), ("b", 30)),
        queues=(Queue(name="batch"), Queue(name="gpu")),
        is_complete=True,
    )


def test_gpus_of_grid_engine() -> None:
    """`qhost -F gpu -xml` lists what is left on each host that has any."""
    host = "<host name='{}'><resourcevalue name='{}' dominance='hc'>{}</resourcevalue></host>"
    rows = [("n1", "gpu", "2.000000"), ("n2", "gpu", "1.000000"), ("n3", "ib", "1.0")]
    hosts = "".join(host.format(*row) for row in rows)
    answers = (
        said(CELL / "queues.xml"),
        said(CELL / "qstat.xml"),
        said(f"<q>{hosts}</q>"),
        said(""),
        said(UNBOOKED),
    )
    cell = GridEngine(parallel_environment="grid", gpus=4)
    found = cell.read_figures(answers)
    assert (found.idle_gpus, found.resources.gpus) == (3, 4)
    assert cell.figures()[2].argv == ("qhost", "-q", "-F", "slots,gpu", "-xml")


@pytest.mark.parametrize("number", ["2٣9", "²", "9" * 20, ""])
def test_a_number_that_only_looks_like_one_is_no_job_s(number: str) -> None:
    """It would be passed on as the claim's batch job, and to `scancel`."""
    listing = (SLURM / "squeue.txt").read_text(encoding="utf-8").splitlines()[0]
    with pytest.raises(LocalManagerError, match="is not a row of a listing"):
        Slurm().read_jobs(said(number.ljust(24) + listing[24:]))
    row = f"<JB_job_number>{number}</JB_job_number><JB_name>n</JB_name><state>r</state>"
    with pytest.raises(LocalManagerError, match="lacks its number"):
        GridEngine(parallel_environment="mpi").read_jobs(said(f"<a><job_list>{row}</job_list></a>"))
    with pytest.raises(LocalManagerError):
        Slurm().read_submitted(said(number))
    with pytest.raises(LocalManagerError):
        GridEngine(parallel_environment="mpi").read_submitted(said(number))


def test_a_complaint_is_a_line_without_control_characters() -> None:
    answer = Answer(status=1, out="", err="a\x1b[31mb\tc\n")
    assert answer.complaint() == "a [31mb c"


def nodes(*rows: tuple[str, ...]) -> str:
    widths = [width for _, width in NODE_COLUMNS]
    return "\n".join(
        "".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) for row in rows
    )


def figures(
    *rows: tuple[str, ...], pending: str = "", partitions: str = "", config: str = ""
) -> tuple[int, int]:
    """Processors and idle ones."""
    answers = (
        said(nodes(*rows)),
        said(pending),
        said(partitions),
        said(config),
        said(""),
        said(""),
    )
    found = Slurm().read_figures(answers)
    return found.processors, found.idle


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("idle", (8, 6)),
        ("mixed", (8, 6)),
        ("MIXED+DYNAMIC_NORM", (8, 6)),
        ("idle+cloud", (8, 6)),
        ("idle+completing", (8, 0)),
        ("idle+maintenance+reserved", (8, 0)),
        ("mixed+planned", (8, 6)),
        ("idle-", (8, 6)),
        ("idle+cloud+powered_down", (8, 6)),
        ("IDLE+CLOUD+POWERING_UP", (8, 6)),
        ("idle+cloud+powering_down", (8, 0)),
        ("idle~", (8, 6)),
        ("mixed+drain", (2, 0)),
        ("idle+not_responding", (2, 0)),
        ("idle*", (2, 0)),
        ("idle+reboot_requested", (8, 0)),
        ("idle+blocked", (2, 0)),
    ],
)
def test_idle_processors_of_a_node_count_where_a_job_could_start(
    state: str, expected: tuple[int, int]
) -> None:
    row = ("n1", "batch*", "up", "2/6/0/8", state, "64000", "0")
    assert figures(row) == expected


def test_a_partition_that_takes_no_jobs_has_nothing_idle() -> None:
    for word in ("down", "drain", "inact"):
        row = ("n1", "batch*", word, "2/6/0/8", "mixed", "64000", "0")
        assert figures(row) == (8, 0)


def test_a_node_of_several_partitions_counts_once_and_in_the_default_one_only() -> None:
    shared = [("n1", name, "up", "0/8/0/8", "idle", "64000", "0") for name in ("long", "batch*")]
    other = ("n2", "gpu", "up", "0/8/0/8", "idle", "64000", "0")
    assert figures(*shared, other) == (8, 8)
    nothing_default = [(row[0], row[1].rstrip("*"), *row[2:]) for row in shared]
    assert figures(*nothing_default, other) == (16, 16)


def test_partitions_that_give_whole_nodes_have_no_idle_processors_on_used_ones() -> None:
    rows = [
        ("n1", "batch*", "up", "2/6/0/8", "mixed", "64000", "0"),
        ("n2", "batch*", "up", "0/8/0/8", "idle", "64000", "0"),
    ]
    partition = "PartitionName=batch Default=YES MaxTime=UNLIMITED OverSubscribe=EXCLUSIVE State=UP"
    assert figures(*rows, partitions=partition) == (16, 8)


@pytest.mark.parametrize(
    ("partition", "config", "idle"),
    [
        ("", "SelectTypeParameters    = CR_CPU\nDefMemPerCPU = 2000\n", 14),
        ("", "SelectTypeParameters    = CR_CORE_MEMORY\nDefMemPerCPU = 2000\n", 2 + 8),
        (" DefMemPerCPU=1000", "SelectTypeParameters = CR_CPU_MEMORY\nDefMemPerCPU = 9\n", 5 + 8),
        ("", "SelectTypeParameters = CR_Core_Memory\nDefMemPerNode = UNLIMITED\n", 8),
    ],
)
def test_idle_processors_without_memory_left_are_not_to_be_had(
    partition: str, config: str, idle: int
) -> None:
    rows = [
        ("n1", "batch*", "up", "2/6/0/8", "mixed", "64000", "59000"),
        ("n2", "batch*", "up", "0/8/0/8", "idle", "64000", "0"),
    ]
    text = f"PartitionName=batch OverSubscribe=NO{partition} MaxMemPerNode=UNLIMITED"
    assert figures(*rows, partitions=text, config=config) == (16, idle)


@pytest.mark.parametrize(
    ("reason", "has_a_right"),
    [
        ("Priority", True),
        ("Resources", True),
        ("None", True),
        ("(null)", True),
        ("Dependency", False),
        ("BeginTime", False),
        ("JobHeldUser", False),
        ("JobHeldAdmin", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocGrpCpuLimit", False),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", False),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher", False),
        ("PartitionTimeLimit", False),
    ],
)
def test_who_waits_for_something_else_has_no_right_to_what_is_idle(
    reason: str, has_a_right: bool
) -> None:
    row = ("n1", "batch*", "up", "0/8/0/8", "idle", "64000", "0")
    jobs = listed("17_[1-4]", reason=reason)
    answers = tuple(map(said, (nodes(row), jobs, "", "", "", "")))
    assert Slurm().read_figures(answers).queued_jobs == int(has_a_right)


# Grid Engine --------------------------------------------------------------------------------------

GRID_ENGINE = GridEngine(parallel_environment="grid")


def test_a_listing_of_grid_engine() -> None:
    jobs = by_name(GRID_ENGINE.read_jobs(said(CELL / "qstat.xml")))
    assert {name: (job.owner, job.state) for name, job in jobs.items()} == {
        "j1.1.0.1": ("root", JobState.RUNNING),  # held while it runs: hr
        "j1.1.2.1": ("root", JobState.QUEUED),
        "j1.1.3.1": ("root", JobState.STUCK),
        "j1.1.4.1": ("root", JobState.RUNNING),
        "j9.1.0.1": ("nobody", JobState.STUCK),
        "held": ("root", JobState.QUEUED),
        "again": ("root", JobState.QUEUED),
    }
    assert [name for name, job in jobs.items() if job.is_again] == ["again"]


def test_records_of_grid_engine() -> None:
    whole = (CELL / "qacct.txt").read_text(encoding="utf-8")
    rule = "=" * 62
    records = [f"{rule}{text}" for text in whole.split(rule)[1:]]
    found = [
        GRID_ENGINE.read_record(said(record), number="1", name=name)
        for record, name in zip(records, ("killed", "failed", "koala-ab-j1.1.4.1"), strict=True)
    ]
    assert [(job.cause, job.exit_status) for job in found if job is not None] == [
        (EndCause.CANCELLED_BY_SITE, None),
        (EndCause.EXITED, 7),
        (EndCause.TIME_LIMIT, None),
    ]


def test_figures_of_grid_engine() -> None:
    """Two queues share the sixteen slots of a host, and a third one is suspended while they are
    used: who waits for that one, or is held, waits for nothing that is idle."""
    names = ("queues", "pending", "hosts")
    listings = [said(CELL / f"several-{name}.xml") for name in names]
    found = GRID_ENGINE.read_figures((*listings, said(""), said(UNBOOKED)))
    assert (found.processors, found.idle, found.closed) == (16, 11, ())
    assert [(row.number, row.processors) for row in found.waiting or ()] == [("5", 12)]
