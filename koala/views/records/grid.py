"""Sites, queues, files, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from koala.views.records.base import Moment, Record

SiteState: TypeAlias = Literal["usable", "drained", "unusable", "probing", "disconnected"]


class DaemonInfo(Record, frozen=True, kw_only=True):
    """The daemon, and the caller as the daemon knows it."""

    protocol: int
    """Version of the protocol."""
    version: str
    """Version of the daemon."""
    epoch: int
    """Number of the daemon's starts on its state."""
    user: str
    """Name of the caller."""
    role: str
    """Role of the caller."""
    now: Moment
    """The daemon's clock."""
    relay: str = ""
    """Address at which agents reach the daemon's relay of files."""
    expires_at: Moment | None = None
    """When the caller's credentials expire; null: never."""


class LinkStatus(Record, frozen=True, kw_only=True):
    """Link from a site that was configured, observed or is in use."""

    to: str
    """Site at its other end."""
    bytes_per_s: float | None = None
    """Estimated bandwidth; null: not known."""
    copies: int = 0
    """Copies under way."""


class LocalQueue(Record, frozen=True, kw_only=True):
    """Queue (partition) of a batch system, with what one job may have there."""

    name: str
    """Its name."""
    is_default: bool = False
    """Jobs without a queue of their own go there."""
    longest_s: float | None = None
    """Longest time; null: no limit is known."""
    usual_s: float | None = None
    """Time of a job that asks for none."""
    processors: int | None = None
    """Most processors."""
    hosts: int | None = None
    """Most nodes."""


class Resources(Record, frozen=True, kw_only=True):
    """Resources of a site beside processors and the number of its GPUs."""

    gpu_types: tuple[str, ...] = ()
    """Types of its GPUs."""
    host_gpus: int = 0
    """Most GPUs of one node; 0: unknown."""
    features: tuple[str, ...] = ()
    """Features of its nodes."""
    licenses: Mapping[str, int] = {}
    """Licences by name, with their number."""
    queues: tuple[LocalQueue, ...] = ()
    """Queues of its batch system."""
    host_memory_mb: int = 0
    """Most memory of one node, in megabytes; 0: unknown."""
    host_processors: int = 0
    """Processors of its smallest node; 0: unknown."""
    unit: int = 0
    """A claim gets a multiple of so many processors; 0: what it asks for."""


class SiteStatus(Record, frozen=True, kw_only=True):
    """One site of the grid."""

    shown = ("site", "state", "system", "processors", "idle", "gpus", "idle_gpus", "claimed")

    site: str
    """Its name."""
    state: SiteState = "disconnected"
    """Its state."""
    processors: int = 0
    """Processors in all."""
    idle: int = 0
    """Idle processors."""
    gpus: int = 0
    """GPUs in all."""
    idle_gpus: int = 0
    """Idle GPUs."""
    resources: Resources = Resources()
    """Resources that it has besides."""
    claimed: int = 0
    """Processors of claims, also queued ones."""
    errors: int = 0
    """Errors in a row."""
    unusable_until: Moment | None = None
    """End of the pause after errors; null: none, or only by an operator."""
    owner: str | None = None
    """The only user whose jobs see it; null: all do."""
    users: int = 0
    """Number of users that it serves; 0: no list."""
    grace_s: float = 0.0
    """Time that a claim may wait in its local queue."""
    may_kill_local: bool = False
    """Local jobs may be killed for a job that must start now."""
    mips: float | None = None
    """Speed of one processor."""
    slots: int | None = None
    """Most claims at a time; null: no limit."""
    local: int = 0
    """Processors of local jobs."""
    rtt_s: float | None = None
    """Round trip to its agent."""
    address: str = ""
    """Address of its programs, as seen from other sites."""
    held: int = 0
    """Processors of claims that checked in and wait at the barrier."""
    running: int = 0
    """Processors of claims that passed it."""
    links: tuple[LinkStatus, ...] = ()
    """Links from it."""
    is_drained: bool = False
    """It is drained; true also while it is disconnected."""
    gate: str = ""
    """How a claim that waits there is kept from starting; empty: not at all."""
    gate_tried: str = ""
    """Result of the last probe of the gate, with its date; empty: unknown."""
    books: str = ""
    """How it books processors for a claim with a known start; empty: not at all."""
    reservations: Mapping[str, int] | None = None
    """Idle processors of its reservations, by name; null: unknown."""
    trouble: str = ""
    """The reason, for its administrator, why it takes no new claims, or none of some accounts."""
    why_idle: str = ""
    """Why no more processors are idle, in words; empty: all are, or it is unknown."""
    commands: str = ""
    """Commands that its agent ran at the batch system in the last minute, in words."""
    notice: str = ""
    """What its users should know, as that its batch system's dialect was not tried against a live
    server; empty: nothing."""
    system: str | None = None
    """Its batch system, as people call it; empty: its agent is one itself; null: not known while it
    is not connected."""
    takes_native: bool = False
    """Jobs may pass options on to its batch system (`native`)."""
    version: str | None = None
    """Version of its agent; null while it is not connected."""
    enrolment: str | None = None
    """State of its enrolment; null: none."""
    expires_at: Moment | None = None
    """Expiry of its certificate."""
    revoked_at: Moment | None = None
    """When its certificates were revoked."""


class Sites(Record, frozen=True, kw_only=True):
    """All sites that the caller may see."""

    sites: tuple[SiteStatus, ...] = ()
    """The sites, in order of name."""


class ReplicaFile(Record, frozen=True, kw_only=True):
    """Input file of the catalogue."""

    file: str
    """Its name."""
    size_bytes: int | None = None
    """Its size; null: not known."""
    checksum: str | None = None
    """Its checksum; null: not known."""
    sites: tuple[str, ...] = ()
    """Sites that have it."""


class Files(Record, frozen=True, kw_only=True):
    """Files of the catalogue that the caller may read."""

    files: tuple[ReplicaFile, ...] = ()
    """The files, in order of name."""


class AddedFile(Record, frozen=True, kw_only=True):
    """File that was added."""

    file: str
    """Its name in the catalogue."""
    site: str
    """Site that has it."""
    size_bytes: int = 0
    """Its size."""


class RemovedFile(Record, frozen=True, kw_only=True):
    """File that was removed."""

    file: str
    """Its name."""
    removed: tuple[str, ...] = ()
    """Sites from which it was removed."""
    left: tuple[str, ...] = ()
    """Sites that did not answer, where it is left."""


class SiteCounts(Record, frozen=True, kw_only=True):
    """Numbers of sites."""

    known: int
    """Sites that were ever connected."""
    connected: int
    """Sites that are connected."""


class QueueLengths(Record, frozen=True, kw_only=True):
    """Lengths of the daemon's queues."""

    placement: int
    """Jobs in the placement queues."""
    delayed: int
    """Jobs that wait for room there."""
    transfers: int
    """Copies under way."""
    inbox: int
    """Messages that wait for the event loop."""


class DiskSpace(Record, frozen=True, kw_only=True):
    """Space on the disk of the daemon's state."""

    free_bytes: int
    """Free space."""
    is_low: bool
    """It is too little: no jobs are accepted."""


class Metrics(Record, frozen=True, kw_only=True):
    """Counters and gauges of the daemon: the state now, and counts since its start."""

    epoch: int = 0
    """Number of the daemon's starts on its state."""
    jobs: Mapping[str, int] = {}
    """Jobs by phase."""
    claims: Mapping[str, int] = {}
    """Claims by phase."""
    sites: SiteCounts
    """Numbers of sites."""
    queues: QueueLengths
    """Lengths of queues."""
    events: int = 0
    """Events of the core since the daemon's start."""
    events_by_kind: Mapping[str, int] = {}
    """The same by kind."""
    commits: int = 0
    """Commits of the journal since then."""
    commit_longest_s: float = 0.0
    """Longest of them."""
    handling_s: float = 0.0
    """Time spent on events since then."""
    notices: int = 0
    """Number of the newest notice."""
    watchers: int = 0
    """Watches."""
    sessions: int = 0
    """Connected agents."""
    floods: int = 0
    """Agents that were cut because they sent too much."""
    replaced_policies: Mapping[str, str] = {}
    """Policies of other packages that failed, with the reason."""
    disk: DiskSpace
    """Space on the disk."""
    loop_lag_s: float = 0.0
    """Delay of the event loop."""
    memory_bytes: int = 0
    """Memory of the process."""
    memory_peak_bytes: int = 0
    """Most memory of the process."""


class QueuedJob(Record, frozen=True, kw_only=True):
    """Job in a queue."""

    position: int
    """Its place; 1 is the head."""
    job: str
    """Its id."""
    name: str | None = None
    """Name that its owner gave it; empty: none."""
    owner: str = ""
    """User who submitted it."""
    priority: str = "low"
    """`high` or `low`."""
    processors: int = 0
    """Processors of all components."""
    components: int = 0
    """Number of components."""
    queued_at: Moment | None = None
    """Since when it is in the queue; null: it is delayed."""
    submitted_at: Moment
    """When it was submitted."""
    placement_tries: int = 0
    """Placement tries so far."""


class Queue(Record, frozen=True, kw_only=True):
    """Queue of jobs that wait."""

    kind: str
    """`placement`, `deadline` or `delayed`."""
    queue: str
    """Its name."""
    jobs: int = 0
    """Number of all its jobs."""
    first: tuple[QueuedJob, ...] = ()
    """Up to 50 of the caller's jobs, in order."""


class Queues(Record, frozen=True, kw_only=True):
    """All queues."""

    discipline: str = ""
    """The queue discipline in force."""
    ageing_s: float | None = None
    """Jobs that wait longer go first; null: none do."""
    queues: tuple[Queue, ...] = ()
    """The queues."""
