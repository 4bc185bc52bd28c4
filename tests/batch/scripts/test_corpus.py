"""Scripts as `sbatch` and `qsub` understand them, and as Koala does, over a corpus of scripts.

Each script goes to the real command, held, and is read back; what Koala makes of it goes there,
too, by the dialect, and must be the same job. A difference is allowed where a warning tells it.
What the real command refuses is refused by Koala; what only Koala refuses is in `refused-*`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from koala.common.protocol.messages import Resources
from koala.core.model.job_spec import ComponentSpec
from koala.errors import SpecError
from koala.job_descriptions.scripts.draft import ScriptSite
from koala.job_descriptions.scripts.reading import read_script
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.local_manager import Placeholder
from tests.batch.systems.system import System

pytestmark = pytest.mark.lrm

CORPUS = Path(__file__).parent / "corpus"
Job = dict[str, str]
NOT_OF_SIZE = re.compile(
    r"JobId|JobName|\w+Time|LastSchedEval|Command|WorkDir|Std\w+|Requeue|Priority|Restarts|Power"
    r"|HetJob\w+"
)
"""Fields of a job of Slurm that say nothing of what it is, or are Koala's own."""
SAME_IN_GRID_ENGINE = (
    *("hard resource_list", "soft resource_list", "hard_queue_list", "soft_queue_list"),
    *("master hard queue_list", "parallel environment", "project", "priority", "account"),
    *("context", "binding", "reserve", "jobshare", "checkpoint_object"),
)
ONE_SLOT = {"parallel environment": "grid range: 1"}
"""Request of any job of Koala."""


def slurm_job(system: System, answer: str) -> list[Job]:
    """Return the parts of a job, mostly one."""
    number = answer.strip().splitlines()[-1]
    lines = system.run("scontrol", "-o", "show", "job", number).splitlines()
    system.cancel(number)
    parts = [dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|$)", line)) for line in filter(None, lines)]
    return [
        {
            name: value.strip()
            for name, value in part.items()
            if value.strip() not in ("(null)", "gres:gpu:0")
        }
        for part in sorted(parts, key=lambda part: int(part.get("HetJobOffset", 0)))
    ]


def cell_job(system: System, answer: str) -> list[Job]:
    number = re.findall(r"^([0-9]+)(?:\.\S+)?$", answer, re.MULTILINE)[-1]
    words = system.run("qstat", "-j", number)
    system.cancel(number)
    return [{name: value.strip() for name, value in re.findall(r"(?m)^([a-z_ ]+):(.*)$", words)}]


def same_slurm(job: Job) -> Job:
    """Slurm guesses the number of nodes of a held job that asks for none."""
    chosen = {name: value for name, value in job.items() if not NOT_OF_SIZE.fullmatch(name)}
    if "-" not in chosen["NumNodes"]:
        del chosen["NumNodes"]
        chosen["TRES"] = re.sub(r"node=\d+,", "", chosen["TRES"])
    return {**chosen, "TimeLimit": job["TimeLimit"]}


def same_cell(job: Job) -> Job:
    chosen = {name: job[name] for name in SAME_IN_GRID_ENGINE if name in job}
    if "hard resource_list" in chosen:
        words = chosen["hard resource_list"].split(",")
        chosen["hard resource_list"] = ",".join(sorted(map(in_minutes, words)))
    return {**ONE_SLOT, **chosen}


def in_minutes(word: str) -> str:
    name, _, value = word.partition("=")
    is_time = name == "h_rt" and value.isdigit()
    return f"h_rt={60 * math.ceil(int(value) / 60)}" if is_time else word.lower()


def placeholder_of(component: ComponentSpec, folder: Path) -> Placeholder:
    asked = {each.name: getattr(component, each.name) for each in fields(Resources)}
    return Placeholder(
        claim="j1/1/0/1",
        processors=component.processors,
        time_limit_s=component.wall_time_s or math.inf,
        argv=("true",),
        directory=folder,
        resources=Resources(**asked),
    )


def check_corpus(
    scripts: Iterable[Path],
    system: System,
    title: str,
    dialect: Dialect,
    held: tuple[str, ...],
    job_of: Callable[[System, str], list[Job]],
    same: Callable[[Job], Job],
    folder: Path,
) -> Iterator[str]:
    """Yield what differs."""
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        name = f"{path.parent.name}/{path.name}"
        is_refused = path.stem.startswith("refused-")
        try:
            jobs = job_of(system, system.run(*held, str(path)))
        except AssertionError:
            jobs = []
        try:
            components, warnings = read_script(
                text, name=path.name, sites=[ScriptSite(name=system.name, system=title)]
            )
        except SpecError as error:
            if error.position is None or (jobs and not is_refused):
                yield f"{name} is refused: {error}"
            continue
        if not jobs or is_refused:
            yield f"{name} is read{'' if jobs else ', and the real command refuses it'}: {warnings}"
            continue
        if len(jobs) != len(components):
            yield f"{name} has {len(jobs)} parts, not {len(components)}"
        is_silent = not warnings or len(jobs) > 1
        for job, component in zip(jobs, components, strict=False):
            yield from (f"{name} {words}" for words in written_and_called(job, component))
            made = dialect.submit(
                placeholder_of(component, folder), name="koala-a-j1.1.0.1", script=""
            )
            argv = [*held, *made.argv[1:]]
            try:
                (ours,) = job_of(system, system.run(*argv, text="#!/bin/sh\ntrue\n"))
            except AssertionError as error:
                yield f"{name} is taken, but not as Koala submits it: {error}"
                continue
            real, mine = same(job), same(ours)
            differing = {
                key: (real.get(key), mine.get(key))
                for key in {*real, *mine}
                if real.get(key) != mine.get(key)
            }
            if differing and is_silent:
                yield f"{name}: {differing} ({' '.join(made.argv)})"


def written_and_called(job: Job, component: ComponentSpec) -> Iterator[str]:
    end = f"/{component.stdout}".replace("//", "/")
    if component.stdout and not output(job).endswith(end):
        yield f"writes to {output(job)}, not {component.stdout}"
    called = job.get("JobName", job.get("job_name"))
    if component.label not in (called, None):
        yield f"is called {called}, not {component.label}"


def output(job: Job) -> str:
    given = job.get("StdOut") or "/" + job.get("stdout_path_list", "").rpartition(":")[2]
    return given.replace("$JOB_NAME", job.get("job_name", ""))


def test_scripts_are_the_jobs_that_sbatch_makes_of_them(
    slurm: dict[str, System], tmp_path: Path
) -> None:
    scripts = sorted((CORPUS / "slurm").iterdir())
    held = ("sbatch", "--hold", "--parsable")
    found = check_corpus(
        scripts,
        slurm["alpha"],
        "Slurm",
        Slurm(native=("*",)),
        held,
        slurm_job,
        same_slurm,
        tmp_path,
    )
    assert len(scripts) > 60
    assert list(found) == []


def test_scripts_are_the_jobs_that_qsub_makes_of_them(
    cell: dict[str, System], tmp_path: Path
) -> None:
    scripts = sorted((CORPUS / "gridengine").iterdir())
    dialect = GridEngine(parallel_environment="grid", native=("*",))
    found = check_corpus(
        scripts,
        cell["gamma"],
        "Grid Engine",
        dialect,
        ("qsub", "-h", "-terse"),
        cell_job,
        same_cell,
        tmp_path,
    )
    assert len(scripts) > 50
    assert list(found) == []
