"""Job descriptions in Python: `Job` and `Component`, checked before anything is sent.

    job = Job(components=[Component(site="delft", executable="/bin/hostname", processors=4),
                          Component(site="vu", executable="/bin/hostname", processors=4)])
    job.check()                      # raises SpecError, naming every mistake
    await client.submit(job)

Fields are the attributes of docs/rsl.md under their plain names. Times are minutes, a text such as
"1h30m", or a timedelta; memory is in MB, or a text such as "4G". Numbers may be those of numpy. A
value of a wrong type is a SpecError at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from koala.errors import SpecError

Duration: TypeAlias = int | str | timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A program and the processors that it needs, on one site."""

    executable: str
    arguments: Sequence[str | float] = ()
    site: str | None = None  # None: any site
    label: str | None = None
    processors: int | None = None  # one, where no total is given
    hosts: int | None = None
    job_type: str | None = None
    directory: str | None = None
    environment: Mapping[str, str | float] | None = None
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    wall_time: Duration | None = None
    cpu_time: Duration | None = None
    memory: int | str | None = None  # for each process
    memory_max: int | str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    cpus_per_task: int | None = None
    tasks_per_node: int | None = None
    constraint: str | None = None
    licenses: str | Sequence[str] | Mapping[str, int] | None = None
    exclusive: bool | None = None
    queue: str | None = None  # or partition
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None  # that exists at the site
    native: str | None = None
    start_type: str | None = None
    output_files: Sequence[str] = ()
    sites: Sequence[str] = ()  # it runs at one of them
    outputs: Sequence[str] = ()  # patterns, such as "results/*.csv"
    stage: bool | Sequence[str] = ()  # files of this machine that go along; True: the executable
    rate: float | None = None
    ports: Mapping[str, int] | None = None  # at which its program listens, by name
    inputs: str | Sequence[str] | Mapping[str, int | str] | None = None  # beside the job's
    resize_signal: str | None = None  # USR1 or USR2, of a malleable job

    def __post_init__(self) -> None:
        _check_types(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Components that start together, and attributes of the whole job."""

    components: Sequence[Component]
    name: str | None = None
    group: str | None = None  # of users, for which it counts
    distinct: bool | None = None  # True: no two components at one site
    after: Sequence[str] = ()  # jobs that must have ended before: "j12", or "j12:any"
    notify: Mapping[str, str | Sequence[str]] | None = None  # {"mail": ..., "on": ["failure"]}
    priority: str | None = None
    input_files: str | Sequence[str] | Mapping[str, int | str] | None = None  # of all components
    input_mode: str | None = None
    deadline: datetime | str | None = None
    hint: str | Sequence[str | float] | None = None
    length: float | None = None
    mips: float | None = None
    max_hold: Duration | None = None
    total_processors: int | None = None  # of all components: the scheduler splits one over sites
    min_processors: int | None = None  # of each component of such a job
    max_processors: int | None = None
    max_components: int | None = None
    malleable: bool | None = None
    min_total_processors: int | None = None  # with which a malleable job can start
    quorum: int | None = None
    redundancy: int | None = None  # sites in whose queues a component waits
    retry: int | None = None
    rerun: bool | None = None
    progress: str | None = None
    asynchrony: float | None = None
    deviation: float | None = None
    connect: Sequence[Sequence[str | int]] = ()

    def __post_init__(self) -> None:
        _check_types(self)

    @property
    def text(self) -> str:
        """The job as a YAML description."""
        from koala.job_descriptions.document import VERSION, dump_document  # noqa: PLC0415 - late, for clients to start fast

        job = _attributes(self)
        job["components"] = [_attributes(component) for component in self.components]
        return dump_document({"version": int(VERSION), **job})

    def check(self) -> tuple[str, ...]:
        """Check the description and return its warnings. Raises SpecError with every mistake."""
        from koala.job_descriptions import read_job  # noqa: PLC0415

        try:
            warnings = read_job(self.text).warnings
        except SpecError as error:
            raise without_places(error, self.text) from None
        return tuple(without_place(warning, self.text) for warning in warnings)


PLACE = re.compile(r"line (\d+), column \d+: ")
"""Begin of a mistake that has a place in the text, and no more than its words."""
COMPONENTS = "components:"
"""Line of the text above the components, which come last."""


def without_place(message: str, text: str, line: int = 0) -> str:
    """Name the component in place of a line of a text that its author never saw."""
    if (found := PLACE.match(message)) is not None:
        message, line = message[found.end() :], int(found[1])
    above = text.splitlines()[:line]
    if COMPONENTS not in above:
        return message
    count = sum(line.startswith("- ") for line in above[above.index(COMPONENTS) :])
    return f"components[{count - 1}]: {message}"


def without_places(error: SpecError, text: str) -> SpecError:
    """Name components in place of lines in each mistake."""
    first, *others = [
        without_place(mistake.message, text, mistake.position.line if mistake.position else 0)
        for mistake in (error, *error.others)
    ]
    return SpecError(first, None, tuple(map(SpecError, others)))


def _check_types(described: Component | Job) -> None:
    """Check the type of each field. Raises SpecError with every mistake."""
    kind: type = type(described)
    hints = _hints(kind)
    wrong = []
    for field in fields(described):
        value, hint = getattr(described, field.name), hints[field.name]
        if not _fits(value, hint):
            expected = str(field.type).replace(" | None", "")
            wrong.append(SpecError(f"{field.name} = {value!r} (expected {expected})"))
    if wrong:
        raise SpecError(wrong[0].message, None, tuple(wrong[1:]))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401 - a type of the fields above
    """Test whether a value has a type."""
    parts = get_args(hint)
    match get_origin(hint):
        case origin if origin in (Union, UnionType):
            return any(_fits(value, part) for part in parts)
        case origin if origin is Mapping:
            return isinstance(value, Mapping) and all(
                _fits(name, parts[0]) and _fits(inner, parts[1]) for name, inner in value.items()
            )
        case origin if origin is Sequence:
            is_many = isinstance(value, Sequence) and not isinstance(value, str | bytes)
            return is_many and all(_fits(inner, parts[0]) for inner in value)  # type: ignore[attr-defined]
    if hint in (int, float):
        kind = Integral if hint is int else Real
        return isinstance(value, kind) and not isinstance(value, bool)
    return isinstance(value, NoneType if hint is None else hint)


def _attributes(described: Component | Job) -> dict[str, object]:
    """Return the attributes that are set, in the order of the fields."""
    attributes: dict[str, object] = {}
    for field in fields(described):
        value = getattr(described, field.name)
        if field.name != "components" and value is not None and not _is_empty(value):
            attributes[field.name] = _plain(value)
    return attributes


def _is_empty(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and not value


def _plain(value: object) -> object:
    match value:
        case bool():
            return "yes" if value else "no"
        case timedelta():
            return f"{round(value.total_seconds())}s"
        case datetime():
            return value.isoformat()
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case str():
            return value
        case Integral():
            return int(value)
        case Real():
            return f"{value:f}".rstrip("0").rstrip(".")
        case Sequence():
            return [_plain(inner) for inner in value]
        case _:
            return str(value)
