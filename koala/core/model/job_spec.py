"""The request for a job (JobSpec): what to run, in which components, and with which wishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter

from koala.common.protocol import messages
from koala.core.model.predecessors import Predecessor
from koala.core.model.values import (
    FileName,
    Inputs,
    Instant,
    Priority,
    Seconds,
    SiteName,
    TcpPath,
    UserName,
)

JobType = messages.JobType


class StartType(StrEnum):
    """Role of a component in the start barrier (DUROC's subjobStartType)."""

    STRICT = "strict-barrier"
    LOOSE = "loose-barrier"
    NONE = "no-barrier"


class InputMode(StrEnum):
    """Part of the input file that each component gets: the whole or its chunk (KOALA 2.3)."""

    WHOLE = "whole"
    CHUNK = "chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """An input file of a job (KOALA 2.3); the size is used for a file that the catalogue does not
    know.
    """

    name: FileName
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Required start: an instant (epoch seconds) or seconds from submission; exactly one is
    given.
    """

    at: Instant | None = None
    after_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """The resource that matters (`cpu` or `io`) and the acceptable deviation of its rate, 0 to 1
    (Hints 3.4).
    """

    kind: str
    deviation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSpec(messages.ProgramSpec):
    """A component: processors and the program to start on them. Times in seconds, memory in MB."""

    processors: int = 1
    site: SiteName | None = None
    sites: tuple[SiteName, ...] = ()  # one of them; empty: any
    label: str | None = None
    start_type: StartType = StartType.STRICT
    rate: float | None = None  # work a second that was agreed, for progress control
    inputs: tuple[InputFile, ...] = ()  # files that it alone reads, beside those of the job

    @property
    def processes(self) -> int:
        """Number of processes of the component's program."""
        if self.job_type is JobType.SINGLE:
            return 1
        return self.processors // (self.cpus_per_task or 1)

    def program(
        self, label: str, job_name: str = "", *, is_malleable: bool = False
    ) -> messages.Program:
        """Return the program as the component's site gets it."""
        spec = dict(zip(_PROGRAM_FIELDS, _program_values(self), strict=True))
        return messages.Program(
            label=label,
            job_name=job_name,
            processes=self.processes,
            is_malleable=is_malleable,
            **spec,
        )


_PROGRAM_FIELDS = tuple(field.name for field in fields(messages.ProgramSpec))
_program_values = attrgetter(*_PROGRAM_FIELDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Receivers of what happens to a job: subscribers of an MQTT topic, a program of the user, an
    address of mail, and a URL; and the events `on` which they are told, none: the end."""

    topic: str = ""
    command: tuple[str, ...] = ()
    mail: str = ""
    webhook: str = ""
    on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Bounds of a flexible job, which names a total in place of components; in processors.

    - `total` are wanted; with `least` it can start, and goes on. They differ only if it
      `is_malleable`: it may be given more, or asked to give way, while it runs.
    - A component has `part_min` to `part_max`, a multiple of `step`; there are at most `parts_max`
      components.
    """

    total: int
    least: int
    part_min: int = 1
    part_max: int
    parts_max: int
    step: int = 1
    is_malleable: bool = False

    def describe(self) -> str:
        """Describe what is asked for."""
        least = f"{self.least} to " if self.least < self.total else ""
        parts = f"in at most {self.parts_max} components of {self.part_min} to {self.part_max}"
        return f"{least}{self.total} processors {parts}"

    @property
    def nominal(self) -> tuple[int, ...]:
        """Sizes of the fewest components that make up the total, all of about one size; empty if
        the bounds leave no way."""
        total, least = self.total // self.step, -(-self.part_min // self.step)
        most = self.part_max // self.step
        count = -(-total // most) if most else 0
        if not 0 < count <= self.parts_max or count * least > total:
            return ()
        sizes = [total // count + (number < total % count) for number in range(count)]
        return tuple([size * self.step for size in sizes])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A request as submitted; never changed afterwards.

    But a flexible one (with `split`) gets its components at each placement, and a malleable one at
    each resize, too: copies of one component that differ in their processors.
    """

    components: tuple[ComponentSpec, ...]
    split: Split | None = None
    owner: UserName = UserName("")
    group: str = ""  # of users, for which it counts, too
    name: str = ""  # for people; several jobs may have it
    priority: Priority = Priority.LOW
    queue: SiteName | None = None  # at whose local queue it was submitted
    input_file: InputFile | None = None
    more_files: tuple[InputFile, ...] = ()  # the papers' jobs have one input file; others may add
    input_mode: InputMode = InputMode.WHOLE
    deadline: Deadline | None = None
    hint: Hint | None = None
    length_mi: float | None = None  # million instructions, for each processor
    preferred_mips: float | None = None
    max_hold_s: Seconds | None = None
    quorum: int | None = None
    retries: int = 0
    rerun: bool = True
    progress: str | None = None
    asynchrony_s: Seconds | None = None
    deviation_s: Seconds | None = None
    connect: tuple[TcpPath, ...] = ()
    distinct: bool = False  # no two components at one site
    redundancy: int = 1  # sites in whose queues a component waits
    after: tuple[Predecessor, ...] = ()  # jobs that must have ended before it is placed
    notify: Notify | None = None

    @property
    def input_files(self) -> tuple[InputFile, ...]:
        """Input files that every component reads."""
        return () if self.input_file is None else (self.input_file, *self.more_files)

    @property
    def all_inputs(self) -> tuple[InputFile, ...]:
        """Input files of the job and of its components, each once."""
        own = [file for component in self.components for file in component.inputs]
        return tuple(dict.fromkeys((*self.input_files, *own))) if own else self.input_files

    def inputs_of(self, component: int) -> tuple[InputFile, ...]:
        """Return the input files that a component reads: those of the job, then its own."""
        own = self.components[component].inputs
        return (*self.input_files, *own) if own else self.input_files

    def input_names(self, component: int) -> Inputs | None:
        """Return the names of a component's input files, as placement policies get them; None
        without any."""
        files = self.inputs_of(component)
        if len(files) < 2:
            return files[0].name if files else None
        return tuple([file.name for file in files])

    @property
    def is_controlled(self) -> bool:
        """Return True if its components are kept together while they run."""
        return self.progress not in (None, "free")

    @property
    def is_reserved(self) -> bool:
        """Return True if a component names a reservation, so that others' processors are no use."""
        return any(component.reservation for component in self.components)

    @property
    def is_malleable(self) -> bool:
        """Return True if components may come and go while it runs."""
        return self.split is not None and self.split.is_malleable

    def with_inputs(self, files: tuple[InputFile, ...]) -> JobSpec:
        """Copy of the request with these input files, at least one."""
        return replace(self, input_file=files[0], more_files=files[1:])

    def deadline_at(self, submitted_at: Instant) -> Instant | None:
        """Return the deadline D of a job submitted at this instant."""
        if self.deadline is None or self.deadline.after_s is None:
            return None if self.deadline is None else self.deadline.at
        return submitted_at + self.deadline.after_s

    @property
    def processors(self) -> int:
        """Processors of all components together."""
        return self.sizes()[0]

    @property
    def largest(self) -> int:
        """Processors of the largest component."""
        return self.sizes()[1]

    @property
    def needed(self) -> int:
        """Number of components with which it can start: the quorum, or all strict ones."""
        return self.sizes()[2]

    def sizes(self) -> tuple[int, int, int]:
        """Return `processors`, `largest` and `needed`.

        It is one pass, because a daemon that starts with a long queue asks it of every job.
        """
        processors = largest = strict = 0
        for component in self.components:
            size = component.processors
            processors += size
            if size > largest:  # noqa: PLR1730 - a call of max takes longer
                largest = size
            if component.start_type is StartType.STRICT:
                strict += 1
        if self.quorum is not None:
            return processors, largest, min(self.quorum, len(self.components))
        if self.is_malleable:
            return processors, largest, self._enough()
        return processors, largest, strict or 1

    def _enough(self) -> int:
        """Return a number of components that together have the least processors, whichever they
        are."""
        assert self.split is not None
        processors = 0
        for number, size in enumerate(sorted(c.processors for c in self.components), 1):
            processors += size
            if processors >= self.split.least:
                return number
        return len(self.components)

    def in_queue_of(self, site: SiteName) -> JobSpec:
        """Copy of the request for a site's local queue; a job of one component runs only there."""
        components = self.components
        if self.is_single:
            components = (replace(components[0], site=site),)
        return replace(self, queue=site, components=components)

    @property
    def is_single(self) -> bool:
        """Return True if it has one component, whatever the scheduler does."""
        return self.split is None and len(self.components) == 1

    def shaped(self, sizes: Sequence[int]) -> JobSpec:
        """Copy of a flexible request whose components have these numbers of processors."""
        part = self.components[0]
        return replace(self, components=tuple([replace(part, processors=n) for n in sizes]))

    def grown(self, sizes: Sequence[int]) -> JobSpec:
        """Copy of a malleable request with further components of these sizes."""
        return self.shaped([*[part.processors for part in self.components], *sizes])

    def component(self, index: int) -> ComponentSpec:
        """Return a component, also one that a flexible job had in an earlier shape, which differs
        in nothing but its processors."""
        return self.components[index if index < len(self.components) else 0]

    def label(self, component: int) -> str:
        """Return the component's label; without one the site that no other names, or its index."""
        if self.split is not None:
            return str(component)  # it may be one of an earlier shape
        own = self.components[component]
        if own.label or own.site is None:
            return own.label or str(component)
        is_alone = sum(own.site in (c.site, c.label) for c in self.components) == 1
        return own.site if is_alone else str(component)
