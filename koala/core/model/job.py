"""The state of a job (Job, Attempt, Member), and the phases of jobs, each with exactly its data.

A *job* has *components*. An *attempt* is one placement of the job and all that follows from it. A
*member* is a component in an attempt. A *claim* (`model.claim`) is one try to start a member at its
site. Claims are in the scheduler's ledger, apart from the job: a job may be placed again while
stops of claims of an unreleased attempt are still pending.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from koala.common.protocol import messages
from koala.core.model.charges import Charge, Refusal, Setback
from koala.core.model.job_spec import JobSpec, StartType
from koala.core.model.progress_reports import ProgressHistory
from koala.core.model.replicas import Transfer
from koala.core.model.values import (
    ClaimId,
    Instant,
    JobId,
    QueueName,
    Seconds,
    SiteName,
    TransferId,
)

ArmNumber = messages.ArmNumber
ClaimEnd = messages.ClaimEnd
EndKind = messages.EndKind

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
class Queued(Placed):
    """Its members have tickets in the local queues of busy sites; the next plan is at `plan_at`."""

    plan_at: Instant


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
    | Queued
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
TERMINAL_PHASES = tuple(phase.__name__ for phase in TERMINAL)

_ENDS = ("Failed", "Cancelled")
TRANSITIONS: dict[str, tuple[str, ...]] = {
    "Waiting": ("Waiting", "Delayed", "Placing", *_ENDS),
    "Delayed": ("Placing", *_ENDS),
    "Placing": ("Claiming", "Queued", *_ENDS),
    "Claiming": ("Claiming", "Starting", "Running", "Stopping", *_ENDS),
    "Queued": ("Queued", "Claiming", "Starting", "Stopping", *_ENDS),
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
- Claiming follows itself at each claiming try, Queued at each plan of its tickets, Starting at each
  step of path tests and arming.
- Claiming follows Queued when idle processors can take the whole job.
- Running follows Claiming or Starting directly only if no component has a barrier.
- Finished follows Releasing if programs end before the last pass is reported, and Stopping if they
  had ended before they were stopped."""


# --- claims ---

SITE_FAULTS = (EndKind.FAILED, EndKind.LAUNCH, EndKind.VANISHED, EndKind.FENCED, EndKind.LEASE)


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
    more_transfers: tuple[TransferId, ...] = ()  # of several input files, and to several sites
    is_fetched: bool = True  # at its site
    claim: ClaimId | None = None
    claims: int = 0
    others: tuple[SiteName, ...] = ()  # at which it waits, too (redundancy)
    tickets: tuple[ClaimId, ...] = ()  # in the local queues, the oldest first, and bookings
    tickets_max: dict[SiteName, int] | None = None  # more were refused there
    not_booked: dict[SiteName, Instant] | None = None  # begins that were refused there last
    doubt_s: Seconds = 0.0  # the time for which the last refusal is believed in any case ...
    doubt_at: Instant = 0.0  # ... and the instant from which it is not, where the site is clear
    moved_from: dict[SiteName, Instant] | None = None  # begins of bookings that were moved last
    given_back_at: Instant | None = None  # the last time that a ticket held, and was given back
    rest_s: Seconds = 0.0  # the pause after its last ticket that came up, or was lost ...
    rests_until: Instant = 0.0  # ... in which it opens and books none
    is_dropped: bool = False
    claimed_at: Instant | None = None
    passed_at: Instant | None = None
    end: ClaimEnd | None = None
    refusal: str = ""  # the last answer that was no grant, for `why`
    paths: tuple[messages.PortPath, ...] = ()  # to ports of others, as they were tried
    used: tuple[messages.PortUse, ...] = ()  # of ports through the grid, by the newest report
    joined: Release | None = None  # of a growth; None: it was there from the start
    leave_s: Seconds | None = None  # it was asked to give way within this time ...
    leave_at: Instant | None = None  # ... by this instant

    @property
    def transfers(self) -> tuple[TransferId, ...]:
        """The copies that it reads, at each of its sites."""
        return () if self.transfer is None else (self.transfer, *self.more_transfers)

    @transfers.setter
    def transfers(self, copies: tuple[TransferId, ...]) -> None:
        self.transfer = copies[0] if copies else None
        self.more_transfers = copies[1:]

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
    """The decision that the members armed under `number` pass at `at` (T); one for the start of an
    attempt, and one for each growth."""

    number: ArmNumber
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Components that join a running malleable job, at a barrier of their own. Its arming and
    release are as those of a start."""

    components: tuple[int, ...]
    arms: int = 0
    arming: Arming | None = None
    release: Release | None = None


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
    processors: int = 0  # for which its user and group count ...
    gpus: int = 0  # ... and GPUs
    growth: Growth | None = None  # of a malleable job, under way
    resizes: int = 0  # changes of its components that the running ones were told
    resized_at: Instant = 0.0  # the last growth or shrinking began

    @property
    def present(self) -> list[Member]:
        """Members that were not dropped."""
        return [member for member in self.members if not member.is_dropped]

    @property
    def with_barrier(self) -> list[Member]:
        """Present members that start at the barrier."""
        none = StartType.NONE
        return [m for m in self.members if not m.is_dropped and m.start_type is not none]

    @property
    def at_barrier(self) -> list[Member]:
        """Members that start at the barrier and have not ended."""
        return [member for member in self.with_barrier if member.end is None]

    @property
    def joining(self) -> list[Member]:
        """Members of the growth under way that have not passed its barrier."""
        if self.growth is None:
            return []
        added = [self.members[component] for component in self.growth.components]
        return [m for m in added if not m.is_dropped and m.passed_at is None]

    @property
    def passes(self) -> list[Instant]:
        """Instants at which the components passed the barrier of the start. A malleable job keeps
        its start when none of those that began are left."""
        begun = [m for m in self.members if m.passed_at is not None and m.joined is None]
        left = [m for m in begun if not m.is_dropped]
        return [m.passed_at for m in left or begun if m.passed_at is not None]

    @property
    def world(self) -> list[Member]:
        """Members of a running job that neither ended nor are asked to give way. Those that join
        are in it when all of their growth have passed."""
        return [m for m in self.at_barrier if m.leave_at is None and not self.is_growing(m)]

    def is_growing(self, member: Member) -> bool:
        """Return True if a member is of the growth under way."""
        return self.growth is not None and member.component in self.growth.components


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
        self.respecify(spec)

    def respecify(self, spec: JobSpec) -> None:
        """Give the job these components; only a flexible one gets others than it came with."""
        self.spec = spec
        self.processors, self.largest, self.needed = spec.sizes()

    @property
    def room_min(self) -> tuple[int, int]:
        """Processors at one site, and at all, without which it cannot be placed."""
        split = self.spec.split
        return (self.largest, self.processors) if split is None else (split.part_min, split.least)

    @property
    def has_ended(self) -> bool:
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
