"""Jobs: the request (JobSpec), its state (Job, Attempt, Member), and the phases of jobs, each with
exactly its data.

A *job* has *components*. An *attempt* is one placement of the job and all that follows from it. A
*member* is a component in an attempt. A *claim* (`model.claim`) is one try to start a member at its
site. Claims are in the scheduler's ledger, apart from the job: a job may be placed again while
stops of claims of an unreleased attempt are still pending.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TypeAlias

from koala.core.model.charges import Charge, Refusal, Setback
from koala.core.model.predecessors import Predecessor
from koala.core.model.progress_reports import ProgressHistory
from koala.core.model.replicas import Transfer
from koala.core.model.values import (
    ClaimId,
    FileName,
    Inputs,
    Instant,
    JobId,
    Priority,
    QueueName,
    Seconds,
    SiteName,
    TcpPath,
    TransferId,
    UserName,
)
from koala.protocol import messages

ArmNumber = messages.ArmNumber
ClaimEnd = messages.ClaimEnd
EndKind = messages.EndKind
JobType = messages.JobType

# --- the request ---


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

    def program(self, label: str, job_name: str = "") -> messages.Program:
        """Return the program as the component's site gets it."""
        spec = {name: getattr(self, name) for name in _PROGRAM_FIELDS}
        return messages.Program(label=label, job_name=job_name, processes=self.processes, **spec)


_PROGRAM_FIELDS = tuple(field.name for field in fields(messages.ProgramSpec))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Receivers of the job's end: subscribers of an MQTT topic, and a program of the user."""

    topic: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A request as submitted; never changed afterwards."""

    components: tuple[ComponentSpec, ...]
    owner: UserName = UserName("")
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

    def with_inputs(self, files: tuple[InputFile, ...]) -> JobSpec:
        """Copy of the request with these input files, at least one."""
        return replace(self, input_file=files[0], more_files=files[1:])

    def deadline_at(self, submitted_at: Instant) -> Instant | None:
        """Deadline D of a job submitted at this instant."""
        if self.deadline is None or self.deadline.after_s is None:
            return None if self.deadline is None else self.deadline.at
        return submitted_at + self.deadline.after_s

    @property
    def processors(self) -> int:
        """Processors of all components together."""
        return sum(component.processors for component in self.components)

    @property
    def largest(self) -> int:
        """Processors of the largest component."""
        return max(component.processors for component in self.components)

    @property
    def needed(self) -> int:
        """Number of components with which it can start: the quorum, or all strict ones."""
        if self.quorum is not None:
            return min(self.quorum, len(self.components))
        strict = [one for one in self.components if one.start_type is StartType.STRICT]
        return len(strict) or 1

    def in_queue_of(self, site: SiteName) -> JobSpec:
        """Copy of the request for a site's local queue; a job of one component runs only there."""
        components = self.components
        if len(components) == 1:
            components = (replace(components[0], site=site),)
        return replace(self, queue=site, components=components)

    def label(self, component: int) -> str:
        """The component's label, or its index when it has none."""
        return self.components[component].label or str(component)


# --- phases of a job ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Accepted, and kept outside the placement queues until the jobs `on` have ended."""

    on: tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """Accepted, but kept in order outside the placement queues, which are full (KOALA 4.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """In the placement queue of its priority (KOALA 3.1)."""

    queued_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Phases of a job that has a live attempt."""

    attempt: Attempt = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claiming(Placed):
    """The next claiming try is at `claim_at` (JCT), None once the try at the JST was made."""

    claim_at: Instant | None
    is_tried: bool = False  # at least once in this attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting(Placed):
    """All members are granted; files, path tests, the JST or the arming are outstanding. Follows
    itself with each step of path tests and arming."""

    tests: PathTests | None = None  # None: not begun
    arms: int = 0  # rounds so far
    arming: Arming | None = None  # the round under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing(Placed):
    """The release is committed; some members have not passed yet."""

    release: Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Placed):
    """All members have passed."""

    since: Instant
    release: Release | None  # None: no component has a barrier


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping(Placed):
    """Stopped by a setback; the job is placed again once the fence allows it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Every member ended well."""

    at: Instant
    attempt: Attempt = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Ended without success and not placed again; the reason is for people."""

    at: Instant
    reason: str
    status: int | None = None
    attempt: Attempt | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Ended by a request of the owner or an operator, or before it was placed because a job that it
    waited for did not end well."""

    at: Instant
    reason: str
    attempt: Attempt | None = field(default=None, repr=False)


Phase: TypeAlias = (
    Waiting
    | Delayed
    | Placing
    | Claiming
    | Starting
    | Releasing
    | Running
    | Stopping
    | Finished
    | Failed
    | Cancelled
)
Terminal: TypeAlias = Finished | Failed | Cancelled
TERMINAL = (Finished, Failed, Cancelled)

_ENDS = ("Failed", "Cancelled")
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "Waiting": ("Waiting", "Delayed", "Placing", *_ENDS),
    "Delayed": ("Placing", *_ENDS),
    "Placing": ("Claiming", *_ENDS),
    "Claiming": ("Claiming", "Starting", "Running", "Stopping", *_ENDS),
    "Starting": ("Starting", "Releasing", "Running", "Stopping", *_ENDS),
    "Releasing": ("Running", "Stopping", "Finished", *_ENDS),
    "Running": ("Finished", "Stopping", *_ENDS),
    "Stopping": ("Placing", "Finished", *_ENDS),
    "Finished": (),
    "Failed": (),
    "Cancelled": (),
}
"""Allowed transitions between phases.

- Waiting follows itself at the end of each job that it waits for.
- Claiming follows itself at each claiming try, Starting at each step of path tests and arming.
- Running follows Claiming or Starting directly only if no component has a barrier.
- Finished follows Releasing if programs end before the last pass is reported, and Stopping if they
  had ended before they were stopped."""


# --- claims ---

SITE_FAULTS = (EndKind.FAILED, EndKind.VANISHED, EndKind.FENCED, EndKind.LEASE)


# --- attempts ---


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A component in an attempt. A member without a site was left out of the placement, which a
    quorum allows.
    """

    component: int
    site: SiteName | None
    start_type: StartType = StartType.STRICT
    source: SiteName | None = None  # the file site; None: nothing to move
    mips: float = 0.0  # the rate that placement promised; 0: none
    booked_bps: float = 0.0  # of its site's own link, for as long as the attempt lasts
    transfer: TransferId | None = None
    more_transfers: tuple[TransferId, ...] = ()  # of a job with several input files
    is_fetched: bool = True
    claim: ClaimId | None = None
    claims: int = 0
    is_dropped: bool = False
    claimed_at: Instant | None = None
    passed_at: Instant | None = None
    end: ClaimEnd | None = None
    refusal: str = ""  # the last answer that was no grant, for `why`

    @property
    def transfers(self) -> tuple[TransferId, ...]:
        """The copies that it reads."""
        return () if self.transfer is None else (self.transfer, *self.more_transfers)

    @property
    def lacks_file(self) -> bool:
        """Return True if an input file is not there yet and its program may still read it. (A
        member without a barrier may end before; its copy then ends with its claim.)"""
        return not self.is_fetched and self.end is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTests:
    """Tests of TCP paths: the claims that have not answered, and the time limit."""

    waiting: tuple[ClaimId, ...]
    due_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Arming:
    """One round of Arm messages, sent at `asked_at`.

    If all of `waiting` answer in time, the release is at `release_at` (T), or a little later when
    the answers took long."""

    number: ArmNumber
    asked_at: Instant
    release_at: Instant
    waiting: tuple[ClaimId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The decision that the members armed under `number` pass at `at` (T); one for an attempt."""

    number: ArmNumber
    at: Instant


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One placement of a job and all that follows from it; `number` is a fencing number. The data
    of its present step are in the phase of the job."""

    job: JobId
    number: int
    placed_at: Instant
    transfer_s: Seconds
    start_at: Instant
    members: list[Member]
    transfers: int = 0
    # Released, or a component without barrier was asked for: the fence counts.
    may_run: bool = False
    granted_at: Instant | None = None
    fetched_at: Instant | None = None
    fetch_s: Seconds = 0.0
    fetch_bytes: int = 0
    copied: list[Transfer] = field(default_factory=list)  # for people; their files may be gone

    @property
    def present(self) -> list[Member]:
        """Members that were not dropped."""
        return [member for member in self.members if not member.is_dropped]

    @property
    def with_barrier(self) -> list[Member]:
        """Present members that start at the barrier."""
        return [one for one in self.present if one.start_type is not StartType.NONE]

    @property
    def at_barrier(self) -> list[Member]:
        """Members that start at the barrier and have not ended."""
        return [one for one in self.with_barrier if one.end is None]


# --- jobs ---


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """Whole state of a job. Figure 1 of the paper: submitted (A), placed (B), claimed (C), started
    (D), ended (E).
    """

    id: JobId
    spec: JobSpec
    submitted_at: Instant
    phase: Phase
    claim_fraction: float  # L of its next placement
    queue: QueueName | None = None  # its current or last queue
    attempts: int = 0
    attempt_min: int = 0  # lower numbers may have been given in a lost part of the journal
    placement_tries: int = 0
    claiming_tries: int = 0
    retries: int = 0
    failures: int = 0  # attempts that a site's fault ended (KOALA 5.2)
    blocked: int = 0  # attempts that ended because a TCP path was not open
    preemptions: int = 0  # attempts that were stopped for a job of high priority
    tried_at: Instant | None = None  # its newest claiming try
    # A hold ran out before the files came: reports of copies do not make claims earlier any more.
    awaits_files: bool = False
    not_before: Instant = 0.0  # earliest placement try: a setback alone is no reason for one
    first_start_at: Instant | None = None  # the first JST
    gained_s: Seconds = 0.0  # PGT, processor-seconds
    wasted_s: Seconds = 0.0  # PWT, processor-seconds held before the start, in all attempts
    ran_s: Seconds = 0.0  # processor-seconds from pass to end
    story: list[tuple[Instant, str]] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)  # of claims that are over
    setbacks: list[Setback] = field(default_factory=list)
    refusals: dict[SiteName, Refusal] = field(default_factory=dict)  # the newest of each site
    course: ProgressHistory | None = None  # of the newest attempt whose progress was controlled
    largest: int = field(init=False)  # of the spec, kept because scans of long queues ask for them
    processors: int = field(init=False)
    needed: int = field(init=False)
    deadline_at: Instant | None = field(init=False)  # D

    def __post_init__(self) -> None:
        spec = self.spec
        self.deadline_at = None if spec.deadline is None else spec.deadline_at(self.submitted_at)
        sizes = [component.processors for component in spec.components]
        self.largest = max(sizes)
        self.processors = sum(sizes)
        self.needed = spec.needed

    @property
    def is_over(self) -> bool:
        """Return True in a terminal phase."""
        return isinstance(self.phase, TERMINAL)

    @property
    def attempt(self) -> Attempt | None:
        """The live attempt, or the last one of a job that is over."""
        return None if isinstance(self.phase, Waiting | Delayed | Placing) else self.phase.attempt

    @property
    def arming(self) -> Arming | None:
        """The round of Arm messages under way, if there is one."""
        return self.phase.arming if isinstance(self.phase, Starting) else None

    @property
    def release(self) -> Release | None:
        """The release of the live attempt, if it was decided."""
        return self.phase.release if isinstance(self.phase, Releasing | Running) else None

    @property
    def phase_name(self) -> str:
        """The phase's name as users see it."""
        return type(self.phase).__name__
