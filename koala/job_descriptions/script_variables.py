"""Variables of batch systems that a script reads, and what it finds in them at a site."""

from __future__ import annotations

import re

from koala.errors import Position
from koala.job_descriptions.script_draft import Draft, ScriptSite, tasks_of

_READ = re.compile(
    r"""(?:\$\{?|environ(?:\.get\(|\[)['"]|getenv\(['"]|\$ENV\{['"]?)"""
    r"((?:SLURM|SBATCH|PBS|OAR|SGE|LSB)_\w+|NSLOTS|NHOSTS|PE_HOSTFILE|JOB_ID|JOB_NAME)\b"
    r"(?!['\"]?[:,]?-|:=)"
)
"""A variable that is read, without a value for where it is missing."""

_SYSTEMS = {"SLURM": "Slurm", "SBATCH": "Slurm", "PBS": "PBS", "OAR": "OAR", "LSB": "LSF"}

_COUNTS = {
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "PBS_TASKNUM"), "tasks"),
    **dict.fromkeys(("NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC"), "processors"),
    **dict.fromkeys(("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"), "cpus_per_task"),
    **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "NHOSTS", "PBS_NUM_NODES"), "hosts"),
    **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), "tasks_per_host"),
}
"""Variables with a number that the script's directives tell."""

_SUBMIT_FOLDERS = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "SGE_O_WORKDIR", "OAR_WORKDIR", "LS_SUBCWD")

_INSTEAD = {
    **dict.fromkeys(("SLURM_JOB_NAME", "JOB_NAME", "PBS_JOBNAME", "OAR_JOB_NAME"), "KOALA_NAME"),
    **dict.fromkeys(
        ("SLURM_JOB_ID", "SLURM_JOBID", "JOB_ID", "PBS_JOBID", "OAR_JOB_ID", "LSB_JOBID"),
        "KOALA_CLAIM",
    ),
    **dict.fromkeys(
        ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "PE_HOSTFILE", "PBS_NODEFILE", "OAR_NODEFILE"),
        "KOALA_BUNDLE",
    ),
    **dict.fromkeys(("SLURM_PROCID", "OMPI_COMM_WORLD_RANK"), "KOALA_PROCESS"),
}
"""Variables of Koala that have the same, or nearly."""


def check_variables(draft: Draft, text: str, system: str, site: ScriptSite) -> None:
    """Warn of variables that the script reads and its site does not set, or sets to something else;
    those with a count are set. `kind` is that of the script's directives."""
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        code = line if line.startswith("#!") else re.sub(r"(^|\s)#.*", r"\1", line)
        for found in _READ.finditer(code):
            name = found[1]
            if name in seen or re.search(rf"(?m)^\s*(?:export\s+)?{name}=", text):
                continue
            seen.add(name)
            if message := _problem(draft, name, system, site):
                at = Position(line=number, column=found.start(1) + 1, source=line)
                draft.warn(message, at)


def _problem(draft: Draft, name: str, system: str, site: ScriptSite) -> str:
    """Describe what a script finds in a variable; empty if it is what its author expects."""
    of = _SYSTEMS.get(name.partition("_")[0], "Grid Engine")
    at = system if site.system is None else site.system
    where = site.name or "its site"
    if name in draft.environment:
        return ""
    if name in _SUBMIT_FOLDERS:
        what = "a folder of the site's agent" if of == at else "not set"
        option = "-wd" if system == "Grid Engine" else "-d" if system == "OAR" else "--chdir"
        begins = f"the program begins in a work folder of its own ({option} names another one)"
        return f"{name} is {what} at {where}: {begins}"
    if of == at:
        if _INSTEAD.get(name) == "KOALA_NAME":
            return f"{name} is the name of a claim at {where}: KOALA_NAME has the job's"
        return ""
    has = f" ({site.system})" if site.system else ""
    if (field := _COUNTS.get(name)) and (value := _count(draft, field)):
        draft.environment[name] = str(value)
        draft.set(environment=tuple(sorted(draft.environment.items())))
        return f"{name} is not set by {where}{has}: Koala sets it to {value}"
    if instead := _INSTEAD.get(name):
        return f"{name} is not set by {where}{has}: {instead} is"
    return f"{name} is not set by {where}{has}"


def _count(draft: Draft, field: str) -> int | None:
    if field == "tasks":
        return tasks_of(draft)
    count: int | None = getattr(draft.component, field)
    return count or (1 if field == "cpus_per_task" else None)
