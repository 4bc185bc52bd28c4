"""Environments of what an agent starts: one for commands whose answers it reads, one for programs.

- Commands of a batch system get little, in the C locale, so that no start-up file changes what they
  print (SQUEUE_FORMAT, COLUMNS, a language).
- Programs get what the agent was started with, as `sbatch` in that shell would give it to them,
  but what is the agent's own, and what an outer batch job has set.

The configuration's `lrm.environment` is added to both. What else is different for a program of
Koala is listed in docs/guides/environment.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from koala.common.wire.grpc_variables import FORK_SUPPORT, VERBOSITY

GRID_VARIABLE = "KOALA_GRID"
"""Variable of all processes of a grid on one machine, by which `koala up` finds what is left."""

COMMANDS_KEEP = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG")
"""Variables of ours that commands of a batch system get."""
LOCALE = {"LC_ALL": "C"}

SERVICE = (
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_*", "MAINPID"),
    *("NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_FDS*", "LISTEN_PID", "MANAGERPID", "CREDENTIALS_*"),
)
"""Variables by which systemd speaks to a service."""

OUTER_JOBS: Mapping[str, tuple[str, ...]] = {
    "SLURM_JOB_ID": ("SLURM_*", "SLURMD_*", "SRUN_*"),
    "SGE_TASK_ID": (
        *("SGE_TASK_*", "SGE_O_*", "SGE_STD*_PATH", "SGE_CWD_PATH", "SGE_CKPT_*", "SGE_ACCOUNT"),
        *("SGE_JOB_SPOOL_DIR", "SGE_BINDING", "SGE_RSH_COMMAND", "JOB_*", "QUEUE", "PE", "ARC"),
        *("PE_HOSTFILE", "NSLOTS", "NHOSTS", "NQUEUES", "REQUEST", "REQNAME", "RESTARTED"),
        *("ENVIRONMENT", "TMP", "TMPDIR"),
    ),
    "PBS_JOBID": ("PBS_*", "NCPUS", "TMPDIR"),
    "OAR_JOB_ID": ("OAR_*", "OAR"),
    "_CONDOR_JOB_AD": ("_CONDOR_*", "TMP", "TEMP", "TMPDIR"),
    "PMI_RANK": ("PMI_*", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    "PMIX_RANK": ("PMIX_*", "OMPI_COMM_WORLD_*", "OMPI_UNIVERSE_SIZE", "PRTE_*"),
    "KOALA_CLAIM": (
        *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "WORLD_SIZE", "RANK", "LOCAL_RANK"),
        "LOCAL_WORLD_SIZE",
    ),
}
"""Variables of the job in which an agent was started, by the one that shows that there is one."""
INSTALLATION = ("SLURM_CONF",)
"""Variables that a job may have set, and that select the installation outside of it as well."""


def of_commands(additions: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of commands whose answers are read."""
    kept = {name: os.environ[name] for name in COMMANDS_KEEP if name in os.environ}
    return {**kept, **LOCALE, **additions}


def of_programs(
    additions: Mapping[str, str] | None = None, *, without: Iterable[str] = ()
) -> dict[str, str]:
    """Return the environment of programs under the agent's own account, and of commands that hand
    theirs on to programs, `without` what would change these commands."""
    outer = [name for sign in OUTER_JOBS if sign in os.environ for name in OUTER_JOBS[sign]]
    ours = (FORK_SUPPORT, VERBOSITY, *SERVICE, "KOALA_*")
    kept = {name: os.environ[name] for name in INSTALLATION if name in os.environ}
    if GRID_VARIABLE in os.environ:
        kept[GRID_VARIABLE] = os.environ[GRID_VARIABLE]
    found = {**left_out((*ours, *outer), os.environ), **kept}
    return {**left_out(without, found), **(additions or {})}


def left_out(patterns: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names match none of these patterns."""
    listed = tuple(patterns)
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatchcase(name, pattern) for pattern in listed)
    }
