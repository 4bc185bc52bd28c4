"""Messages of the link between daemon, agent and starter, as plain values.

Field names are those of `link.proto`. Instants are seconds of the daemon's clock unless a field
says otherwise; durations are seconds, sizes bytes. Checksums are sha256 in hexadecimal. Constraints
are checked where a message is decoded (`codec`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, TypeAlias

from koala.common.protocol.constraints import (
    Amount,
    Bytes,
    Claim,
    Count,
    Distinct,
    Duration,
    Endpoint,
    Finite,
    Host,
    Instant,
    Matching,
    OneOf,
    Port,
    Printable,
    Rate,
    Share,
    Text,
    Truncated,
)
from koala.common.protocol.limits import (
    BYTES_MAX,
    FILE_NAME_MAX,
    HOLES_MAX,
    HONOURS_MAX,
    HOSTS_MAX,
    NAMES_MAX,
    OUTLOOK_MAX,
    PORTS_MAX,
    PROCESSORS_MAX,
    REASON_MAX,
    STATUSES_MAX,
    USERS_MAX,
    WAITS_MAX,
    WATERMARK_BYTES_MAX,
    WORK_MAX,
)
from koala.common.protocol.names import RESIZE_SIGNAL, SITE, TRANSFER, ClaimId, SiteName

Reason: TypeAlias = Annotated[str, Truncated(REASON_MAX)]
Size: TypeAlias = Annotated[int, Count()]
Processors: TypeAlias = Annotated[int, Count(PROCESSORS_MAX)]
Transfer: TypeAlias = Annotated[str, Matching(TRANSFER)]
FileName: TypeAlias = Annotated[str, Text(least=1, most=FILE_NAME_MAX)]
NO_SITE = SiteName("")
Took: TypeAlias = Annotated[float, Amount()]
Names: TypeAlias = Annotated[tuple[Annotated[str, Printable()], ...], Truncated(NAMES_MAX)]
NamedCounts: TypeAlias = Annotated[
    tuple[tuple[Annotated[str, Printable()], int], ...], Truncated(NAMES_MAX)
]

# Parts of several messages -----------------------------------------------------------------------


class JobType(StrEnum):
    """Number and kind of processes of a component: one, one for each processor, or (`mpi`) ranks of
    one world that all MPI components of the job share."""

    SINGLE = "single"
    MULTIPLE = "multiple"
    MPI = "mpi"


class EndKind(StrEnum):
    """Cause of a claim's end."""

    EXITED = "exited"  # the program ended by itself: see the statuses
    UNEXECUTABLE = "unexecutable"  # the program could not be started
    WALL_TIME = "wall-time"  # the job's own limit
    OUTPUT = "output"  # a named output file could not be brought back
    REFUSED = "refused"  # not started within the grace time, withdrawn
    FAILED = "failed"  # the local manager erred
    LAUNCH = "launch"  # its batch job began, and was over before a starter checked in
    STOPPED = "stopped"  # by the daemon's Stop
    HOLD = "hold"  # its hold deadline came before the barrier
    LEASE = "lease"  # its lease ran out
    LATE = "late"  # armed, and no Release came before D
    SITE = "site"  # the site's rule or people: drain, longest hold, a foreign cancel
    VANISHED = "vanished"  # the starter or its processor was lost
    FENCED = "fenced"  # concluded by the daemon from silence past the lease; no agent reports it
    UNKNOWN = "unknown"  # the agent knows the attempt, not the claim


REPORTED_ENDS = tuple(kind for kind in EndKind if kind is not EndKind.FENCED)
"""Ends that an agent or a starter may report."""
STARTER_ENDS = (EndKind.EXITED, EndKind.UNEXECUTABLE, EndKind.WALL_TIME)
"""The program's own ends, reported by its starter."""
PROGRAM_ENDS = (*STARTER_ENDS, EndKind.OUTPUT)
"""Ends that the program caused, not the site."""


class ReportState(StrEnum):
    """State of a claim as the agent reports it."""

    ASKED = "asked"
    GRANTED = "granted"
    ARMED = "armed"
    PASSED = "passed"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ArmNumber:
    """Number of an arming: daemon epoch and counter. Later ones are greater."""

    epoch: Size
    counter: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEnd:
    """End of a claim.

    `statuses` per process: exit status, or minus the signal. `ended_at` is None when unknown.
    """

    kind: Annotated[EndKind, OneOf(REPORTED_ENDS)]
    reason: Reason = ""
    statuses: Annotated[tuple[int, ...], Truncated(STATUSES_MAX)] = ()
    ended_at: Annotated[float | None, Instant()] = None
    cpu_s: Annotated[float | None, Amount()] = None
    memory_bytes: Annotated[int | None, Truncated(BYTES_MAX)] = None
    forwarded_bytes: Annotated[int | None, Truncated(BYTES_MAX)] = None  # to ports of others

    @property
    def succeeded(self) -> bool:
        """Return True if the program ran and every process exited with status 0."""
        return self.kind is EndKind.EXITED and all(status == 0 for status in self.statuses)

    @property
    def is_program(self) -> bool:
        """Return True if the program caused the end, not the site."""
        return self.kind in PROGRAM_ENDS

    @property
    def status(self) -> int | None:
        """The first status that is not 0; 0 when all are; None when there is none."""
        return next((s for s in self.statuses if s != 0), 0 if self.statuses else None)

    def describe(self) -> str:
        """Describe the end for people."""
        if self.kind is EndKind.EXITED and not self.succeeded:
            status = self.status or 0
            text = f"exit status {status}" if status > 0 else f"signal {-status}"
            return f"{text}{': ' + self.reason if self.reason else ''}"
        words = "ended well" if self.succeeded else self.kind.value
        return f"{words}: {self.reason}" if self.reason else words


Hosts: TypeAlias = tuple[tuple[str, int], ...]
"""Hosts of an allocation, the starter's own first: names, and processors on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources that a component asks for beside its processors; None and empty mean no wish.

    - `hosts` machines, with `tasks_per_host` processes on each and `cpus_per_task` processors for
      each process.
    - `memory_min_mb`: memory that one process needs.
    - `gpus` of all its processes together, of `gpu_type`.
    - `constraint`: features of its machines, as `ib&haswell`; `licenses` by name.
    - `queue` (partition), `project` (account) and `qos` of the local manager, and a `reservation`
      that exists there.
    - `is_exclusive`: no other job on its machines.
    - `native`: options for the local manager, passed on as they are.
    """

    hosts: int | None = None
    tasks_per_host: int | None = None
    cpus_per_task: int | None = None
    memory_min_mb: int | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    constraint: str | None = None
    licenses: Annotated[tuple[tuple[str, int], ...], Truncated(NAMES_MAX)] = ()
    queue: str | None = None
    project: str | None = None
    qos: str | None = None
    reservation: str | None = None
    is_exclusive: bool = False
    native: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Queue (partition) of a local manager, with what one job may have there; 0: no limit is known.

    `longest_s` is the longest time, `usual_s` the time of a job that asks for none; where each job
    `must_ask` there is no such job. Jobs without a queue of their own go to the default ones.
    """

    name: Annotated[str, Printable()]
    is_default: bool = False
    longest_s: Annotated[float, Amount()] = 0.0
    usual_s: Annotated[float, Amount()] = 0.0
    processors: Processors = 0
    hosts: Processors = 0
    must_ask: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteResources:
    """Resources that a site has beside its processors, idle or not.

    `host_memory_mb` and `host_gpus`: the most of one machine, 0: unknown. `features`: those of its
    machines. If `is_complete`, the site has no other features, licences and queues than these.
    `host_processors` are those of its smallest machine, 0: unknown. A claim gets a multiple of
    `unit` processors, as of whole machines or cores; 0: what it asks for.
    """

    gpus: Processors = 0
    host_gpus: Processors = 0
    gpu_types: Names = ()
    host_memory_mb: Size = 0
    features: Names = ()
    licenses: NamedCounts = ()
    queues: Annotated[tuple[Queue, ...], Truncated(NAMES_MAX)] = ()
    is_complete: bool = False
    host_processors: Processors = 0
    unit: Processors = 0


NO_RESOURCES = SiteResources()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec(Resources):
    """Program of a component as its user asks for it; None means no wish, or no limit."""

    executable: str
    arguments: tuple[str, ...] = ()
    directory: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    job_type: JobType = JobType.MULTIPLE
    wall_time_s: Annotated[float | None, Duration()] = None
    cpu_time_s: Annotated[float | None, Duration()] = None
    memory_max_mb: int | None = None
    output_files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # patterns of further files
    stage: tuple[str, ...] = ()  # files of the user's machine that go along
    archive: str = ""  # with these files: `checksum:size`
    resize_signal: Annotated[str | None, Matching(RESIZE_SIGNAL)] = None  # after each Resize
    ports: tuple[tuple[str, Annotated[int, Port()]], ...] = ()  # at which it listens, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(ProgramSpec):
    """Program of a claim; of a malleable job it learns of each Resize."""

    label: str = ""
    job_name: str = ""
    processes: int = 1
    is_malleable: bool = False

    def resources(self) -> Resources:
        """Return what it asks of its site."""
        return Resources(**{name: getattr(self, name) for name in RESOURCES})


RESOURCES = tuple(field.name for field in fields(Resources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Member of an attempt, as seen from one site.

    `hosts` are those of its allocation, with the processors on each. They are empty where the site
    reports none. As the first member it may listen at `port`.
    """

    component: int
    label: str
    site: str
    processors: int
    processes: int
    address: str
    port: Annotated[int, Port()]
    claim: ClaimId
    hosts: Hosts = ()
    job_type: JobType = JobType.MULTIPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTarget:
    """Starter to be reached; it answers with its claim. A job starts without the path to a port
    that `may_fail`."""

    label: str
    address: str
    port: Annotated[int, Port()]
    claim: ClaimId
    may_fail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPath:
    """Result of the test of the path to a port of another claim: the round trip that was measured,
    or the `problem`."""

    claim: ClaimId
    port: Annotated[int, Port()]
    rtt_s: Annotated[float, Amount()] = 0.0
    problem: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortAddress:
    """Port of a component, as one component of its attempt is told of it: where it listens, and
    whether it is reached through the grid, with this token."""

    name: str
    claim: ClaimId
    address: str
    port: Annotated[int, Port()]
    is_forwarded: bool = False
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUse:
    """Use of a port through the grid by one component since its pass: bytes in both directions, in
    `busy_s` seconds in which any moved, the newest round trip, and refused connections with the
    newest reason."""

    name: Annotated[str, Printable()]
    claim: ClaimId
    connections: Size
    size_bytes: Annotated[int, Truncated(BYTES_MAX)]
    busy_s: Annotated[float, Amount()]
    rtt_s: Annotated[float, Amount()]
    refused: Size = 0
    refusal: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Row of the daemon's journal, sealed by the daemon of `epoch`. An agent only stores it."""

    epoch: Size
    seq: Size
    chain: Annotated[bytes, Bytes(WATERMARK_BYTES_MAX)]
    seal: Annotated[bytes, Bytes(WATERMARK_BYTES_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a site, sent with each registration.

    They are constant for the life of the agent's process, except `starts_after_stop` and `gate`.
    Empty or 0: none, or unknown. `gate` is how the site keeps a waiting claim from starting, with
    its place in the queue, `books` how it books processors for a known start. Its owner allows
    holds of `hold_max_s`, `tickets_max` waiting claims, and those that came up to hold a share
    `held_share_max` of the processors. A site that `forwards` carries connections to ports of
    programs through the grid. `notice` is for the site's users, and so is `system`, the name of its
    batch system; no decision depends on them.
    """

    processors: Processors = 0
    grace_s: Annotated[float, Amount()] = 0.0
    starts_after_stop: bool = False
    address: Annotated[str, Host()] = ""
    serves: Annotated[str, Endpoint()] = ""
    owner: Annotated[str, Printable()] = ""
    honours: Annotated[tuple[Annotated[str, Printable()], ...], Truncated(HONOURS_MAX)] = ()
    may_kill_local: bool = False
    users: Annotated[tuple[Annotated[str, Printable()], ...], Distinct(USERS_MAX)] = ()
    mips: Annotated[float, Amount()] = 0.0
    slots: Processors = 0
    notice: Annotated[str, Printable()] = ""
    gate: Annotated[str, Printable()] = ""
    hold_max_s: Annotated[float, Amount()] = 0.0
    tickets_max: Processors = 0
    held_share_max: Annotated[float, Amount()] = 0.0
    system: Annotated[str, Printable()] = ""
    books: Annotated[str, Printable()] = ""
    forwards: bool = False


# The session -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Opening of a session.

    - `epoch_seen` is the highest epoch of a daemon that the agent obeyed.
    - `mark` is the last row of a journal that it knows of.
    - The codec of the agent adds version, site and facts.
    """

    protocol: int
    version: Annotated[str, Printable()] = ""
    site: Annotated[SiteName, Matching(SITE)] = NO_SITE
    session: Annotated[str, Printable()]
    epoch_seen: Size
    facts: Facts = Facts()
    idle: Processors
    mark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class InventoryEnd:
    """End of the agent's inventory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """Acceptance of a session. `now` is the daemon's time; leases and `kill_s` are for starters."""

    epoch: int
    protocol: int
    hold_lease_s: Annotated[float, Duration(infinite=True)]
    run_lease_s: Annotated[float, Duration(infinite=True)]
    kill_s: Annotated[float, Duration(zero=True)]
    now: Annotated[float, Finite()]
    relay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Refusal of a session; `is_final` when a retry does not help."""

    reason: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class WantedEnd:
    """End of the claims and transfers that the daemon wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Heartbeat of the daemon, echoed by the agent; `sent_at` is the daemon's time."""

    number: int
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodbye:
    """Orderly end of either side; jobs run on."""

    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait of a claim in the local queue.

    `start_in_s` is the time until it would start if it were open from now on, also of a gated one;
    None: unknown. `source` is how that is known. `number` is that of its batch job, and `reason` is
    why it waits, in the batch system's words; empty: unknown.
    """

    claim: ClaimId
    start_in_s: Annotated[float | None, Amount()] = None
    source: Annotated[str, Printable()] = ""
    number: Annotated[str, Text()] = ""
    reason: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """So many processors were given to a claim."""

    claim: ClaimId
    processors: Processors


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """So many processors are idle for a claim that ends within `for_s`."""

    processors: Processors
    for_s: Annotated[float, Amount()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Time until a claim of so many processors, which may run for `run_s`, would start if it were
    asked for now."""

    processors: Processors
    run_s: Annotated[float, Amount()]
    start_in_s: Annotated[float, Amount()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFigures:
    """Current figures of a site.

    They include all asks up to number `through`. `trouble` is the reason why the site takes no new
    claims, or none of some users; empty when nothing is wrong. `resources` are all that it has.
    `foreign_queued` are the jobs of others that wait for processors. `gate` is as in the facts, by
    now, and `gate_tried` what a probe saw of it, and when. `outlook` is empty where it is unknown.
    `why_idle` says why no more processors are idle; empty where all are. Of the idle ones `asleep`
    are powered down, and up after `wake_s`. `holes` are more of them, for a short time. `taken` are
    the processors that the local manager gave to claims that asked for another number. `commands`
    says how many were run at the batch system in the last minute. A site that `lists_reservations`
    has no other `reservations` than these, each with the processors that are idle in it now.
    """

    idle: Processors
    through: Size
    processors: Processors
    local_processors: Processors
    queued_jobs: int
    trouble: Reason = ""
    idle_gpus: Processors = 0
    resources: SiteResources = NO_RESOURCES
    waits: Annotated[tuple[Wait, ...], Truncated(WAITS_MAX)] = ()
    foreign_queued: int = 0
    gate: Annotated[str, Printable()] = ""
    gate_tried: Reason = ""
    outlook: Annotated[tuple[Outlook, ...], Truncated(OUTLOOK_MAX)] = ()
    why_idle: Reason = ""
    commands: Reason = ""
    asleep: Processors = 0
    wake_s: Annotated[float, Amount()] = 0.0
    holes: Annotated[tuple[Hole, ...], Truncated(HOLES_MAX)] = ()
    taken: Annotated[tuple[Taken, ...], Truncated(WAITS_MAX)] = ()
    lists_reservations: bool = False
    reservations: NamedCounts = ()


# Orders about claims -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """Input file of a claim: its logical name, and the copy that brings it; empty for a replica."""

    file: FileName
    transfer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Order to hold a claim: start a placeholder of so many processors.

    - `ask_number` comes back in the site's figures.
    - `is_granted`: known as granted; an agent that does not know the claim has lost it.
    - The starter gives up at `hold_s` after check-in, unless released.
    - `no_barrier`: the program starts when it can.
    - `files` are the input files; each is a replica of the site, or a copy that is fetched.
    - `archive` is the copy that brings the program's staged files; it is among the `inputs`.
    - `inputs` are the copies among them. Of a first file that is a replica `chunk_bytes` from
      `chunk_offset` on are read. 0: all.
    - `store_token` is shown to the relay with the claim's outputs and logs.
    - `is_preempting`: other claims are stopped for it, which may take `kill_s`.
    - `may_kill`: local jobs may be killed for it, the youngest first, if it finds no room.
    - `port`: where it may listen as the first of its world.
    - `progress_s` is the time between two reports of its progress. 0: none are wanted.
    - `waits`: a ticket. It has no grace time, and waits in the local queue until it is stopped.
    - `wake_s`: its machines may have to be powered up, so its grace time is so much longer.
    - `is_gated`: it must not start, and keeps its place in the queue. The same Hold with another
      value is the order to gate or to open it; one that is granted ignores that.
    - `begins_at`: its processors are booked from then on, for `hold_s` and the run, and its batch
      job runs in the booking. The same Hold with another value does not move it. 0: as soon as it
      can.
    """

    claim: ClaimId
    processors: int
    hold_s: Annotated[float, Duration()]
    program: Program
    port: Annotated[int, Port()]
    ask_number: int = 0
    is_granted: bool = False
    owner: str = ""
    no_barrier: bool = False
    inputs: tuple[str, ...] = ()
    chunk_offset: Size = 0
    chunk_bytes: Size = 0
    store_token: str = ""
    is_preempting: bool = False
    may_kill: bool = False
    progress_s: Annotated[float, Duration(zero=True)] = 0.0
    files: tuple[HeldFile, ...] = ()
    archive: str = ""
    waits: bool = False
    is_gated: bool = False
    wake_s: Annotated[float, Duration(zero=True)] = 0.0
    begins_at: Annotated[float, Amount()] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPaths:
    """Order to listen on these ports until armed, and to reach each target within `limit_s`."""

    claim: ClaimId
    label: str
    address: str
    listens: tuple[Annotated[int, Port()], ...]
    targets: tuple[PathTarget, ...]
    limit_s: Annotated[float, Duration()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Order not to abort for `late_s` (D) from receipt; T is `release_at`. `ports` are those of the
    attempt, as this claim's program may use them."""

    claim: ClaimId
    number: ArmNumber
    release_at: Annotated[float, Finite()]
    late_s: Annotated[float, Duration()]
    peers: tuple[Peer, ...] = ()
    ports: tuple[PortAddress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Opening of the barrier at `release_at`, for claims armed under this number."""

    claim: ClaimId
    number: ArmNumber
    release_at: Annotated[float, Finite()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Change of the members of a malleable job: `peers` are those that run or join by now, with the
    claim itself.

    Each change of an attempt has a greater `number`, from 1 on. Only the greatest counts, so the
    order may be repeated. With `leave_s` this component is asked to end within so many seconds. It
    is not answered: the program ends, or is stopped.
    """

    claim: ClaimId
    number: Size
    peers: tuple[Peer, ...]
    leave_s: Annotated[float | None, Duration(zero=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Share of the time that a claim's program may run."""

    claim: ClaimId
    share: Annotated[float, Share()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Order not to pass the barrier, or to end after it."""

    claim: ClaimId


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Acknowledgement that the daemon has durably recorded a claim's end."""

    claim: ClaimId


# Reports about claims ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Newest state of a claim.

    `passed_at` is None before the barrier, `began_at` is the start of its starter. `batch_job` is
    the local manager's number of its job; the claim table does not know it.
    """

    claim: ClaimId
    state: ReportState
    nonce: Annotated[str, Text()] = ""
    armed: ArmNumber | None = None
    passed_at: Annotated[float | None, Instant()] = None
    end: ClaimEnd | None = None
    batch_job: Annotated[str, Text()] = ""
    address: Annotated[str, Printable()] = ""
    hosts: Annotated[tuple[tuple[Annotated[str, Printable()], int], ...], Truncated(HOSTS_MAX)] = ()
    began_at: Annotated[float | None, Instant()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsReport:
    """Result of a starter's TCP paths; `problem` is empty when all are open, but those to `ports`,
    which have results of their own. `reached` are the claims that it reached, with the round trips
    to them."""

    claim: ClaimId
    problem: Reason = ""
    reached: Annotated[tuple[tuple[ClaimId, Took], ...], Truncated(HOSTS_MAX)] = ()
    ports: Annotated[tuple[PortPath, ...], Truncated(PORTS_MAX)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsUsed:
    """Use of ports by a claim's program, through the grid, so far."""

    claim: ClaimId
    ports: Annotated[tuple[PortUse, ...], Truncated(PORTS_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a claim's program at the end of a cycle since its pass.

    `work` is in processor-seconds, or in the program's own unit when it `is_told` by the program.
    `can_pace`: its starter can slow the program down.
    """

    claim: ClaimId
    cycle: Size
    work: Annotated[float, Amount(WORK_MAX)]
    is_told: bool
    can_pace: bool


# Questions of starters and programs, and their answers -------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Request of a starter to renew its lease; `sent_at` is the starter's own clock."""

    claim: ClaimId
    nonce: Annotated[str, Text()]
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """Answer to a ping: `sent_at` is returned unchanged, `now` is the daemon's time."""

    claim: ClaimId
    nonce: str
    sent_at: Annotated[float, Finite()]
    now: Annotated[float, Finite()]


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPut:
    """Value for all members; request 0 is part of an inventory and wants no answer."""

    claim: ClaimId
    request: int
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGet:
    """Request for a value, which may take up to `wait_s` to appear."""

    claim: ClaimId
    request: int
    name: str
    wait_s: Took


@dataclass(frozen=True, slots=True, kw_only=True)
class KvAnswer:
    """Answer to a put or get."""

    claim: ClaimId
    request: int
    ok: bool
    value: str = ""
    error: str = ""


ToDaemon: TypeAlias = Report | PathsReport | PortsUsed | Progress | Ping | KvPut | KvGet


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """Request for up to `size_max` bytes of a log from `offset` on.

    A `size_max` of 0 means as many as allowed.
    """

    request: int
    claim: Annotated[str, Claim()]
    stream: str
    process: int
    offset: Size
    size_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Answer to a log request; `is_over` at the end of a log that is no longer written."""

    request: int
    offset: int
    data: bytes = b""
    is_over: bool = False
    error: Reason = ""


# Copies of files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """Order to the target: read `size_bytes` of a file from `offset` on, at `address`.

    - `checksum` is that of the whole file; empty when unknown or when a part of it is ordered.
    - `booked_bps` bytes a second of the link are reserved for this copy, which takes no more. 0: it
      shares the link.
    - `report_s` is the least time between two progress reports. 0: none are wanted.
    - `keep_as` is the name under which the site's store takes the copy; empty: it is a claim's.
    - `path` is a file on the site's own machine, which the store takes instead of a copy.
    """

    transfer: str
    file: str
    source: str
    address: str
    token: str
    offset: int = 0
    size_bytes: int
    checksum: str = ""
    booked_bps: Annotated[float, Rate()] = 0.0
    report_s: Annotated[float, Rate()] = 0.0
    keep_as: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOrder:
    """Order to the source: serve this part of a file to the bearer of the token.

    With `relay` (host:port) the part is offered there; otherwise the own server has it.
    `booked_bps` as of a FetchOrder.
    """

    transfer: str
    file: str
    target: str
    token: str
    offset: int = 0
    size_bytes: int
    relay: str = ""
    booked_bps: Annotated[float, Rate()] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTransfer:
    """Order to give up a copy."""

    transfer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """Order to delete a file that a user has added to the site's store."""

    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """Progress of a copy: bytes received so far; `took_s` since the first were requested."""

    transfer: Transfer
    size_bytes: Size
    took_s: Took


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFinished:
    """Completion of a copy, checked at the target; `took_s` since the order."""

    transfer: Transfer
    size_bytes: Size
    took_s: Took


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """Failure of a copy. `at` is the site at fault; empty when there is none."""

    transfer: Transfer
    reason: Reason
    at: Annotated[str, Matching(SITE, empty=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """Replica that the site holds, with this content."""

    file: FileName
    size_bytes: Size
    checksum: Annotated[str, Text()]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoved:
    """Replica that the site no longer holds."""

    file: FileName


# Directions --------------------------------------------------------------------------------------

ToAgent: TypeAlias = (
    Welcome
    | Reject
    | WantedEnd
    | Hold
    | TryPaths
    | Arm
    | Release
    | Resize
    | Pace
    | Stop
    | Acknowledge
    | FetchOrder
    | ServeOrder
    | CancelTransfer
    | RemoveFile
    | Beat
    | Pong
    | KvAnswer
    | LogRequest
    | Goodbye
)
"""Messages that a daemon sends."""
ClaimReports: TypeAlias = Report | PathsReport | PortsUsed | Progress
CopyReports: TypeAlias = TransferProgress | TransferFinished | TransferFailed
FileReports: TypeAlias = FileFound | FileRemoved
AgentReport: TypeAlias = (
    ClaimReports | SiteFigures | CopyReports | FileReports | Ping | KvPut | KvGet | LogChunk
)
"""Messages that an agent may send in an inventory and afterwards."""
FromAgent: TypeAlias = Register | InventoryEnd | Beat | Goodbye | AgentReport
"""Messages that an agent sends."""
