"""A component while the directives of its batch script are read, and readers that several kinds of
directives share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from koala.core.model.job_spec import ComponentSpec
from koala.core.model.values import Seconds
from koala.errors import SpecError
from koala.job_descriptions.attribute_names import KNOWN
from koala.job_descriptions.evaluation import canonical_name
from koala.job_descriptions.fields import Given
from koala.job_descriptions.tree import Literal, Operator, Relation, Source

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
        """Change fields of the component."""
        self.component = replace(self.component, **changes)  # type: ignore[arg-type]


Reader = Callable[[Draft, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """The directives of a batch system in a script: lines that begin with `prefix`.

    `pairs` splits the words of a line into options and values. `readers` read the options that
    Koala honours, `refused` are those without which something else would run, with an alternative
    for the user, and `passed_on` become part of the component's `native`.
    """

    prefix: str
    pairs: Callable[[list[str]], Iterator[tuple[str, str]]]
    readers: Mapping[str, Reader]
    refused: Mapping[str, str]
    passed_on: frozenset[str] = frozenset()


def count(option: str, text: str) -> int:
    """Parse a whole number from 1. Raises SpecError."""
    if not text.isdigit() or int(text) < 1:
        raise SpecError(f"{option} {text}: allowed is a whole number from 1")
    return int(text)


def whole_minutes(seconds: Seconds) -> Seconds:
    """Round up to the whole minutes that RSL counts; a longer limit does no harm."""
    return 60.0 * max(1, math.ceil(seconds / 60))


def read_export(draft: Draft, text: str) -> None:
    """Read environment variables that the script is given. Raises SpecError."""
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            draft.environment[name] = value
        elif word not in ("ALL", "NONE", "NIL"):
            raise SpecError(
                f"{word}: no environment is taken along: allowed are NAME=VALUE, and ALL or NONE"
            )


def read_path(draft: Draft, name: str, text: str) -> None:
    """Set a file for output. A name with a pattern such as %j is left out: the output is kept in
    the job's logs."""
    if "%" in text or "$JOB_ID" in text:
        draft.warnings.append(
            f"{text} is left out: patterns are not replaced here; `koala logs` has the output"
        )
    else:
        draft.set(**{name: text})


def megabytes(option: str, text: str) -> int:
    """Parse a size of memory. Raises SpecError."""
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    if found is None:
        raise SpecError(f"{option} {text}: allowed is a size such as 500M or 4G")
    size = int(found[1]) * _KILOBYTES[found[2].upper()]
    return max(1, math.ceil(size / 1024))


_KILOBYTES = {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}


def wish(option: str, attribute: str) -> Reader:
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


def accept(_draft: Draft, _text: str) -> None:
    """Accept an option that needs no conversion."""


def gpus_of(draft: Draft) -> int | None:
    """Return the GPUs of all nodes, or of all tasks."""
    if draft.component.gpus is not None:
        return draft.component.gpus
    if draft.gpus_per_node is not None:
        return draft.gpus_per_node * (draft.nodes or 1)
    if draft.gpus_per_task is not None:
        return draft.gpus_per_task * _tasks_of(draft)
    return None


def memory_mb_of(draft: Draft, processors: int, gpus: int | None) -> int | None:
    """Return the memory that the script's process needs on each of its nodes."""
    if draft.memory_per_gpu_mb is not None:
        return draft.memory_per_gpu_mb * math.ceil((gpus or 1) / (draft.nodes or 1))
    if draft.memory_per_cpu_mb is None:
        return draft.memory_mb
    return draft.memory_per_cpu_mb * math.ceil(processors / (draft.nodes or 1))


def _tasks_of(draft: Draft) -> int:
    """Return the number of tasks; nodes alone count one task each."""
    if draft.tasks is not None:
        return draft.tasks
    return (draft.nodes or 1) * (draft.tasks_per_node or 1)


def processors_of(draft: Draft, gpus: int | None) -> int:
    """Return tasks times processors of each, or those for the GPUs."""
    tasks = _tasks_of(draft)
    if draft.cpus_per_gpu is not None and gpus is not None:
        draft.cpus_per_task = max(1, math.ceil(draft.cpus_per_gpu * gpus / tasks))
    return tasks * draft.cpus_per_task
