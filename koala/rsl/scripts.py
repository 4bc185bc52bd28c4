"""Batch scripts as components: converts `#SBATCH` and `#$` lines to RSL attributes.

A script keeps its meaning or is refused:

- Its text becomes the program: `executable` is the interpreter of its first line, the text its
  argument. So nothing has to be copied to the site.
- A directive that Koala cannot honour, and that changes what runs, is an error.
- A directive that only concerns the batch system itself (mail, comments) is a warning.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from koala.core.model.job import ComponentSpec, JobSpec, JobType
from koala.core.model.values import Seconds, SiteName
from koala.errors import Position, SpecError

SCRIPT_BYTES_MAX = 100_000
"""Limit on a script's size; one argument of a program may have slightly more on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A job made of scripts, and the warnings about skipped directives."""

    spec: JobSpec
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A component while its directives are read."""

    component: ComponentSpec
    tasks: int | None = None
    cpus_per_task: int = 1
    nodes: int | None = None
    tasks_per_node: int | None = None
    is_joined: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    memory_mb: int | None = None  # on each node
    memory_per_cpu_mb: int | None = None
    warnings: list[str] = field(default_factory=list)

    def set(self, **changes: object) -> None:
        self.component = replace(self.component, **changes)  # type: ignore[arg-type]


Reader = Callable[[_Draft, str], None]


def read_scripts(scripts: list[tuple[str, str, str]], *, owner: str = "") -> ScriptJob:
    """Read the job of scripts, each with its site, its name and its text. Raises SpecError with the
    name of the script and the place in it."""
    components: list[ComponentSpec] = []
    warnings: list[str] = []
    for site, name, text in scripts:
        try:
            component, told = read_script(text)
        except SpecError as error:
            raise SpecError(f"{name}: {error.message}", error.position) from error
        components.append(replace(component, site=SiteName(site) if site else None))
        warnings += [f"{name}: {warning}" for warning in told]
    components = _distinct(components)
    return ScriptJob(
        spec=JobSpec(components=tuple(components), owner=owner),  # type: ignore[arg-type]
        warnings=tuple(warnings),
    )


def read_script(text: str) -> tuple[ComponentSpec, list[str]]:
    """Read the component of one script, without a site, and its warnings. Raises SpecError."""
    if len(text.encode()) > SCRIPT_BYTES_MAX:
        raise SpecError(
            f"the script has {len(text.encode())} bytes: allowed are {SCRIPT_BYTES_MAX}"
        )
    if "\0" in text:
        raise SpecError("the script has a NUL character")
    interpreter = _interpreter(text)
    draft = _Draft(
        ComponentSpec(
            executable=interpreter[0],
            arguments=(*interpreter[1:], "-c", text),
            job_type=JobType.SINGLE,
        )
    )
    warnings: list[str] = []
    for position, option, value in _directives(text):
        known = READERS.get(option)
        try:
            if known is not None:
                known(draft, value)
            elif option in REFUSED:
                raise SpecError(f"{option}: {REFUSED[option]}")
            else:
                draft.warnings.append(f"{option} is left out")
        except SpecError as error:
            raise SpecError(error.message, position) from error
        warnings += [f"line {position.line}: {warning}" for warning in draft.warnings]
        draft.warnings.clear()
    processors = _processors(draft)
    draft.set(
        processors=processors,
        environment=tuple(sorted(draft.environment.items())),
        memory_min_mb=_memory_mb(draft, processors),
    )
    if draft.is_joined and draft.component.stdout:
        draft.set(stderr=draft.component.stdout)
    return draft.component, warnings


# The text ----------------------------------------------------------------------------------------

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")


def _interpreter(text: str) -> list[str]:
    """Return the words of the first line: a shell, because it must take the text by `-c`."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        raise SpecError(
            "the first line does not name an interpreter: allowed is, for instance, #!/bin/bash",
            Position(line=1, column=1, source=first),
        )
    words = first[2:].split()
    name = PurePosixPath(words[0]).name if words else ""
    if name == "env" and len(words) > 1:
        name = words[1]
    if name not in SHELLS:
        raise SpecError(
            f"interpreter {' '.join(words)!r}: allowed are {', '.join(SHELLS)}; let a shell script"
            " call the program",
            Position(line=1, column=3, source=first),
        )
    return words


def _directives(text: str) -> Iterator[tuple[Position, str, str]]:
    """List options and values, in order, up to the first line that is neither empty nor a comment,
    as both batch systems read them."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#PBS"):
            position = Position(line=number, column=1, source=line)
            raise SpecError("#PBS directives: allowed are #SBATCH and #$", position)
        for prefix, pairs in (("#SBATCH", _slurm_pairs), ("#$", _grid_engine_pairs)):
            if line.startswith(prefix) and line[len(prefix) : len(prefix) + 1] in (" ", "\t"):
                position = Position(line=number, column=1, source=line)
                try:
                    words = shlex.split(line[len(prefix) :], comments=True)
                    yield from ((position, option, value) for option, value in pairs(words))
                except (ValueError, SpecError) as error:
                    raise SpecError(getattr(error, "message", str(error)), position) from error
        if line.strip() and not line.startswith("#"):
            return


def _slurm_pairs(words: list[str]) -> Iterator[tuple[str, str]]:
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
        yield SLURM_LONG.get(option, option), value


def _grid_engine_pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(words):
        option = f"${words[at]}"
        if not words[at].startswith("-"):
            raise SpecError(f"{words[at]!r} is no option")
        at += 1
        count = 0 if option in FLAGS else 2 if option == "$-pe" else 1
        if at + count > len(words):
            raise SpecError(f"{option[1:]} needs {count} {'value' if count == 1 else 'values'}")
        yield option, " ".join(words[at : at + count])
        at += count


# What options mean -------------------------------------------------------------------------------

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
    "--exclusive": "processors are all that can be asked for; ask for those of whole nodes",
    "--gres": "GPUs cannot be asked for yet; lrm.options of the site's agent can",
    "--gpus": "GPUs cannot be asked for yet; lrm.options of the site's agent can",
    "--gpus-per-node": "GPUs cannot be asked for yet; lrm.options of the site's agent can",
    "--gpus-per-task": "GPUs cannot be asked for yet; lrm.options of the site's agent can",
    "--constraint": "the agent's lrm.options can name it for all claims of the site",
    "--nodelist": "nodes cannot be chosen",
    "--begin": "allowed is (deadline=...) in RSL",
    "$-a": "allowed is (deadline=...) in RSL",
    "--hold": "submit it when it may start",
    "-H": "submit it when it may start",
}
"""Options without which something else would run, and alternatives for the user."""


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


def _time(draft: _Draft, text: str) -> None:
    draft.set(wall_time_s=_whole_minutes(slurm_seconds(text)))


def _whole_minutes(seconds: Seconds) -> Seconds:
    """Round up to the whole minutes that RSL counts; a longer limit does no harm."""
    return 60.0 * max(1, math.ceil(seconds / 60))


def _nodes(draft: _Draft, text: str) -> None:
    if "-" in text:
        raise SpecError(f"--nodes {text}: allowed is one number of nodes")
    draft.nodes = _count("--nodes", text)
    draft.set(hosts=draft.nodes)


def _export(draft: _Draft, text: str) -> None:
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            draft.environment[name] = value
        elif word not in ("ALL", "NONE", "NIL"):
            raise SpecError(
                f"{word}: no environment is taken along: allowed are NAME=VALUE, and ALL or NONE"
            )


def _path(draft: _Draft, name: str, text: str) -> None:
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


def _memory(draft: _Draft, text: str) -> None:
    """Read memory of a node; 0 is all of it, which needs no number."""
    draft.memory_mb = None if text == "0" else _megabytes("--mem", text)


def _memory_per_cpu(draft: _Draft, text: str) -> None:
    draft.memory_per_cpu_mb = _megabytes("--mem-per-cpu", text)


def _memory_mb(draft: _Draft, processors: int) -> int | None:
    """Return the memory that the script's process needs on each of its nodes."""
    if draft.memory_per_cpu_mb is None:
        return draft.memory_mb
    return draft.memory_per_cpu_mb * math.ceil(processors / (draft.nodes or 1))


def _resources(draft: _Draft, text: str) -> None:
    """Read `-l h_rt=1:00:00,h_vmem=2G`."""
    for word in text.split(","):
        name, _, value = word.partition("=")
        if name in ("h_vmem", "s_vmem", "mem_free"):
            draft.memory_per_cpu_mb = _megabytes(f"-l {name}", value)
            continue
        if name not in ("h_rt", "s_rt"):
            raise SpecError(
                f"-l {word}: allowed are h_rt and h_vmem; the agent's lrm.options can ask for more"
            )
        numbers = value.split(":")
        if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise SpecError(f"-l {word}: allowed are seconds, or HH:MM:SS")
        seconds = 0
        for number in numbers:
            seconds = seconds * 60 + int(number)
        draft.set(wall_time_s=_whole_minutes(float(seconds)))


def _parallel(draft: _Draft, text: str) -> None:
    draft.tasks = _count("-pe", text.rsplit(maxsplit=1)[-1])


def _join(draft: _Draft, text: str) -> None:
    draft.is_joined = text[:1].lower() == "y"


def _shell(draft: _Draft, text: str) -> None:
    if PurePosixPath(text).name not in SHELLS:
        raise SpecError(f"-S {text}: allowed are {', '.join(SHELLS)}")
    draft.set(executable=text, arguments=draft.component.arguments[-2:])


def _accept(_draft: _Draft, _text: str) -> None:
    """Accept an option that needs no conversion."""


def _tasks(draft: _Draft, text: str) -> None:
    draft.tasks = _count("--ntasks", text)


def _cpus(draft: _Draft, text: str) -> None:
    draft.cpus_per_task = _count("--cpus-per-task", text)


def _per_node(draft: _Draft, text: str) -> None:
    draft.tasks_per_node = _count("--ntasks-per-node", text)


READERS: dict[str, Reader] = {
    "--ntasks": _tasks,
    "--nodes": _nodes,
    "--ntasks-per-node": _per_node,
    "--cpus-per-task": _cpus,
    "--mem": _memory,
    "--mem-per-cpu": _memory_per_cpu,
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


def _processors(draft: _Draft) -> int:
    """Return tasks times processors of each; nodes alone count one task each, as in Slurm."""
    tasks = draft.tasks
    if tasks is None:
        tasks = (draft.nodes or 1) * (draft.tasks_per_node or 1)
    return tasks * draft.cpus_per_task


def _distinct(components: list[ComponentSpec]) -> list[ComponentSpec]:
    """Make labels distinct: scripts of one name at several sites get the site's name as a suffix,
    and at one site a number."""
    by_label = Counter(component.label for component in components)
    by_place = Counter((component.label, component.site) for component in components)
    found: list[ComponentSpec] = []
    for index, component in enumerate(components):
        words = [component.label or ""]
        if by_label[component.label] > 1:
            words.append(component.site or "")
        if by_place[component.label, component.site] > 1:
            words.append(str(index))
        label = "-".join(word for word in words if word) if component.label else None
        found.append(replace(component, label=label))
    return found
