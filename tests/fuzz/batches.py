"""Hostile answers of batch systems: Slurm's tables and records, Grid Engine's XML and accounts,
HTCondor's ads, listings of OAR and PBS."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TypeAlias

from koala.common.protocol.messages import SiteFigures
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.figures.idle_processors import idle_of
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.htcondor import HTCondor
from koala_agent.lrm.batch.oar import OAR
from koala_agent.lrm.batch.pbs import PBS
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import BatchJob, Dialect
from koala_agent.transport.interface import Answer
from tests.fuzz.hostile_values import spoilt_text
from tests.fuzz.tables import require_taken
from tests.fuzz.target import Target, require_readable

SAMPLES = Path(__file__).parents[1] / "lrm" / "batch" / "samples"
SLURM, CELL = SAMPLES / "slurm-22.05", SAMPLES / "sge-8.1.9"
POOL = SAMPLES / "condor-23.9"
OAR_HERE = SAMPLES / "oar-2.6.1"
PBS_MADE = SAMPLES / "pbs-made"
PIECES = (
    "\n", " ", "|", "=", "-1", "\t", "<", ">", "</job_list>", "<!DOCTYPE a>", "&lol;", "²", "٣",
    "9" * 5_000, "1.2.3", ".", "COMPLETED", "JobState=", "ExitCode=9:9", "0/0/0/0", "N/A", "*",
    "(null)", "state", "<state></state>", "qw", "failed  ", "exit_status ", "h_rt=1",
)  # fmt: skip

Case: TypeAlias = tuple[str, list[tuple[int, str, str]]]

QUESTIONS: dict[str, tuple[Path, ...]] = {
    "slurm jobs": (SLURM / "squeue.txt",),
    "slurm record": (SLURM / "job-cancelled.txt",),
    "slurm figures": (
        *(SLURM / f"{name}.txt" for name in ("sinfo", "squeue", "partition", "config")),
        Path(__file__).with_name("licenses.txt"),
        SLURM / "reservations.txt",
    ),
    "slurm submitted": (SLURM / "job-unknown.txt",),
    "cell jobs": (CELL / "qstat.xml",),
    "cell record": (CELL / "qacct.txt",),
    "cell figures": (
        CELL / "queues.xml",
        CELL / "qstat.xml",
        CELL / "several-hosts.xml",
        CELL / "quotas.txt",
        Path(__file__).with_name("advance_reservations.txt"),
    ),
    "cell submitted": (CELL / "qacct.txt",),
    "pool jobs": (POOL / "jobs.json",),
    "pool record": (POOL / "history.json",),
    "pool figures": (POOL / "slots.json", POOL / "totals.txt", POOL / "schedds.json"),
    "pool submitted": (POOL / "totals.txt",),
    "oar jobs": (OAR_HERE / "jobs.json",),
    "oar record": (OAR_HERE / "ended.json",),
    "oar figures": (OAR_HERE / "nodes.json", OAR_HERE / "jobs.json"),
    "oar submitted": (OAR_HERE / "jobs.json",),
    "pbs jobs": (PBS_MADE / "jobs.json",),
    "pbs record": (PBS_MADE / "jobs.json",),
    "pbs figures": (PBS_MADE / "nodes.json", PBS_MADE / "jobs.json"),
    "pbs submitted": (PBS_MADE / "jobs.json",),
}
SYSTEMS: dict[str, Dialect] = {
    "slurm": Slurm(),
    "cell": GridEngine(parallel_environment="mpi"),
    "pool": HTCondor(),
    "oar": OAR(),
    "pbs": PBS(),
}
NAMES = {"pool record": "koala-ab-j1.1.1.1", "pbs record": "koala-ab-j1.1.4.1"}
"""Names of jobs in the records."""
TEXTS = {path: path.read_text(encoding="utf-8") for paths in QUESTIONS.values() for path in paths}


def a_case(random: Random) -> Case:
    name = random.choice((*QUESTIONS,))
    answers = []
    for path in QUESTIONS[name]:
        out = TEXTS[path]
        if name.endswith("submitted"):
            out = random.choice(
                ("12", "12;cluster", "", "Your job 5", "²", "5\n", "5.0 - 5.0\n", "OAR_JOB_ID=5\n")
            )
        status = random.choice((0, 0, 0, 0, 0, 1, -9, 255))
        spoilt = spoilt_text(random, out, PIECES) if random.randrange(5) else out
        error = spoilt_text(random, "error: no", PIECES)
        answers.append((status, _decoded(spoilt), _decoded(error)))
    return name, answers


def _decoded(text: str) -> str:
    """As the shell decodes what a command writes."""
    return text.encode("utf-8", "replace").decode()


def check(case: Case) -> None:
    name, said = case
    answers = tuple(Answer(status=status, out=out, err=err) for status, out, err in said)
    system = SYSTEMS[name.partition(" ")[0]]
    try:
        match name.partition(" ")[2]:
            case "jobs":
                for job in system.read_jobs(answers[0]):
                    _require_job(job)
            case "record":
                found = system.read_record(answers[0], number="27", name=NAMES.get(name, "n"))
                if found is not None:
                    _require_job(found)
            case "figures":
                figures = system.read_figures(answers)
                assert figures is not None
                for count in (figures.processors, figures.idle, figures.queued_jobs):
                    assert count >= 0, figures
                idle = idle_of(figures, (), allowed=8)
                told = SiteFigures(
                    idle=idle.startable,
                    through=0,
                    processors=idle.processors,
                    local_processors=idle.local_processors,
                    queued_jobs=idle.queued_jobs,
                )
                require_taken(told)
            case _:
                assert system.read_submitted(answers[0]).isdigit()
    except LocalManagerError as error:
        require_readable(str(error))


def _require_job(job: BatchJob) -> None:
    assert job.number.isascii(), job
    assert job.number.isdigit(), job
    assert len(job.number) < 100, job
    assert job.exit_status is None or -256 < job.exit_status < 2**31, job


TARGETS = (Target(name="batch", make=a_case, check=check),)
