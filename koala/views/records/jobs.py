"""Jobs: in a list, in whole, as a timeline; explanations and notices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from koala.views.records.accounts import ClaimCost
from koala.views.records.base import Moment, Record
from koala.views.records.phases import TERMINAL_PHASES, Phase


class StoryLine(NamedTuple):
    """Event of a job, as a sentence."""

    at: Moment
    text: str


class Copying(Record, frozen=True, kw_only=True):
    """Copies under way for a job, together."""

    moved_bytes: int
    """Bytes that have arrived, by the last reports."""
    size_bytes: int
    """Bytes in all."""
    left_s: float | None
    """Remaining time; null: overdue."""


class JobSummary(Record, frozen=True, kw_only=True):
    """One job of a list."""

    shown = ("job", "name", "phase", "processors", "sites", "submitted_at", "reason")

    job: str
    """Id of the job."""
    name: str | None = None
    """Name that its owner gave it; empty: none."""
    owner: str = ""
    """User who submitted it."""
    phase: Phase | Literal["Damaged"]
    """Phase now. An archived job is Damaged if it does not match its checksum."""
    priority: str = "low"
    """`high` or `low`."""
    processors: int = 0
    """Processors of all components."""
    components: int = 0
    """Number of components."""
    sites: tuple[str, ...] = ()
    """Execution sites of the present attempt, one for each component."""
    programs: tuple[str, ...] = ()
    """Executables of the components, each once."""
    submitted_at: Moment = Moment.of(0.0)
    """When it was submitted."""
    started_at: Moment | None = None
    """When its last component passed the barrier in the last attempt."""
    ended_at: Moment | None = None
    """When it ended."""
    attempts: int = 0
    """Attempts so far."""
    reason: str = ""
    """Why it Failed or is Stopping, who cancelled it (`by ann`), or in short what it waits for."""
    copying: Copying | None = None
    """Copies of its input files under way; null: none."""

    @property
    def is_over(self) -> bool:
        """True if the job has ended."""
        return self.phase in TERMINAL_PHASES


class PartEnd(Record, frozen=True, kw_only=True):
    """End of a component."""

    kind: str
    """Kind of the end."""
    text: str = ""
    """The end as a sentence."""
    statuses: tuple[int, ...] = ()
    """Exit status of each process, or the negative number of its signal."""
    ended_at: Moment | None = None
    """When it ended."""
    cpu_s: float | None = None
    """Processor time that it used."""
    memory_bytes: int | None = None
    """Most memory that it used."""


class PartCourse(Record, frozen=True, kw_only=True):
    """One component of a job in the present attempt, as a timeline has it."""

    shown: ClassVar[tuple[str, ...]] = ("label", "site", "processors")

    component: int
    """Index of the component."""
    label: str = ""
    """Its label, or its index."""
    processors: int = 0
    """Number of processors."""
    site: str | None = None
    """Execution site; null: not placed."""
    claims: int = 0
    """Claims of it so far in this attempt."""
    asked_at: Moment | None = None
    """When its live claim was asked for; null: none is live."""


class QueueWait(Record, frozen=True, kw_only=True):
    """Claim that waits in the local queue of a site."""

    claim: str
    """Id of the claim."""
    site: str
    """The site."""
    system: str = ""
    """Its batch system; empty: the agent's own, or unknown."""
    batch_job: str = ""
    """Number of the claim's batch job; empty: none yet, or unknown."""
    reason: str = ""
    """Why it waits, in the batch system's words; empty: unknown."""
    asked_at: Moment
    """Since when it waits."""
    is_gated: bool = False
    """It cannot start now, and keeps its place in the queue."""
    start_at: Moment | None = None
    """When it would start if it were open from now on; null: unknown."""
    earliest_at: Moment | None = None
    """Begin of the interval in which that is expected."""
    latest_at: Moment | None = None
    """End of this interval."""
    source: str = ""
    """How the site knows it."""
    withdrawn_at: Moment | None = None
    """When it is withdrawn if it has not started; null: it waits as long as it takes."""


class Part(PartCourse, frozen=True, kw_only=True):
    """One component of a job, and its place in the present attempt."""

    shown = ("label", "site", "processors", "executable", "claim_phase", "wait")

    processes: int = 0
    """Number of processes."""
    gpus: int = 0
    """GPUs that it asks for."""
    executable: str = ""
    """Its program."""
    fixed_site: str | None = None
    """Site that the description names."""
    start_type: str = ""
    """How it takes part in the common start."""
    file_site: str | None = None
    """Source of the input file."""
    mips: float = 0.0
    """Rate that the placement promised; 0: none."""
    booked_bps: float = 0.0
    """Bandwidth booked for its file now, in bytes a second."""
    is_fetched: bool = False
    """Its file is there."""
    is_dropped: bool = False
    """It takes no part in the attempt."""
    claim: str | None = None
    """Id of its last claim."""
    claim_phase: str | None = None
    """Phase of the claim; null: it is over."""
    claimed_at: Moment | None = None
    """When its claim checked in."""
    passed_at: Moment | None = None
    """When it passed the barrier."""
    refusal: str | None = None
    """Why its last claim was refused; empty or null: it was not."""
    end: PartEnd | None = None
    """How it ended; null: it has not."""
    waits: tuple[QueueWait, ...] = ()
    """Its claims that wait in local queues, the oldest first."""
    wait: str = ""
    """Its wait or its hold there, in words."""


class ExpectedStart(Record, frozen=True, kw_only=True):
    """Expected start of a job whose claims wait in local queues, and what its wait costs."""

    start_at: Moment | None = None
    """When its slowest component would start; null: its site does not tell."""
    earliest_at: Moment | None = None
    """Begin of the interval in which that is expected."""
    latest_at: Moment | None = None
    """End of this interval."""
    component: str
    """Label of the slowest component."""
    site: str
    """Where that one waits."""
    is_place_kept: bool = False
    """True if claims that would come up too early are gated, and keep their places in the queue."""
    held_s: float = 0.0
    """Processor-seconds that its claims have held before its start, up to now."""
    round_s: float = 0.0
    """Most processor-seconds that the waiting claims may hold when they come up."""
    budget_left_s: float | None = None
    """Processor-seconds that its owner's hold budget has left; null: no limit."""
    sooner: tuple[str, ...] = ()
    """Changes with which it would start sooner, in words."""
    words: tuple[str, ...] = ()
    """All of this as sentences."""


class Timeline(Record, frozen=True, kw_only=True):
    """Points A to E of a job (KOALA, figure 1), and the times between them."""

    submitted_at: Moment = Moment.of(0.0)
    """Point A."""
    placed_at: Moment | None = None
    """Point B."""
    claim_at: Moment | None = None
    """Next claiming try (JCT)."""
    claimed_at: Moment | None = None
    """Point C."""
    start_at: Moment | None = None
    """Planned start (JST). With `start = "early"` it is the latest one until all files and claims
    are there."""
    started_at: Moment | None = None
    """Point D."""
    ended_at: Moment | None = None
    """Point E."""
    total_waiting_s: float | None = None
    """Submission to start (TWT)."""
    transfer_estimate_s: float | None = None
    """Estimated time of the transfers (FTT)."""
    transfer_s: float | None = None
    """Their real time."""
    transfer_bytes: int | None = None
    """Their size."""
    processor_gained_s: float = 0.0
    """Processor-seconds placed and not yet claimed (PGT)."""
    processor_wasted_s: float = 0.0
    """Processor-seconds claimed and not yet started (PWT), up to now."""
    processor_run_s: float = 0.0
    """Processor-seconds after the start, up to now."""
    extra_claiming_tries: int = 0
    """Claiming tries beyond the first (ACT)."""
    start_delay_s: float | None = None
    """Last planned start less the first one."""
    start_lateness_s: float | None = None
    """Start less the planned start."""
    start_skew_s: float | None = None
    """Last pass of the barrier less the first one."""


class Transfer(Record, frozen=True, kw_only=True):
    """Copy of an input file to a site."""

    transfer: str = ""
    """Id of the copy."""
    file: str = ""
    """Name of the file in the catalogue."""
    source: str = ""
    """Site that sends it."""
    target: str = ""
    """Site that receives it."""
    components: tuple[str, ...] = ()
    """Labels of the components that read it."""
    size_bytes: int = 0
    """Size of the file."""
    moved_bytes: int = 0
    """Bytes that have arrived."""
    share: float = 0.0
    """The same as a share, 0 to 1."""
    rate_bps: float | None = None
    """Last reported rate in bytes a second; null before the first report."""
    left_s: float | None = None
    """Remaining time; null: it takes longer than expected."""
    started_at: Moment
    """Start of the copy."""
    told_at: Moment | None = None
    """When the site last reported."""
    is_done: bool = False
    """It is complete."""


class Deadline(Record, frozen=True, kw_only=True):
    """Deadline of a job, and its next tries."""

    deadline_at: Moment
    """The deadline."""
    next_try_at: Moment | None = None
    """Next claiming try; null: none is left."""
    tries_left: int = 0
    """Claiming tries that are left."""


class PortWay(Record, frozen=True, kw_only=True):
    """Way of one component to a port of another one."""

    name: str
    """Name of the port."""
    owner: str
    """Label of the component that listens."""
    component: str
    """Label of the component that connects."""
    is_forwarded: bool = False
    """True: through the grid; false: directly."""
    problem: str = ""
    """Why it is not reached directly; empty: it is."""
    rtt_s: float | None = None
    """Round trip of the test or newest connection; null: none yet."""
    connections: int = 0
    """Connections so far, by the newest report."""
    moved_bytes: int = 0
    """Their bytes, in both directions."""
    rate_bps: float | None = None
    """Bytes a second, while any moved; null: none yet."""
    refused: int = 0
    """Connections refused so far."""
    refusal: str = ""
    """Reason of the newest."""
    words: str = ""
    """All of this as a sentence."""


class JobProgress(Record, frozen=True, kw_only=True):
    """Progress of components that are kept together."""

    policy: str
    """Policy that keeps them together."""
    asynchrony_s: float | None = None
    """Skew that is allowed."""
    deviation_s: float | None = None
    """Deviation from it that is allowed."""
    skew_s: float = 0.0
    """Skew now."""
    largest_skew_s: float = 0.0
    """Largest skew so far."""
    corrections: int = 0
    """Corrections so far."""
    shares: Mapping[str, float] = {}
    """Shares of components that are held back, by label."""
    skews: tuple[tuple[float, float], ...] = ()
    """Pairs of seconds since the start and skew."""


class JobSize(Record, frozen=True, kw_only=True):
    """Size of a malleable job, in processors, and the components that come and go."""

    processors: int
    """Processors of the components that run."""
    least: int
    """It starts with so many, and keeps them."""
    total: int
    """It grows to so many."""
    resizes: int = 0
    """Changes that its components were told in this attempt."""
    joining: tuple[str, ...] = ()
    """Labels of components that are about to join."""
    leaving: tuple[str, ...] = ()
    """Labels of components that were asked to give way."""
    leave_at: Moment | None = None
    """When the first of these is stopped; null: none."""
    words: tuple[str, ...] = ()
    """All of this as sentences."""


class Setback(Record, frozen=True, kw_only=True):
    """An attempt that was given up."""

    attempt: int
    """Number of the attempt, from 1 on."""
    at: Moment
    """When it was given up."""
    sites: tuple[str, ...] = ()
    """Sites where it was placed."""
    reason: str = ""
    """Why; empty for old ones of a long life."""


class JobDetails(JobSummary, frozen=True, kw_only=True):
    """All that the daemon shows of one job."""

    status: int | None = None
    """Exit status of a Failed job, or the negative number of a signal."""
    queue: str | None = None
    """Present or last queue: `high`, `low`, `global`, or the site of a local queue; null: none."""
    placement_tries: int = 0
    """Placement tries so far."""
    claiming_tries: int = 0
    """Claiming tries so far."""
    retries: int = 0
    """Attempts that it was given back to its queue for."""
    failures: int = 0
    """Attempts ended by a site's fault."""
    preemptions: int = 0
    """Attempts preempted by a job of high priority."""
    claim_fraction: float = 0.0
    """L of the next placement."""
    timeline: Timeline = Timeline()
    """Points A to E, and the times between them."""
    deadline: Deadline | None = None
    """Its deadline; null: none."""
    total: str = ""
    """Total and bounds of a flexible job, which `parts` shows as it is split; empty for others."""
    parts: tuple[Part, ...] = ()
    """Its components."""
    expected: ExpectedStart | None = None
    """Its expected start; null: no claim of it waits in a local queue."""
    progress: JobProgress | None = None
    """Progress of components that are kept together; null: they are not."""
    size: JobSize | None = None
    """Size of a malleable job in its attempt; null: the job is not, or is not placed."""
    transfers: tuple[Transfer, ...] = ()
    """Copies of input files in the last attempt."""
    ports: tuple[PortWay, ...] = ()
    """Ways to ports of components in the last attempt."""
    claims_stopping: int = 0
    """Claims of a job that is over that sites have not confirmed as stopped."""
    charges: tuple[ClaimCost, ...] = ()
    """Cost of the newest 60 claims that held processors."""
    setbacks: tuple[Setback, ...] = ()
    """Attempts that were given up."""
    story: tuple[StoryLine, ...] = ()
    """Pairs of instant and sentence."""
    description: str = ""
    """The job as RSL; empty if RSL has no words for it."""

    def _belongings(self) -> tuple[tuple[object, ...], ...]:
        return self.parts, self.story


class JobTimeline(Record, frozen=True, kw_only=True):
    """Timeline of a job, with its transfers, the claims of all attempts, and its history."""

    shown = ("job", "phase", "attempts")

    job: str
    """Id of the job."""
    phase: Phase
    """Phase now."""
    attempts: int = 0
    """Attempts so far."""
    timeline: Timeline = Timeline()
    """Points A to E, and the times between them."""
    transfers: tuple[Transfer, ...] = ()
    """Copies of input files in the last attempt."""
    setbacks: tuple[Setback, ...] = ()
    """Attempts that were given up."""
    story: tuple[StoryLine, ...] = ()
    """Pairs of instant and sentence."""
    parts: tuple[PartCourse, ...] = ()
    """Its components."""
    charges: tuple[ClaimCost, ...] = ()
    """Cost of the newest 1,000 claims that held processors."""
    now_at: Moment | None = None
    """Instant of the answer; null: the job is over."""

    def _belongings(self) -> tuple[tuple[object, ...], ...]:
        return self.parts, self.story


class JobPage(Record, frozen=True, kw_only=True):
    """A page of the list of jobs, in order of submission."""

    jobs: tuple[JobSummary, ...] = ()
    """The jobs; each is correct for some instant of the call."""
    next: str | None = None
    """`after` of the next page; null: there is none."""


class Explanation(Record, frozen=True, kw_only=True):
    """Sentences that explain why a job waits, or how it ended."""

    job: str
    """Id of the job."""
    phase: Phase
    """Phase now."""
    why: tuple[str, ...] = ()
    """The sentences."""

    def __str__(self) -> str:
        return "\n".join(self.why)


class CancelResult(Record, frozen=True, kw_only=True):
    """Answer to one cancellation."""

    job: str
    """Id of the job."""
    phase: Phase | Literal[""]
    """Phase now; empty for an unknown job."""
    error: str = ""
    """Why it was not cancelled; empty: it was."""


class Notice(Record, frozen=True, kw_only=True):
    """Event of a job or site."""

    shown = ("number", "at", "job", "site", "phase", "text")

    number: int
    """Number of the event; numbers increase by one, over restarts."""
    at: Moment
    """When it happened."""
    job: str = ""
    """Id of the job; empty for an event of a site."""
    site: str = ""
    """Name of the site; empty for an event of a job."""
    phase: Phase | Literal[""] = ""
    """Phase of the job at that time; empty for an event of a site."""
    text: str = ""
    """Text that it adds to the phase; may be empty."""

    def __bool__(self) -> bool:
        """Return True except for a mark, which has the number 0."""
        return self.number > 0


NO_NOTICE = Notice(number=0, at=Moment.of(0.0))
"""Mark in a stream of notices."""
