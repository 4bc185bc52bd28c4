"""A component while the directives of its batch script are read, and readers that several kinds of
directives share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec
from koala.core.model.values import Seconds
from koala.errors import Position, SpecError
from koala.job_descriptions.attribute_names import KNOWN
from koala.job_descriptions.evaluation import canonical_name
from koala.job_descriptions.fields import AttributeText
from koala.job_descriptions.tree import Literal, Operator, Relation, Sequence, Source

PROGRAM_OPTIONS = {
    **dict.fromkeys(("sh", "bash", "dash", "ksh", "zsh"), "-c"),
    **dict.fromkeys(("python", "python3"), "-c"),
    "perl": "-e",
}
"""Interpreters that take a program's text as an argument, and the option for it."""


BEGINNING = Position(line=1, column=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSite:
    """Knowledge of a site for which a script is read; by default none.

    `system` is its batch system, as people call it; empty for a site without one. `takes_native`:
    jobs may pass options on to it.
    """

    name: str = ""
    system: str | None = None
    takes_native: bool = True


@dataclass(slots=True)
class Draft:
    """A component while its directives are read.

    `native` are options of the batch system that the program needs. `shape` are those that say more
    exactly what attributes say, too: they count at a site of the script's own kind alone. There
    memory needs no attribute if it `is_memory_native`.
    """

    component: ComponentSpec
    tasks: int | None = None
    cpus_per_task: int = 1
    nodes: int | None = None
    tasks_per_node: int | None = None
    tasks_per_gpu: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    memory_per_gpu_mb: int | None = None
    native: list[str] = field(default_factory=list)
    shape: list[str] = field(default_factory=list)
    parallel: list[str] = field(default_factory=list)
    limits: dict[str, Seconds | None] = field(default_factory=dict)
    is_joined: bool = False
    soft_line: int = 0
    sized_at: Position | None = None
    output: tuple[str, Position] | None = None
    error: tuple[str, Position] | None = None
    at: Position = BEGINNING
    environment: dict[str, str] = field(default_factory=dict)
    is_memory_native: bool = False
    memory_mb: int | None = None  # on each node
    memory_per_cpu_mb: int | None = None
    warnings: list[str] = field(default_factory=list)

    def set(self, **changes: object) -> None:
        """Change fields of the component."""
        self.component = replace(self.component, **changes)  # type: ignore[arg-type]

    def warn(self, message: str, at: Position | None = None) -> None:
        """Note a warning about the option that is being read, or about another place."""
        at = at or self.at
        self.warnings.append(f"line {at.line}, column {at.column}: {message}")


Reader = Callable[[Draft, str], None]


def whole(option: str, text: str) -> int:
    """Parse a whole number from 1, as batch systems do. Raises SpecError."""
    if re.fullmatch(r"\s*\+?0*[1-9][0-9]{0,9}", text, re.ASCII) is None:
        place = f"{option}: " if option else ""
        raise SpecError(f"{place}invalid number {text!r} (expected a whole number from 1)")
    return int(text)


def number(option: str, name: str) -> Reader:
    """Make the reader of a whole number from 1, which becomes a field of the draft."""
    return lambda draft, text: setattr(draft, name, whole(option, text))


def whole_minutes(seconds: Seconds) -> Seconds:
    """Round up to the whole minutes that RSL counts; a longer limit does no harm."""
    return 60.0 * max(1, math.ceil(seconds / 60))


def wish(option: str, attribute: str) -> Reader:
    """Make the reader of an option that is an attribute of RSL; without a value it says nothing."""

    def read(draft: Draft, text: str) -> None:
        if text:
            put(draft, option, attribute, Literal(text=text, offset=0), text)

    return read


def put(draft: Draft, option: str, attribute: str, value: Literal | Sequence, text: str) -> None:
    """Set an attribute to a value, as if it stood in RSL. Raises SpecError."""
    row = KNOWN[canonical_name(attribute)]
    relation = Relation(attribute=option, operator=Operator.EQ, values=(value,), offset=0)
    assert row.read is not None
    draft.set(**{row.field: row.read(AttributeText(relation=relation, source=Source(text=text)))})


def output_file(name: str, path: Callable[[str], str] = str) -> Reader:
    """Make the reader of a file for output, `output` or `error`; `path` finds it in the value."""
    return lambda draft, text: setattr(draft, name, (path(text), draft.at))


def read_shell(draft: Draft, text: str) -> None:
    """Read the interpreter of the script, which is its last argument. Raises SpecError."""
    option = PROGRAM_OPTIONS.get(PurePosixPath(text).name)
    if option is None:
        raise SpecError(f"-S {text} (expected one of {', '.join(PROGRAM_OPTIONS)})")
    draft.set(executable=text, arguments=(option, draft.component.arguments[-1]))


def read_export(draft: Draft, text: str) -> None:
    """Read environment variables that the script is given. Raises SpecError."""
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            pair = (Literal(text=name, offset=0), Literal(text=value, offset=0))
            put(draft, "environment", "environment", Sequence(values=pair, offset=0), text)
            draft.environment[name] = value
        elif word == "NONE":
            draft.warn("NONE is left out: the program gets the environment of the site's agent")
        elif word not in ("ALL", "NIL", ""):
            raise SpecError(
                f"{word}: no environment is taken along (expected NAME=VALUE, ALL or NONE)"
            )


def megabytes(option: str, text: str) -> int:
    """Parse a size of memory; a number alone counts megabytes. Raises SpecError."""
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise SpecError(f"{option} {text} (expected a size such as 500M or 4G)")
    size = int(match[1]) * _KILOBYTES[match[2].upper()]
    return max(1, math.ceil(size / 1024))


_KILOBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}


def login_shell(draft: Draft, _text: str) -> None:
    """Make the script's shell a login shell."""
    draft.set(arguments=("-l", *draft.component.arguments))


def set_paths(draft: Draft, replaced: re.Pattern[str], job: str) -> None:
    """Set the files for output. `replaced` finds what the batch system replaces in their names; all
    but the name of the `job` is known at the site alone, and such a file is left out."""
    known = {"%x": job, "$JOB_NAME": job, "%%": "%"} if job else {"%%": "%"}
    for attribute, named in (("stdout", draft.output), ("stderr", draft.error)):
        if named is None:
            continue
        text, position = named
        unknown = [match[0] for match in replaced.finditer(text) if match[0] not in known]
        if unknown or text.endswith("/"):
            why = f"{unknown[0]} is not replaced here" if unknown else "it is a folder"
            draft.warn(f"{text} is left out: {why}; `koala logs` has the output", position)
            continue
        try:
            wish(attribute, attribute)(draft, replaced.sub(lambda match: known[match[0]], text))
        except SpecError as error:
            raise SpecError(error.message, position) from error
    if draft.is_joined:
        draft.set(stderr=draft.component.stdout)


def gpus_of(draft: Draft) -> int | None:
    """Return the GPUs of all nodes, or of all tasks."""
    if draft.component.gpus is not None:
        return draft.component.gpus
    if draft.gpus_per_node is not None:
        return draft.gpus_per_node * (draft.nodes or 1)
    if draft.gpus_per_task is not None:
        return draft.gpus_per_task * tasks_of(draft)
    if draft.tasks_per_gpu is not None and draft.tasks is not None:
        return math.ceil(draft.tasks / draft.tasks_per_gpu)
    return None


def memory_mb_of(draft: Draft, processors: int, gpus: int | None, *, is_spread: bool) -> int | None:
    """Return the memory that the script's process needs on each of its nodes. `is_spread`: a site
    may spread a job without a number of nodes, and a node needs the share of a task."""
    if draft.memory_per_gpu_mb is not None:
        each, count, least = draft.memory_per_gpu_mb, gpus or 1, 1
    elif draft.memory_per_cpu_mb is not None:
        each, count, least = draft.memory_per_cpu_mb, processors, draft.cpus_per_task
    else:
        return draft.memory_mb
    nodes = draft.nodes or (math.ceil(count / least) if is_spread else 1)
    return each * math.ceil(count / nodes)


def tasks_of(draft: Draft) -> int:
    """Return the number of tasks; nodes alone count one task each."""
    if draft.tasks is not None:
        return draft.tasks
    gpus = draft.component.gpus
    if draft.tasks_per_node is not None:
        return (draft.nodes or 1) * draft.tasks_per_node
    if gpus and draft.tasks_per_gpu:
        return gpus * draft.tasks_per_gpu
    if gpus and draft.gpus_per_task:
        return max(1, gpus // draft.gpus_per_task)
    return draft.nodes or 1


def processors_of(draft: Draft, gpus: int | None) -> int:
    """Return tasks times processors of each, or those for the GPUs."""
    tasks = tasks_of(draft)
    if draft.cpus_per_gpu is not None and gpus:
        draft.cpus_per_task = max(1, math.ceil(draft.cpus_per_gpu * gpus / tasks))
    return tasks * draft.cpus_per_task
