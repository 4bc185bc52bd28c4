"""Events: facts that the driver feeds to the core. Frozen, in the past tense; each event is a
journal record.

An event may be late, duplicated, or about something that is over; `Scheduler.handle` then changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, get_args

from koala.common.protocol.messages import PortPath, PortUse
from koala.core.model.allowances import Allowance, Payer
from koala.core.model.grid import SiteFacts
from koala.core.model.job import ArmNumber, ClaimEnd
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.progress_reports import MemberReport
from koala.core.model.values import (
    ClaimId,
    FileName,
    Instant,
    JobId,
    Seconds,
    SiteName,
    TransferId,
    UserName,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStarted:
    """First event after each start of the daemon; all sites count as disconnected from here on.

    `after_loss`: earlier events may be missing, so sites may know more than the journal.
    """

    epoch: int
    after_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersChanged:
    """The daemon runs with these parameters from here on.

    `links` are (from, to, bytes a second) as configured; `bookable` is the part of them that jobs
    may book. `policies` names the policies in force as (slot, name), for information only: a replay
    uses their recorded answers.
    """

    parameters: Parameters
    links: tuple[tuple[SiteName, SiteName, float], ...] = ()
    policies: tuple[tuple[str, str], ...] = ()
    bookable: tuple[tuple[SiteName, SiteName, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowancesSet:
    """Users and groups have these limits from here on; those that are not named have none."""

    allowances: tuple[tuple[Payer, Allowance], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A job was accepted; `key` makes the submission idempotent, `digest` identifies its text.

    Both are empty for a submission without a key.
    """

    job: JobId
    spec: JobSpec
    key: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelRequested:
    """The owner or an operator asked to cancel the job."""

    job: JobId
    by: UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResizeRequested:
    """The owner or an operator asked for another total of a malleable job."""

    job: JobId
    total: int
    by: UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRegistered:
    """A site's agent has a session with the daemon; its inventory follows as ordinary events."""

    site: SiteName
    facts: SiteFacts
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDisconnected:
    """The session with the site's agent was cut."""

    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReported:
    """A site's idle (startable) processors; the report includes all claims up to ask number
    `through`. `local` are the processors of local jobs that run. With `tells_resources` the
    facts of the site have its resources now; before its batch system answers they have none.
    `silence` is the reason why that gives no answer, empty while it does.
    """

    site: SiteName
    idle: int
    through: int
    rtt_s: Seconds = 0.0
    local: int = 0
    idle_gpus: int = 0
    tells_resources: bool = True
    silence: str = ""
    queued: int = 0  # jobs of others that wait for processors
    starts: tuple[tuple[ClaimId, Seconds | None], ...] = ()  # in so many seconds; None: unknown
    # Processors and run time of a claim that would be asked for now, and the time until its start.
    outlook: tuple[tuple[int, Seconds, Seconds], ...] = ()
    asleep: int = 0  # idle processors that are powered down
    wake_s: Seconds = 0.0  # until those are up
    holes: tuple[tuple[int, Seconds], ...] = ()  # more that are idle for claims that end so soon
    taken: tuple[tuple[ClaimId, int], ...] = ()  # processors of claims that have others than asked
    # Idle processors of each reservation that claims may name; None: unknown.
    reservations: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDrained:
    """An operator drained the site: no new claims there."""

    site: SiteName
    by: UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteResumed:
    """An operator resumed the site: it is usable again, and its errors are reset."""

    site: SiteName
    by: UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDeclaredLost:
    """An operator confirmed that no claim of Koala is alive at this site any more."""

    site: SiteName
    by: UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAdded:
    """A site has a new copy of a logical file."""

    file: FileName
    site: SiteName
    size_bytes: int
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRemoved:
    """A site does not have its copy of a logical file any more."""

    file: FileName
    site: SiteName


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimGranted:
    """The agent has durably bound the claim to a starter that checked in. `batch_job` is the job
    number in the site's batch system, empty if it is not known (yet).
    """

    claim: ClaimId
    nonce: str
    batch_job: str = ""
    address: str = ""  # where its starter is, as its agent sees it
    hosts: tuple[tuple[str, int], ...] = ()  # of its allocation: names and processors


@dataclass(frozen=True, slots=True, kw_only=True)
class PathsTried:
    """The claim's starter listens on its ports and reached all its targets, or reports a
    `problem`; the claims that it `reached` come with the round trips to them. `ports` are the
    results of paths that may be closed.
    """

    claim: ClaimId
    problem: str = ""
    reached: tuple[tuple[ClaimId, Seconds], ...] = ()
    ports: tuple[PortPath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsUsed:
    """The claim's program has moved so much to ports of others through the grid."""

    claim: ClaimId
    ports: tuple[PortUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported:
    """All running components of an attempt reported their progress at the end of this cycle. Cycles
    count from the pass.
    """

    job: JobId
    attempt: int
    cycle: int
    members: tuple[MemberReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimArmed:
    """The starter promised not to abort until D after its receipt of this Arm."""

    claim: ClaimId
    number: ArmNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPassed:
    """The starter passed the barrier at `passed_at`, in the daemon's time by the agent's offset."""

    claim: ClaimId
    passed_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimGone:
    """Nothing is left of the claim: no process, no batch job. Refusals and failures are kinds of
    end.
    """

    claim: ClaimId
    end: ClaimEnd
    batch_job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFenced:
    """The claim was silent past its lease; or it was released, its agent is heard, and it tells
    neither a pass nor an end.

    At a disconnected site it is certainly dead. A connected one is asked to stop it first.
    """

    claim: ClaimId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgressed:
    """`size_bytes` of the file or chunk are at the execution site, `took_s` after the first were
    requested. Reported at a bounded rate, and never for short copies.
    """

    transfer: TransferId
    size_bytes: int
    took_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFinished:
    """The file, or the chunk of it, is complete and checked at the execution site."""

    transfer: TransferId
    size_bytes: int
    took_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """The transfer failed; `at` is the site at fault, None when neither is."""

    transfer: TransferId
    at: SiteName | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """The instant `Scheduler.wake_at` has come."""


Event: TypeAlias = (
    DaemonStarted
    | ParametersChanged
    | AllowancesSet
    | JobSubmitted
    | JobCancelRequested
    | JobResizeRequested
    | SiteRegistered
    | SiteDisconnected
    | SiteReported
    | SiteDrained
    | SiteResumed
    | SiteDeclaredLost
    | ReplicaAdded
    | ReplicaRemoved
    | ClaimGranted
    | PathsTried
    | PortsUsed
    | ProgressReported
    | ClaimArmed
    | ClaimPassed
    | ClaimGone
    | ClaimFenced
    | TransferProgressed
    | TransferFinished
    | TransferFailed
    | Woken
)
EVENTS: dict[str, type[Event]] = {cls.__name__: cls for cls in get_args(Event)}
"""Event classes by the tags in the journal: their names. A class that is renamed keeps its tag
here."""
KINDS: dict[type[Event], str] = {cls: kind for kind, cls in EVENTS.items()}
