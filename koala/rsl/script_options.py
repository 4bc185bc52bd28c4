"""Options of batch scripts: what each `#SBATCH` and `#$` directive makes of a component."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec
from koala.core.model.values import Seconds
from koala.errors import SpecError
from koala.rsl.attribute_names import KNOWN
from koala.rsl.evaluation import canonical_name
from koala.rsl.fields import Given
from koala.rsl.tree import Literal, Operator, Relation, Source

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")


@dataclass(slots=True)
class Draft:
    """A component while its directives are read."""

    component: ComponentSpec
    tasks: int | None = None
    cpus_per_task: int = 1
    nodes: int | None = None
    tasks_per_node: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    memory_per_gpu_mb: int | None = None
    native: list[str] = field(default_factory=list)
    is_joined: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    memory_mb: int | None = None  # on each node
    memory_per_cpu_mb: int | None = None
    warnings: list[str] = field(default_factory=list)

    def set(self, **changes: object) -> None:
        self.component = replace(self.component, **changes)  # type: ignore[arg-type]


Reader = Callable[[Draft, str], None]


# Options and their readers -----------------------------------------------------------------------

SLURM_LONG = {
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
FLAGS = {
    "--exclusive",
    "--requeue",
    "--no-requeue",
    "--parsable",
    "-H",
    "--hold",
    "$-cwd",
    "$-V",
    "$-notify",
}
"""Options without a value. (`--exclusive=user` has one all the same.)"""

REFUSED = {
    "--array": "a component is one program; submit a job for each member of an array",
    "$-t": "a component is one program; submit a job for each member of an array",
    "--dependency": "submit it with koala submit --after JOB",
    "$-hold_jid": "submit it with koala submit --after JOB:any",
    "--gpus-per-socket": "allowed are --gpus, --gpus-per-node and --gpus-per-task",
    "--nodelist": "nodes cannot be chosen",
    "--begin": "allowed is (deadline=...) in RSL",
    "$-a": "allowed is (deadline=...) in RSL",
    "--hold": "submit it when it may start",
    "-H": "submit it when it may start",
}
"""Options without which something else would run, and alternatives for the user."""


PASSED_ON = {
    *("--comment", "--cores-per-socket", "--distribution", "--exclude", "--gpu-bind", "--hint"),
    *("--gpu-freq", "--mem-bind", "--nice", "--ntasks-per-core", "--ntasks-per-socket"),
    *("--reservation", "--sockets-per-node", "--switches", "--threads-per-core", "--tmp"),
}
"""Options of Slurm that become part of the component's `native`."""


def _count(option: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise SpecError(f"{option} {text}: allowed is a whole number from 1")
    return int(text)


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
    draft.set(wall_time_s=_whole_minutes(slurm_seconds(text)))


def _whole_minutes(seconds: Seconds) -> Seconds:
    """Round up to the whole minutes that RSL counts; a longer limit does no harm."""
    return 60.0 * max(1, math.ceil(seconds / 60))


def _nodes(draft: Draft, text: str) -> None:
    if "-" in text:
        raise SpecError(f"--nodes {text}: allowed is one number of nodes")
    draft.nodes = _count("--nodes", text)
    draft.set(hosts=draft.nodes)


def _export(draft: Draft, text: str) -> None:
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            draft.environment[name] = value
        elif word not in ("ALL", "NONE", "NIL"):
            raise SpecError(
                f"{word}: no environment is taken along: allowed are NAME=VALUE, and ALL or NONE"
            )


def _path(draft: Draft, name: str, text: str) -> None:
    """Set a file for output. A name with a pattern such as %j is left out: the output is kept in
    the job's logs."""
    if "%" in text or "$JOB_ID" in text:
        draft.warnings.append(
            f"{text} is left out: patterns are not replaced here; `koala logs` has the output"
        )
    else:
        draft.set(**{name: text})


def _megabytes(option: str, text: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    if found is None:
        raise SpecError(f"{option} {text}: allowed is a size such as 500M or 4G")
    size = int(found[1]) * _KILOBYTES[found[2].upper()]
    return max(1, math.ceil(size / 1024))


_KILOBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}


def _memory(draft: Draft, text: str) -> None:
    """Read memory of a node; 0 is all of it, which needs no number."""
    draft.memory_mb = None if text == "0" else _megabytes("--mem", text)


def _memory_per_cpu(draft: Draft, text: str) -> None:
    draft.memory_per_cpu_mb = _megabytes("--mem-per-cpu", text)


def _memory_per_gpu(draft: Draft, text: str) -> None:
    draft.memory_per_gpu_mb = _megabytes("--mem-per-gpu", text)


def memory_mb_of(draft: Draft, processors: int, gpus: int | None) -> int | None:
    """Return the memory that the script's process needs on each of its nodes."""
    if draft.memory_per_gpu_mb is not None:
        return draft.memory_per_gpu_mb * math.ceil((gpus or 1) / (draft.nodes or 1))
    if draft.memory_per_cpu_mb is None:
        return draft.memory_mb
    return draft.memory_per_cpu_mb * math.ceil(processors / (draft.nodes or 1))


def _resources(draft: Draft, text: str) -> None:
    """Read `-l h_rt=1:00:00,h_vmem=2G`."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name in ("h_vmem", "s_vmem", "mem_free"):
            draft.memory_per_cpu_mb = _megabytes(f"-l {name}", value)
            continue
        if name not in ("h_rt", "s_rt"):
            _complex(draft, name, value)
            continue
        numbers = value.split(":")
        if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise SpecError(f"-l {word}: allowed are seconds, or HH:MM:SS")
        seconds = 0
        for number in numbers:
            seconds = seconds * 60 + int(number)
        draft.set(wall_time_s=_whole_minutes(float(seconds)))


def _complex(draft: Draft, name: str, value: str) -> None:
    """Read any other resource of `-l`: GPUs, whole hosts, features, else one for `native`."""
    is_flag = value.lower() in ("", "true", "1")
    if name in ("gpu", "gpus", "ngpus"):
        draft.set(gpus=_count(f"-l {name}", value or "1"))
    elif name in ("exclusive", "excl") and is_flag:
        draft.set(is_exclusive=True)
    elif re.fullmatch(r"[A-Za-z_]\w*", name) and value.lower() in ("", "true"):
        known = draft.component.constraint
        draft.set(constraint=f"{known}&{name}" if known else name)
    else:
        draft.native += ["-l", f"{name}={value}" if value else name]


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
    return _count(option, number)


def _all_gpus(draft: Draft, text: str) -> None:
    draft.set(gpus=_typed_gpus(draft, "--gpus", text))


def _node_gpus(draft: Draft, text: str) -> None:
    draft.gpus_per_node = _typed_gpus(draft, "--gpus-per-node", text)


def _task_gpus(draft: Draft, text: str) -> None:
    draft.gpus_per_task = _typed_gpus(draft, "--gpus-per-task", text)


def _gpu_cpus(draft: Draft, text: str) -> None:
    draft.cpus_per_gpu = _count("--cpus-per-gpu", text)


def gpus_of(draft: Draft) -> int | None:
    """Return the GPUs of all nodes, or of all tasks."""
    if draft.component.gpus is not None:
        return draft.component.gpus
    if draft.gpus_per_node is not None:
        return draft.gpus_per_node * (draft.nodes or 1)
    if draft.gpus_per_task is not None:
        return draft.gpus_per_task * _tasks_of(draft)
    return None


def _exclusive(draft: Draft, text: str) -> None:
    draft.set(is_exclusive=True)
    if text:
        draft.warnings.append(f"--exclusive={text} is read as --exclusive: the whole nodes")


def _wish(option: str, attribute: str) -> Reader:
    """Make the reader of an option that is an attribute of RSL."""
    row = KNOWN[canonical_name(attribute)]

    def read(draft: Draft, text: str) -> None:
        source = Source(text=text)
        relation = Relation(
            attribute=option, operator=Operator.EQ, values=(Literal(text=text, offset=0),), offset=0
        )
        assert row.read is not None
        draft.set(**{row.field: row.read(Given(relation=relation, source=source))})

    return read


def _parallel(draft: Draft, text: str) -> None:
    draft.tasks = _count("-pe", text.rsplit(maxsplit=1)[-1])


def _join(draft: Draft, text: str) -> None:
    draft.is_joined = text[:1].lower() == "y"


def _shell(draft: Draft, text: str) -> None:
    if PurePosixPath(text).name not in SHELLS:
        raise SpecError(f"-S {text}: allowed are {', '.join(SHELLS)}")
    draft.set(executable=text, arguments=draft.component.arguments[-2:])


def _accept(_draft: Draft, _text: str) -> None:
    """Accept an option that needs no conversion."""


def _tasks(draft: Draft, text: str) -> None:
    draft.tasks = _count("--ntasks", text)


def _cpus(draft: Draft, text: str) -> None:
    draft.cpus_per_task = _count("--cpus-per-task", text)


def _per_node(draft: Draft, text: str) -> None:
    draft.tasks_per_node = _count("--ntasks-per-node", text)


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
    "--constraint": _wish("--constraint", "constraint"),
    "--licenses": _wish("--licenses", "licenses"),
    "--qos": _wish("--qos", "qos"),
    "--exclusive": _exclusive,
    "--time": _time,
    "--job-name": lambda draft, text: draft.set(label=text),
    "--output": lambda draft, text: _path(draft, "stdout", text),
    "--error": lambda draft, text: _path(draft, "stderr", text),
    "--chdir": lambda draft, text: draft.set(directory=text),
    "--partition": lambda draft, text: draft.set(queue=text),
    "--account": lambda draft, text: draft.set(project=text),
    "--export": _export,
    "--no-requeue": _accept,
    "--parsable": _accept,
    "$-pe": _parallel,
    "$-l": _resources,
    "$-N": lambda draft, text: draft.set(label=text),
    "$-o": lambda draft, text: _path(draft, "stdout", text),
    "$-e": lambda draft, text: _path(draft, "stderr", text),
    "$-j": _join,
    "$-wd": lambda draft, text: draft.set(directory=text),
    "$-q": lambda draft, text: draft.set(queue=text),
    "$-P": lambda draft, text: draft.set(project=text),
    "$-v": _export,
    "$-S": _shell,
    "$-notify": _accept,
    "$-r": _accept,
}
"""Honoured options; Grid Engine's have a `$` before them."""


def _tasks_of(draft: Draft) -> int:
    """Return the number of tasks; nodes alone count one task each, as in Slurm."""
    if draft.tasks is not None:
        return draft.tasks
    return (draft.nodes or 1) * (draft.tasks_per_node or 1)


def processors_of(draft: Draft, gpus: int | None) -> int:
    """Return tasks times processors of each, or those for the GPUs."""
    tasks = _tasks_of(draft)
    if draft.cpus_per_gpu is not None and gpus is not None:
        draft.cpus_per_task = max(1, math.ceil(draft.cpus_per_gpu * gpus / tasks))
    return tasks * draft.cpus_per_task
