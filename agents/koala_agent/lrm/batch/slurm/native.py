"""Options for `sbatch` that jobs may give."""

from __future__ import annotations

import re

from koala.common.protocol.messages import Resources
from koala_agent.lrm.batch.native import check_allowed, native_words, refuse

NATIVE_OWN = (
    *("account", "array", "begin", "chdir", "cluster-constraint", "clusters", "constraint"),
    *("container", "container-id", "cpus-per-gpu", "cpus-per-task", "deadline", "dependency"),
    *("error", "exclusive", "export", "export-file", "get-user-env", "gid", "gpus"),
    *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "help", "hold", "ignore-pbs"),
    *("input", "job-name", "kill-on-invalid-dep", "licenses", "mem", "mem-per-cpu", "mem-per-gpu"),
    *("no-requeue", "nodefile", "nodes", "ntasks", "ntasks-per-gpu", "ntasks-per-node"),
    *("ntasks-per-tres", "open-mode", "output", "overcommit", "parsable", "partition", "qos"),
    *("quiet", "requeue", "signal", "tasks-per-node", "test-only", "time", "time-min", "tres-per"),
    *("uid", "usage", "verbose", "version", "wait", "workdir", "wrap"),
)
"""Options of `sbatch` that Koala sets or counts, or that would change how its batch job runs."""
NATIVE_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")

NATIVE_GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gres", "cpus-per-gpu", "ntasks-per-gpu")
"""Options of scripts that say more exactly what attributes of a job say, too: they replace what
Koala would make of those."""


def native_options(asked: Resources, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's options for `sbatch`. Raises RequestRefusedError."""
    words = native_words(asked.native) if asked.native else []
    for word in words:
        option, _, value = word.partition("=")
        if not re.fullmatch(r"--[a-z][a-z0-9-]*", option):
            refuse(word, "long options with their value, as in --reservation=course")
        if _is_shape(option[2:], value, asked):
            continue
        # sbatch takes beginnings of names
        if any(own.startswith(option[2:]) for own in NATIVE_OWN) and not _is_free(option, value):
            refuse(word, "options that Koala neither sets nor counts; see docs: attributes of jobs")
        check_allowed(option, allowed)
    return words


def _is_shape(name: str, value: str, asked: Resources) -> bool:
    """Return True for an option that shapes memory or GPUs for which the job asks anyhow."""
    if name in NATIVE_MEMORY:
        return value == "0" if name == "mem" else bool(value)
    if name == "gpus" and value.rpartition(":")[2] != str(asked.gpus):
        return False
    return name in NATIVE_GPUS and bool(asked.gpus) and (name != "gres" or value.startswith("gpu"))


def _is_free(option: str, value: str) -> bool:
    """Return True for generic resources that are no GPUs, which Koala does not count."""
    return option == "--gres" and bool(value) and "gpu" not in value
