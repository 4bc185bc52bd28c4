"""Results of the client: typed records of the daemon's JSON documents.

    site = client.sites()[0]
    site.processors          # an attribute, typed
    site["processors"]       # the same name in the document
    site.document            # all of the document, as `--json` prints it

Instants are aware datetimes (UTC) as attributes, and seconds of the epoch in documents. Durations
are seconds (`_s`). A name that a document lacks has its default; one without an attribute is in the
document. docs/api.md describes all names.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from koala.client.phases import TERMINAL_PHASES
from koala.errors import KoalaError

Document: TypeAlias = Mapping[str, Any]

R = TypeVar("R", bound="Record")


class Record:
    """Typed view of a JSON document of the daemon.

    It cannot be iterated over: pandas takes what iterates for a row of values, not for a dataclass.
    """

    _document: ClassVar[Document] = {}

    @property
    def document(self) -> Document:
        """The document itself, as `--json` prints it."""
        return self._document

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a value of JSON
        return self._document[name]

    __iter__: ClassVar[None] = None  # nor by numbers from 0

    def keys(self) -> KeysView[str]:
        """Return the names of the document, which `dict(record)` asks for."""
        return self._document.keys()


def read_record(kind: type[R], document: Document, attributes: Document | None = None) -> R:
    """Read a document as a record, whose attributes may come from another document. Raises
    KoalaError for one of another form."""
    import msgspec  # noqa: PLC0415 - late, for clients to start fast

    try:  # not strict: seconds become datetimes
        record = msgspec.convert(attributes or document, kind, strict=False)
    except msgspec.ValidationError as error:
        raise KoalaError(
            f"the daemon's answer is no {kind.__name__} that this client knows: {error};"
            " compare the versions of daemon and client (`koala doctor`)"
        ) from error
    object.__setattr__(record, "_document", document)
    return record


class StoryLine(NamedTuple):
    """Event of a job, as a sentence."""

    at: datetime
    text: str


@dataclass(kw_only=True)
class DaemonInfo(Record):
    """The daemon, and the caller as the daemon knows it."""

    protocol: int
    version: str
    epoch: int
    user: str
    role: str
    now: datetime
    """The daemon's clock."""
    relay: str = ""
    """Address at which agents reach the daemon's relay of files; empty while it starts."""


# --- jobs -----------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class JobSummary(Record):
    """One job of a list."""

    job: str
    name: str | None = None
    owner: str = ""
    phase: str = ""
    priority: str = "low"
    processors: int = 0
    components: int = 0
    sites: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 0
    reason: str = ""
    copying: Mapping[str, float | None] | None = None

    @property
    def is_over(self) -> bool:
        """True if the job has ended."""
        return self.phase in TERMINAL_PHASES


@dataclass(kw_only=True)
class PartEnd:
    """End of a component; `statuses` has the exit status of each process."""

    kind: str
    text: str = ""
    statuses: tuple[int, ...] = ()
    ended_at: datetime | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None


@dataclass(kw_only=True)
class Part:
    """One component of a job, and its place in the present attempt."""

    component: int
    label: str = ""
    processors: int = 0
    processes: int = 0
    executable: str = ""
    fixed_site: str | None = None
    start_type: str = ""
    site: str | None = None
    file_site: str | None = None
    mips: float = 0.0
    booked_bps: float = 0.0
    gpus: int = 0
    is_fetched: bool = False
    is_dropped: bool = False
    claim: str | None = None
    claim_phase: str | None = None
    claims: int = 0
    asked_at: datetime | None = None
    claimed_at: datetime | None = None
    passed_at: datetime | None = None
    refusal: str | None = None
    end: PartEnd | None = None


@dataclass(kw_only=True)
class Timeline:
    """Points A to E of a job (KOALA, figure 1), and the times between them."""

    submitted_at: datetime | None = None
    placed_at: datetime | None = None
    claim_at: datetime | None = None
    claimed_at: datetime | None = None
    start_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    total_waiting_s: float | None = None
    transfer_estimate_s: float | None = None
    transfer_s: float | None = None
    transfer_bytes: float | None = None
    processor_gained_s: float = 0.0
    processor_wasted_s: float = 0.0
    processor_run_s: float = 0.0
    extra_claiming_tries: int = 0
    start_delay_s: float | None = None
    start_lateness_s: float | None = None
    start_skew_s: float | None = None


@dataclass(kw_only=True)
class Transfer:
    """Copy of an input file to a site."""

    transfer: str
    file: str = ""
    source: str = ""
    target: str = ""
    components: tuple[str, ...] = ()
    size_bytes: float = 0
    moved_bytes: float = 0
    share: float = 0.0
    rate_bps: float | None = None
    left_s: float | None = None
    started_at: datetime | None = None
    told_at: datetime | None = None
    is_done: bool = False


@dataclass(kw_only=True)
class Deadline:
    """Deadline of a job, and its next try."""

    deadline_at: datetime
    next_try_at: datetime | None = None
    tries_left: int = 0


@dataclass(kw_only=True)
class JobProgress:
    """Progress of components that are kept together; `skews` are pairs of seconds and skew."""

    policy: str
    asynchrony_s: float | None = None
    deviation_s: float | None = None
    skew_s: float = 0.0
    largest_skew_s: float = 0.0
    corrections: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)
    skews: tuple[tuple[float, float], ...] = ()


@dataclass(kw_only=True)
class ClaimCost:
    """Cost of one claim: processor-seconds of each kind."""

    claim: str
    batch_job: str | None = None
    job: str = ""
    user: str = ""
    site: str = ""
    processors: int = 0
    asked_at: datetime | None = None
    granted_at: datetime | None = None
    passed_at: datetime | None = None
    ended_at: datetime | None = None
    end: str | None = None
    run_s: float = 0.0
    held_s: float = 0.0
    wasted_s: float = 0.0


@dataclass(kw_only=True)
class Setback:
    """An attempt that was given up, at which sites, and why."""

    attempt: int
    at: datetime
    sites: tuple[str, ...] = ()
    reason: str = ""


@dataclass(kw_only=True)
class JobDetails(JobSummary):
    """All that the daemon shows of one job."""

    status: int | None = None
    queue: str | None = None
    placement_tries: int = 0
    claiming_tries: int = 0
    retries: int = 0
    failures: int = 0
    preemptions: int = 0
    claim_fraction: float = 0.0
    timeline: Timeline = field(default_factory=Timeline)
    deadline: Deadline | None = None
    parts: tuple[Part, ...] = ()
    progress: JobProgress | None = None
    transfers: tuple[Transfer, ...] = ()
    claims_stopping: int = 0
    charges: tuple[ClaimCost, ...] = ()
    setbacks: tuple[Setback, ...] = ()
    story: tuple[StoryLine, ...] = ()
    description: str = ""


@dataclass(kw_only=True)
class Explanation(Record):
    """Sentences that explain why a job waits, or how it ended."""

    job: str
    phase: str
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.why)


@dataclass(kw_only=True)
class JobTimeline(Record):
    """Timeline of a job, with its transfers, the claims of all attempts, and its history."""

    job: str
    phase: str
    attempts: int = 0
    timeline: Timeline = field(default_factory=Timeline)
    transfers: tuple[Transfer, ...] = ()
    parts: tuple[Part, ...] = ()
    charges: tuple[ClaimCost, ...] = ()
    setbacks: tuple[Setback, ...] = ()
    now_at: datetime | None = None
    story: tuple[StoryLine, ...] = ()


@dataclass(kw_only=True)
class CancelResult(Record):
    """Answer to one cancellation; `error` is empty if the job was cancelled."""

    job: str
    phase: str
    error: str = ""


@dataclass(kw_only=True)
class Notice(Record):
    """Event of a job or site; `phase` is that of the job at that time."""

    number: int
    at: datetime
    job: str = ""
    site: str = ""
    phase: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        """Return True except for a mark, which has the number 0."""
        return self.number > 0


NO_NOTICE = Notice(number=0, at=datetime.fromtimestamp(0, UTC))
"""Mark in a stream of notices."""


@dataclass(slots=True, kw_only=True)
class LogPart:
    """Bytes that one process wrote to a stream; `offset` is their position in the attempt."""

    component: int = 0
    label: str = ""
    process: int = 0
    stream: str = ""
    data: bytes = b""
    attempt: int = 0
    offset: int = 0

    @property
    def text(self) -> str:
        """The bytes as UTF-8; a character that is cut at an end of the part is replaced."""
        return self.data.decode(errors="replace")


@dataclass(slots=True, kw_only=True)
class OutputPart:
    """Part of an output file. An empty part with the name and size comes first."""

    name: str
    size_bytes: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class OutputFile:
    """Output file of a job: `name` is LABEL/NAME; `path` is None until it is fetched."""

    name: str
    size_bytes: int
    path: Path | None = None


# --- grid -----------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class LinkStatus(Record):
    """Link from a site: its estimated bandwidth, None if it is not known, and copies under way."""

    to: str
    bytes_per_s: float | None = None
    copies: int = 0


@dataclass(kw_only=True)
class SiteStatus(Record):
    """One site of the grid."""

    site: str
    state: str = ""
    processors: int = 0
    idle: int = 0
    claimed: int = 0
    held: int = 0
    running: int = 0
    local: int = 0
    errors: int = 0
    unusable_until: datetime | None = None
    owner: str | None = None
    users: int = 0
    grace_s: float = 0.0
    may_kill_local: bool = False
    mips: float | None = None
    slots: int | None = None
    gpus: int = 0
    idle_gpus: int = 0
    resources: Mapping[str, Any] = field(default_factory=dict)
    rtt_s: float | None = None
    links: tuple[LinkStatus, ...] = ()
    address: str = ""
    is_drained: bool = False
    trouble: str | None = None
    notice: str = ""
    """Fact about the site that its users should know."""
    version: str | None = None
    """Version of the site's agent; None while it is not connected."""
    enrolment: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(kw_only=True)
class ReplicaFile(Record):
    """Input file of the catalogue, and the sites that have it."""

    file: str
    size_bytes: int | None = None
    checksum: str | None = None
    sites: tuple[str, ...] = ()


@dataclass(kw_only=True)
class AddedFile(Record):
    """File that was added: its name in the catalogue, and the site that has it."""

    file: str
    site: str
    size_bytes: int = 0


@dataclass(kw_only=True)
class RemovedFile(Record):
    """File that was removed from some sites, and is left at those that did not answer."""

    file: str
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Metrics(Record):
    """Counters and gauges of the daemon. Further ones are in the document."""

    epoch: int = 0
    jobs: Mapping[str, int] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, Any] = field(default_factory=dict)
    notices: int = 0
    events: int = 0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0


@dataclass(kw_only=True)
class QueuedJob:
    """Job in a queue; `position` counts from 1 at its head."""

    position: int
    job: str
    name: str | None = None
    owner: str = ""
    priority: str = "low"
    processors: int = 0
    components: int = 0
    queued_at: datetime | None = None
    submitted_at: datetime | None = None
    placement_tries: int = 0


@dataclass(kw_only=True)
class Queue:
    """Queue of jobs that wait, and the first of them that the caller may see."""

    kind: str
    queue: str
    jobs: int = 0
    first: tuple[QueuedJob, ...] = ()


@dataclass(kw_only=True, eq=False)
class Queues(Record):
    """All queues, under the discipline in force; jobs that wait longer than `ageing_s` go first."""

    discipline: str = ""
    ageing_s: float | None = None
    queues: tuple[Queue, ...] = ()


@dataclass(kw_only=True)
class ReportRow:
    """Cost of one user, site, day or job, or of all; processor-seconds of each kind."""

    user: str = ""
    site: str = ""
    day: str = ""
    job: str = ""
    jobs_finished: int = 0
    jobs_failed: int = 0
    jobs_cancelled: int = 0
    claims: int = 0
    run_s: float = 0.0
    held_s: float = 0.0
    wasted_s: float = 0.0
    skew_median_s: float | None = None
    skew_max_s: float | None = None
    failed_claims: int = 0
    setbacks: int = 0


@dataclass(kw_only=True)
class Report(Record):
    """Costs of jobs, a row for each `by`. By claim, `claims` replaces `rows` and `total`."""

    by: str
    since: datetime | None = None
    until: datetime | None = None
    user: str | None = None
    site: str | None = None
    rows: tuple[ReportRow, ...] = ()
    total: ReportRow | None = None
    claims: tuple[ClaimCost, ...] = ()


# --- sites and users ------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Enrolment(Record):
    """A site that was added; `token` only in the answer that adds it."""

    site: str
    owner: str | None = None
    state: str = ""
    by: str = ""
    added_at: datetime | None = None
    joined_at: datetime | None = None
    expires_at: datetime | None = None
    join_expires_at: datetime | None = None
    revoked_at: datetime | None = None
    certificate: str | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(kw_only=True)
class User(Record):
    """A user that was added; `token` and `ca` only in the answer that adds it."""

    user: str
    role: str = ""
    state: str = ""
    shows: str | None = None
    by: str = ""
    added_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    token: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)


@dataclass(kw_only=True)
class AuditLine(Record):
    """A call that changed something, or that was refused; `line["from"]` is its address."""

    at: datetime
    who: str = ""
    role: str = ""
    verb: str = ""
    object: str = ""
    outcome: str = ""
