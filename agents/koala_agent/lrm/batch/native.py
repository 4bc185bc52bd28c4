"""Options of jobs for the batch system that no attribute covers (`native`), and what is refused.

What Koala sets itself, or counts, is refused at every site: the name of a job, its size, its time
limit, where its output goes, GPUs. Of the rest a site takes all (`*`), or those that its
administrator lists.
"""

from __future__ import annotations

import re
import shlex

from koala_agent.lrm.local_manager import RequestRefusedError

EVERY = "*"

VALUE = re.compile(r"[^$]*[^$\\]")
"""Value of a submit command. After a backslash at its end the next line would belong to it."""

SLURM_OWN = (
    *("account", "array", "begin", "batch", "chdir", "cluster-constraint", "clusters"),
    *("constraint", "cpus-per-gpu", "cpus-per-task", "deadline", "dependency", "error"),
    *("exclusive", "export", "export-file", "get-user-env", "gid", "gpus", "gpus-per-node"),
    *("gpus-per-socket", "gpus-per-task", "gres", "help", "hold", "ignore-pbs", "input"),
    *("job-name", "kill-on-invalid-dep", "licenses", "mem", "mem-per-cpu", "mem-per-gpu"),
    *("no-requeue", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "overcommit"),
    *("parsable", "partition", "qos", "quiet", "requeue", "signal", "test-only", "time"),
    *("time-min", "tres-per-node", "tres-per-task", "uid", "usage", "verbose", "version"),
    *("wait", "wait-all-nodes", "wrap"),
)
"""Options of `sbatch` that Koala sets or counts, or that would change how its batch job runs."""

GRID_ENGINE_OPTIONS = (
    *("-l", "-p", "-R", "-A", "-ac", "-ar", "-js", "-jc", "-ckpt", "-masterq", "-binding", "-m"),
    *("-M", "-mods"),
)
"""Options of `qsub` that jobs may give, each with one value. Any other word could be a script."""
GRID_ENGINE_OWN = ("h_rt", "s_rt")
"""Resources of `-l` that Koala sets."""

PBS_OPTIONS = ("-l", "-p", "-m", "-M")
"""Options of `qsub` of PBS that jobs may give, each with one value. `-J` would make an array."""
PBS_OWN = (
    *("select", "place", "walltime", "min_walltime", "max_walltime", "ncpus", "ngpus", "nodes"),
    *("nodect", "mem", "mpiprocs"),
)
"""Resources of `-l` that Koala sets."""

OAR_OPTIONS = ("-p", "-a")
"""Options of `oarsub` that jobs may give, each with one value. `-t` could start a job twice."""

CONDOR_OWN = (
    *("accounting_group", "allowed_", "arguments", "batch_name", "concurrency_limits", "container"),
    *("cron_", "deferral_", "docker_", "elif", "else", "endif", "env", "error", "executable"),
    *("getenv", "hold", "if", "include", "initial", "input", "job_lease", "job_max_vacate"),
    *("keep_claim_idle", "kill_sig", "koalaclaim", "leave_in_queue", "log", "machine_count"),
    *("max_idle", "max_materialize", "max_retries", "next_job_start", "noop_job", "notif"),
    *("on_exit", "output", "periodic_", "preserve_relative", "queue", "remove_kill", "request_"),
    *("require", "retry_", "should_transfer", "stream_", "success_exit", "transfer_", "universe"),
    *("use", "want_graceful", "warning", "when_to_transfer"),
    *("acct", "args", "clusterid", "cmd", "err", "iwd", "job_status", "job_universe"),
    *("leave_job_in_queue", "num_job", "num_shadow", "num_system"),
    *("out", "owner", "procid", "remote_iwd", "stage_in"),
)
"""Beginnings of submit commands that Koala sets or counts, or that would change how its batch job
runs, and of the attributes that they become; also without `_`, as attributes are called."""


def slurm_options(text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's options for `sbatch`. Raises RequestRefusedError."""
    words = _words(text)
    for word in words:
        name = word.partition("=")[0]
        if not re.fullmatch(r"--[a-z][a-z0-9-]*", name):
            _refuse(word, "long options with their value, as in --reservation=course")
        if any(own.startswith(name[2:]) for own in SLURM_OWN):  # sbatch takes beginnings of names
            _refuse(word, "options that Koala neither sets nor counts (docs: attributes of jobs)")
        _check_allowed(name, allowed)
    return words


def grid_engine_options(text: str, allowed: tuple[str, ...], counted: str) -> list[str]:
    """Return a job's options for `qsub`; the resource `counted` is Koala's. Raises
    RequestRefusedError."""
    own = (*GRID_ENGINE_OWN, counted)
    return _pairs(text, allowed, options=GRID_ENGINE_OPTIONS, own=own, signed="-p")


def pbs_options(text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's options for `qsub` of PBS. Raises RequestRefusedError."""
    return _pairs(text, allowed, options=PBS_OPTIONS, own=PBS_OWN, signed="-p")


def oar_options(text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's options for `oarsub`. Raises RequestRefusedError."""
    return _pairs(text, allowed, options=OAR_OPTIONS, own=(), signed="")


def _pairs(
    text: str,
    allowed: tuple[str, ...],
    *,
    options: tuple[str, ...],
    own: tuple[str, ...],
    signed: str,
) -> list[str]:
    """Check `options` with one value each; that of `signed` may be negative, and the resources
    `own` are no values of `-l`. Raises RequestRefusedError."""
    words = _words(text)
    for option, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if option not in options:
            _refuse(option, f"{', '.join(options)}, each with one value")
        if not value or (value.startswith("-") and option != signed):
            _refuse(option, "a value after it")
        resources = [part.partition("=")[0] for part in value.split(",")]
        if option == "-l" and any(name in own for name in resources):
            _refuse(f"-l {value}", f"resources but {', '.join(own)}, which Koala sets")
        _check_allowed(option, allowed)
    return words


def condor_commands(text: str, allowed: tuple[str, ...]) -> list[str]:
    """Return a job's commands for `condor_submit`, as `NAME=VALUE`. Raises RequestRefusedError."""
    words = _words(text)
    for word in words:
        name, _, value = word.partition("=")
        if (
            not re.fullmatch(r"\+?[A-Za-z][A-Za-z0-9_]*", name)
            or not value
            or not VALUE.fullmatch(value)
        ):
            form = "submit commands with their value, no $, and no \\ at the end"
            _refuse(word, f"{form}, as in +WantFlocking=True")
        plain = name.lower().lstrip("+")
        own = (*CONDOR_OWN, *(word.replace("_", "") for word in CONDOR_OWN))
        if plain.startswith(own):
            _refuse(word, "commands that Koala neither sets nor counts (docs: attributes of jobs)")
        _check_allowed(name, allowed)
    return words


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or not text.isprintable():
        _refuse(text, "options on one line")
    return words


def _check_allowed(name: str, allowed: tuple[str, ...]) -> None:
    if EVERY not in allowed and name not in allowed:
        some = ", ".join(allowed) or "none at this site"
        _refuse(name, f"{some} (lrm.native of its agent)")


def _refuse(word: str, allowed: str) -> None:
    message = f"native: {word[:80]!r} is refused: allowed are {allowed}"
    raise RequestRefusedError(message)
