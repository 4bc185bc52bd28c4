"""`#SBATCH` directives of batch scripts, as components."""

from __future__ import annotations

import re
from collections.abc import Iterator

from koala.core.model.values import Seconds
from koala.errors import SpecError
from koala.job_descriptions.script_draft import (
    Directives,
    Draft,
    Reader,
    accept,
    count,
    megabytes,
    read_export,
    read_path,
    whole_minutes,
    wish,
)

LONG = {
    "-n": "--ntasks",
    "-N": "--nodes",
    "-c": "--cpus-per-task",
    "-t": "--time",
    "-J": "--job-name",
    "-o": "--output",
    "-e": "--error",
    "-D": "--chdir",
    "--workdir": "--chdir",
    "-p": "--partition",
    "-A": "--account",
    "-a": "--array",
    "-d": "--dependency",
    "-C": "--constraint",
    "-G": "--gpus",
    "-L": "--licenses",
    "-q": "--qos",
    "-m": "--distribution",
    "-w": "--nodelist",
    "-x": "--exclude",
}
FLAGS = {"--exclusive", "--requeue", "--no-requeue", "--parsable", "-H", "--hold"}
"""Options without a value. (`--exclusive=user` has one all the same.)"""

REFUSED = {
    "--array": "a component is one program; submit a job for each member of an array",
    "--dependency": "submit it with koala submit --after JOB",
    "--gpus-per-socket": "allowed are --gpus, --gpus-per-node and --gpus-per-task",
    "--nodelist": "nodes cannot be chosen",
    "--begin": "allowed is (deadline=...) in RSL",
    "--hold": "submit it when it may start",
    "-H": "submit it when it may start",
}
"""Options without which something else would run, and alternatives for the user."""

PASSED_ON = frozenset(
    {
        *("--comment", "--cores-per-socket", "--distribution", "--exclude", "--gpu-bind", "--hint"),
        *("--gpu-freq", "--mem-bind", "--nice", "--ntasks-per-core", "--ntasks-per-socket"),
        *("--reservation", "--sockets-per-node", "--switches", "--threads-per-core", "--tmp"),
    }
)
"""Options that become part of the component's `native`."""


def slurm_seconds(text: str) -> Seconds:
    """Parse Slurm's times: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS. Raises SpecError."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if found is None:
        raise SpecError(
            f"--time {text}: allowed are MINUTES, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS"
        )
    days, *rest = found.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return float(((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds)
    if len(numbers) == 3:
        return float((numbers[0] * 60 + numbers[1]) * 60 + numbers[2])
    minutes, seconds = (*numbers, 0)[:2]
    return float(minutes * 60 + seconds)


def _time(draft: Draft, text: str) -> None:
    draft.set(wall_time_s=whole_minutes(slurm_seconds(text)))


def _nodes(draft: Draft, text: str) -> None:
    if "-" in text:
        raise SpecError(f"--nodes {text}: allowed is one number of nodes")
    draft.nodes = count("--nodes", text)
    draft.set(hosts=draft.nodes)


def _memory(draft: Draft, text: str) -> None:
    """Read memory of a node; 0 is all of it, which needs no number."""
    draft.memory_mb = None if text == "0" else megabytes("--mem", text)


def _memory_per_cpu(draft: Draft, text: str) -> None:
    draft.memory_per_cpu_mb = megabytes("--mem-per-cpu", text)


def _memory_per_gpu(draft: Draft, text: str) -> None:
    draft.memory_per_gpu_mb = megabytes("--mem-per-gpu", text)


def _gres(draft: Draft, text: str) -> None:
    """Read `gpu`, `gpu:2` or `gpu:a100:2`, for each node."""
    for word in text.split(","):
        found = re.fullmatch(r"gpu(?::([A-Za-z][\w.-]*))?(?::([1-9]\d{0,5}))?(?:\(\S*\))?", word)
        if found is None and word not in ("none", "gpu:0"):
            raise SpecError(f"--gres {word}: allowed are GPUs, as in gpu:2 or gpu:a100:2")
        if found is not None:
            draft.gpus_per_node = int(found[2] or 1)
            draft.set(gpu_type=found[1])


def _typed_gpus(draft: Draft, option: str, text: str) -> int:
    """Read NUMBER or TYPE:NUMBER."""
    kind, _, number = text.rpartition(":")
    if kind:
        draft.set(gpu_type=kind)
    return count(option, number)


def _all_gpus(draft: Draft, text: str) -> None:
    draft.set(gpus=_typed_gpus(draft, "--gpus", text))


def _node_gpus(draft: Draft, text: str) -> None:
    draft.gpus_per_node = _typed_gpus(draft, "--gpus-per-node", text)


def _task_gpus(draft: Draft, text: str) -> None:
    draft.gpus_per_task = _typed_gpus(draft, "--gpus-per-task", text)


def _gpu_cpus(draft: Draft, text: str) -> None:
    draft.cpus_per_gpu = count("--cpus-per-gpu", text)


def _exclusive(draft: Draft, text: str) -> None:
    draft.set(is_exclusive=True)
    if text:
        draft.warnings.append(f"--exclusive={text} is read as --exclusive: the whole nodes")


def _tasks(draft: Draft, text: str) -> None:
    draft.tasks = count("--ntasks", text)


def _cpus(draft: Draft, text: str) -> None:
    draft.cpus_per_task = count("--cpus-per-task", text)


def _per_node(draft: Draft, text: str) -> None:
    draft.tasks_per_node = count("--ntasks-per-node", text)


READERS: dict[str, Reader] = {
    "--ntasks": _tasks,
    "--nodes": _nodes,
    "--ntasks-per-node": _per_node,
    "--cpus-per-task": _cpus,
    "--mem": _memory,
    "--mem-per-cpu": _memory_per_cpu,
    "--mem-per-gpu": _memory_per_gpu,
    "--gpus": _all_gpus,
    "--gpus-per-node": _node_gpus,
    "--gpus-per-task": _task_gpus,
    "--cpus-per-gpu": _gpu_cpus,
    "--gres": _gres,
    "--constraint": wish("--constraint", "constraint"),
    "--licenses": wish("--licenses", "licenses"),
    "--qos": wish("--qos", "qos"),
    "--exclusive": _exclusive,
    "--time": _time,
    "--job-name": lambda draft, text: draft.set(label=text),
    "--output": lambda draft, text: read_path(draft, "stdout", text),
    "--error": lambda draft, text: read_path(draft, "stderr", text),
    "--chdir": lambda draft, text: draft.set(directory=text),
    "--partition": lambda draft, text: draft.set(queue=text),
    "--account": lambda draft, text: draft.set(project=text),
    "--export": read_export,
    "--no-requeue": accept,
    "--parsable": accept,
}
"""Options that are honoured."""


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            if not equals and option not in FLAGS and at < len(words):
                value, at = words[at], at + 1
        elif word.startswith("-") and len(word) >= 2:
            option, value = word[:2], word[2:]
            if not value and option not in FLAGS and at < len(words):
                value, at = words[at], at + 1
        else:
            raise SpecError(f"{word!r} is no option")
        yield LONG.get(option, option), value


SBATCH = Directives(
    prefix="#SBATCH", pairs=_pairs, readers=READERS, refused=REFUSED, passed_on=PASSED_ON
)
