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
from koala_agent.starter.procfs import own_environment

GRID_VARIABLE = "KOALA_GRID"
"""Variable of all processes of a grid on one machine, by which `koala up` finds what is left."""

CLAIM_VARIABLE = "KOALA_CLAIM"
"""Variable of each process of a claim."""

COMMANDS_KEEP = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG")
"""Variables of ours that commands of a batch system get."""
LOCALE = {"LC_ALL": "C"}

SERVICE = (
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_*", "MAINPID"),
    *("NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_FDS*", "LISTEN_PID", "MANAGERPID", "CREDENTIALS_*"),
)
"""Variables by which systemd speaks to a service."""

RENDEZVOUS = (
    *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "WORLD_SIZE", "RANK", "LOCAL_RANK"),
    *("LOCAL_WORLD_SIZE", "PMI_*", "PMIX_*", "MPI_LOCAL*", "OMPI_COMM_WORLD_*", "PRTE_*"),
)
"""Variables by which the processes of a job or an MPI program find one another."""


def of_commands(additions: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of commands whose answers are read."""
    kept = {name: os.environ[name] for name in COMMANDS_KEEP if name in os.environ}
    return {**kept, **LOCALE, **additions}


def of_programs(
    additions: Mapping[str, str] | None = None,
    *,
    without: Iterable[str] = (),
    outer: Iterable[str] = (),
) -> dict[str, str]:
    """Return the environment of programs under the agent's own account, and of commands that hand
    theirs on to programs, `without` what would change these commands. `outer` are the variables of
    a batch job in which this process runs."""
    outer = tuple(outer)
    others = (*outer, *RENDEZVOUS) if outer or CLAIM_VARIABLE in os.environ else ()
    kept = {name: os.environ[name] for name in (GRID_VARIABLE,) if name in os.environ}
    variables = left_out((FORK_SUPPORT, VERBOSITY, *SERVICE, "KOALA_*", *others), own_environment())
    return {**left_out(without, {**variables, **kept}), **(additions or {})}


def left_out(patterns: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names match none of these patterns."""
    listed = tuple(patterns)
    return {name: value for name, value in environment.items() if not matches(name, listed)}


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Test a name for one of these patterns, which may have a * each."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
