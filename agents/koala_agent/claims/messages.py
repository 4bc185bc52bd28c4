"""The words of a site's claims: what is ordered, what is reported, how a claim ends.

These are the agent's own; `claim_codec` turns them into messages of the wire and back. Instants are
seconds of the daemon's time where a name says so, else of this machine's CLOCK_BOOTTIME; durations
are seconds.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypeAlias

from koala.protocol import names

ClaimId = NewType("ClaimId", str)
"""job/attempt/component/n, unique for ever."""


def is_claim_id(text: str) -> bool:
    """Whether a text is job/attempt/component/n; anything else never becomes a path."""
    return names.CLAIM.fullmatch(text) is not None


def folder_name(claim: ClaimId) -> str:
    """The name of the claim's folder: unique, because the last three parts are always numbers."""
    assert is_claim_id(claim), claim
    return claim.replace("/", "-")


class EndKind(StrEnum):
    """How a claim came to its end (the same words as koala.core.model.job.EndKind)."""

    EXITED = "exited"
    UNEXECUTABLE = "unexecutable"
    WALL_TIME = "wall-time"
    OUTPUT = "output"
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"
    HOLD = "hold"
    LEASE = "lease"
    LATE = "late"
    SITE = "site"
    VANISHED = "vanished"
    UNKNOWN = "unknown"


PROGRAM_ENDS = (EndKind.EXITED, EndKind.UNEXECUTABLE, EndKind.WALL_TIME)
"""Ends that are the program's own, as a starter tells them."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ArmNumber:
    """Which arming: daemon epoch and counter; later ones are greater."""

    epoch: int
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a claim. `statuses` per process: exit status, or minus the signal; `ended_at` is
    in the daemon's time, None when nobody knows."""

    kind: EndKind
    reason: str = ""
    statuses: tuple[int, ...] = ()
    ended_at: float | None = None
    cpu_s: float = 0.0
    memory_bytes: int = 0

    @property
    def is_well(self) -> bool:
        """The program ran and every process exited with status 0."""
        return self.kind is EndKind.EXITED and all(status == 0 for status in self.statuses)


Hosts: TypeAlias = tuple[tuple[str, int], ...]
"""Machines of an allocation, the starter's own first: names, and processors on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a claim runs. A `wall_time_s` or `cpu_time_s` of 0 and a memory of 0 mean no limit."""

    executable: str
    label: str = ""
    arguments: tuple[str, ...] = ()
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    processes: int = 1
    hosts: int = 0
    wall_time_s: float = 0.0
    cpu_time_s: float = 0.0
    memory_min_mb: int = 0
    memory_max_mb: int = 0
    queue: str = ""
    project: str = ""
    output_files: tuple[str, ...] = ()
    job_type: str = "multiple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One member of the attempt, as seen from this site. `hosts` are those of its allocation, with
    the processors that it has on each; none where the site does not tell."""

    component: int
    label: str
    site: str
    processors: int
    processes: int
    address: str
    claim: ClaimId
    hosts: Hosts = ()
    job_type: str = "multiple"


# Orders of the daemon -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A claim to be held: asked for, or known to be granted."""

    claim: ClaimId
    processors: int
    hold_s: float
    program: Program
    ask_number: int = 0
    is_granted: bool = False
    owner: str = ""
    no_barrier: bool = False
    inputs: tuple[str, ...] = ()
    local_input: str = ""
    chunk_offset: int = 0
    chunk_bytes: int = 0
    store_token: str = ""
    is_preempting: bool = False
    may_kill: bool = False
    progress_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTarget:
    """A starter that must be reached; it says its claim there."""

    label: str
    address: str
    port: int
    claim: ClaimId


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPaths:
    """Listen on these ports until armed, and reach each target within `limit_s`."""

    claim: ClaimId
    label: str
    address: str
    listens: tuple[int, ...]
    targets: tuple[PathTarget, ...]
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Promise not to abort for `late_s` (D) from receipt; T is `release_at`, daemon's time."""

    claim: ClaimId
    number: ArmNumber
    release_at: float
    late_s: float
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The barrier opens at `release_at` (daemon's time) for those armed under this number."""

    claim: ClaimId
    number: ArmNumber
    release_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The claim's program may run for this share of the time."""

    claim: ClaimId
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Before the pass: do not pass; after it: end."""

    claim: ClaimId


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """The daemon knows durably that the claim is gone."""

    claim: ClaimId


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The daemon's answer to a ping; `sent_at` is the starter's own clock, `now` the daemon's."""

    claim: ClaimId
    nonce: str
    sent_at: float
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KvAnswer:
    """The daemon's answer to a put or get."""

    claim: ClaimId
    request: int
    ok: bool
    value: str = ""
    error: str = ""


# Reports to the daemon ----------------------------------------------------------------------


class ReportState(StrEnum):
    """What the daemon is told of a claim."""

    ASKED = "asked"
    GRANTED = "granted"
    ARMED = "armed"
    PASSED = "passed"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The newest knowledge of a claim; `passed_at` in the daemon's time, None when not passed.
    `batch_job` is the local manager's own number of its job, which the table does not know."""

    claim: ClaimId
    state: ReportState
    nonce: str = ""
    armed: ArmNumber | None = None
    passed_at: float | None = None
    end: End | None = None
    batch_job: str = ""
    address: str = ""
    hosts: Hosts = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsReport:
    """The starter has tried its TCP paths; `problem` is empty when all are open."""

    claim: ClaimId
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the claim's program is at the end of a cycle since its pass: processor-seconds, or
    what it told. `can_pace`: its starter can slow it down."""

    claim: ClaimId
    cycle: int
    work: float
    is_told: bool
    can_pace: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A starter asks whether it is still wanted."""

    claim: ClaimId
    nonce: str
    sent_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPut:
    """A value for all members; request 0 is part of an inventory and wants no answer."""

    claim: ClaimId
    request: int
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KvGet:
    """Asks for a value, and waits for it up to `wait_s`."""

    claim: ClaimId
    request: int
    name: str
    wait_s: float


ToDaemon = Report | PathsReport | Progress | Ping | KvPut | KvGet

# What the agent is told at start and by Welcome -----------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """How long a starter lives unanswered, before and after the barrier, and from TERM to KILL."""

    hold_lease_s: float = 60.0
    run_lease_s: float = 600.0
    kill_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the site allows. Not checked in within `grace_s` of the ask is refused; claims beyond
    `processors_max` or `hold_max_s` are refused at once, and those of others than `users`, whom
    the configuration's `users_key` names (None: everybody's are taken); outputs are brought back
    within `collect_max_s`; what should be over is withdrawn after `linger_s`; what was told and not
    acknowledged is told again, and what was ordered and not confirmed is ordered again, after
    `again_s`."""

    grace_s: float = 5.0
    processors_max: int | None = None
    hold_max_s: float = float("inf")
    users: tuple[str, ...] | None = None
    users_key: str = "accounts.user"
    collect_max_s: float = 300.0
    linger_s: float = 30.0
    again_s: float = 5.0


# The bundle ---------------------------------------------------------------------------------

_PORTS = (20_000, 32_768)
"""Below the range from which Linux gives ports to clients."""


def bundle(claim: ClaimId, peers: tuple[Peer, ...]) -> dict[str, object]:
    """The rendezvous bundle that a component reads: who the members are, and which one it is.

    The master's port is a function of job and attempt, so that all sites name the same one and two
    jobs on one machine rarely do; the daemon has it tried for an MPI world
    (koala.core.model.tcp_paths).
    """
    job, attempt, _component, _number = claim.rsplit("/", 3)
    index = next(i for i, peer in enumerate(peers) if peer.claim == claim)
    low, high = _PORTS
    port = low + zlib.crc32(f"{job}/{attempt}".encode()) % (high - low)
    members = [
        {
            "index": i,
            "component": peer.component,
            "label": peer.label,
            "site": peer.site,
            "processors": peer.processors,
            "processes": peer.processes,
            "job_type": peer.job_type,
            "hosts": [name for name, _count in peer.hosts] or [peer.address],
            "slots": [count for _name, count in peer.hosts] or [peer.processors],
            "address": peer.address,
        }
        for i, peer in enumerate(peers)
    ]
    return {
        "version": 1,
        "job": job,
        "attempt": int(attempt),
        "index": index,
        "label": peers[index].label,
        "members": members,
        "master": {"address": peers[0].address, "port": port},
        "world_size": sum(peer.processes for peer in peers),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterRecord:
    """What a starter wrote down in its folder: it outlives starter and agent."""

    nonce: str
    passed_at: float | None = None
    end: End | None = None
