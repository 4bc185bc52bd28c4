"""The interface of a local manager: any batch system, as the agent uses it.

The agent submits one batch job for each claim (it runs the starter), withdraws it, and receives
reports. All calls are idempotent by claim, because the agent repeats them after each restart.
Outcomes (started, ended, cause) are reported values; `LocalManagerError` is raised only when the
manager itself failed, `transient` when a retry may work. A manager never guesses: if the controller
is silent, `listing` and `find` raise; they do not return an empty answer.

Durations are seconds, memory is bytes. Every call belongs to the event loop that runs `run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from koala.common.protocol import messages
from koala.common.protocol.queue_limits import Times
from koala.errors import LocalManagerError
from koala_agent.transport.command_budget import CommandCounts

NO_WISHES = messages.Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """Batch job that a claim submits.

    With an infinite `time_limit_s` it asks for none, and has the manager's usual one, if there is
    one. `environment` is added to the site's usual environment of jobs, and `KOALA_CLAIM` is always
    set. `directory` is the working directory; it is made when missing, and the job's own output
    goes to `OUTPUT_FILE` in it. A job
    that `may_kill` starts at once, before all waiting jobs, where the site's own jobs may be killed
    for it; the youngest of them are killed, no more than needed, and none unless that makes enough
    room.

    With a `body` the job is this shell script instead of `argv` (which can run it from its standard
    input), and the machine that runs it sees no `directory`: it has no output of its own.

    `resources` are what the job asks for beside processors; a manager lists in `honours` which of
    them it acts on, and ignores the others. Memory is the need of each of the `processes`; a single
    process has the memory of its own machine, several have `resources.cpus_per_task` processors
    each.

    It runs as `account`, empty for the agent's own; such a job has a `body`.

    One that `is_gated` does not start before it is opened, also where a manager must submit it
    first and gate it then.

    With `begins_at`, an instant of the site's clock (seconds since the epoch), its processors are
    booked from then on for its time limit, and it runs in the booking; `booking` is the number of
    that, once the manager has made it. A booking is given back with the end of its job, whether it
    has begun or not.
    """

    claim: str
    processors: int
    time_limit_s: float
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    directory: Path
    body: str = ""
    may_kill: bool = False
    resources: messages.Resources = NO_WISHES
    processes: int = 1
    account: str = ""
    is_gated: bool = False
    begins_at: float = 0.0
    booking: str = ""

    def has_resource_requests(self) -> bool:
        """Return True when a refusal of the manager may be the job's own fault."""
        return self.resources != NO_WISHES


OUTPUT_FILE = "placeholder.out"
"""File of a placeholder's standard output and error, in its directory."""


class RequestRefusedError(LocalManagerError):
    """The local manager works, and refuses this request (for now): no fault of the site."""


class UnclearRefusalError(RequestRefusedError):
    """Refusal in words that Koala does not know: it may be of all requests of an account."""


class PausedError(LocalManagerError):
    """Nothing was sent, because the local manager took no request a moment ago; a retry may work
    after `again_s`."""

    def __init__(self, reason: str, *, again_s: float) -> None:
        super().__init__(reason, transient=True)
        self.again_s = again_s


class EndCause(StrEnum):
    """Cause of a batch job's end."""

    EXITED = "exited"
    """The job exited by itself, with its exit status when that is known."""
    TIME_LIMIT = "time_limit"
    """The manager ended it at its time limit."""
    WITHDRAWN = "withdrawn"
    """The agent ended or dequeued it."""
    CANCELLED_BY_SITE = "cancelled_by_site"
    """Somebody at the site ended or dequeued it; no error of the site."""
    CANCELLED_BEGUN = "cancelled_begun"
    """The same after it had begun, perhaps because the site could not start it."""
    LOST = "lost"
    """The manager could not start it, or lost it; nothing of it is left."""
    UNREACHABLE = "unreachable"
    """One of its machines does not answer, and the manager counts the job as ended. That is no
    proof: the processes there may be alive."""


CANCELLED = (EndCause.CANCELLED_BY_SITE, EndCause.CANCELLED_BEGUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """The batch job of this claim waits in the queue."""

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The batch job of this claim runs, or is being ended: its processors are taken."""

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The batch job of this claim has ended: no process is left, its processors are free (as far as
    the manager knows, where the cause is UNREACHABLE).

    `exit_status` is None when it is unknown (no observer at the end, or never started), and -n when
    signal n ended the job. `cpu_s` and `peak_memory_bytes` are those of all its processes as far as
    they were sampled. `reason` is for a person, and so is `waited_for`: the local manager's words
    for the wait of a claim that was withdrawn before it started.
    """

    claim: str
    cause: EndCause
    exit_status: int | None = None
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    reason: str = ""
    waited_for: str = ""


Listed = Queued | Running | Ended
"""State of one claim in a local manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Processors of the site now.

    `idle` run nothing; `startable` is the largest claim of unlimited time that would start at once
    (less than `idle` when other jobs wait); `queued_jobs` counts all users' jobs;
    `local_processors` are held by local jobs of the site's own users. `trouble` is a problem for
    the site's administrator; empty for none. `idle_gpus` are those of `resources` that a claim
    could have. `foreign_queued` are the jobs of others among `queued_jobs`. `waits` are the
    expected starts of our waiting claims, and `outlook` those of further ones, as far as they are
    known. `gate_tried` is what a probe saw of the gate in force.

    `why` says in words, with numbers, why no more processors are startable; empty where all are, or
    `trouble` says it. `asleep` of the startable ones are powered down, and up after `wake_s`.
    `holes` are more processors that are startable for claims that end soon. `taken` are those of
    our claims that have another number than they asked for. `commands` are those that were run at
    the batch system lately. `reservations` are those that claims may name, with the processors
    that are idle in each; None where they are unknown.
    """

    processors: int
    idle: int
    startable: int
    queued_jobs: int
    local_processors: int
    trouble: str = ""
    idle_gpus: int = 0
    resources: messages.SiteResources = messages.NO_RESOURCES
    waits: tuple[messages.Wait, ...] = ()
    foreign_queued: int = 0
    commands: CommandCounts | None = field(default=None, compare=False)
    outlook: tuple[messages.Outlook, ...] = ()
    gate_tried: str = ""
    why: str = ""
    asleep: int = 0
    wake_s: float = 0.0
    holes: tuple[messages.Hole, ...] = ()
    taken: tuple[messages.Taken, ...] = ()
    reservations: messages.NamedCounts | None = None


OnReport = Callable[[Listed | Idle], None]
"""Callback of a manager, called when a claim starts or ends and when the idle processors change; on
the loop, never from within a call into the manager, and in order for each claim."""


class LocalManager(Protocol):
    """Local resource manager as the agent sees it; `OnReport` is given at construction."""

    @property
    def starts_after_stop(self) -> bool:
        """True when a claim submitted now would start as soon as running claims of enough
        processors end. Read before a preemption: where it is False no job is preempted."""

    @property
    def honours(self) -> tuple[str, ...]:
        """RSL names of the resources that the manager acts on. A job that asks for another gets a
        warning at submission. Jobs cannot set what the site's configuration sets."""

    @property
    def gate(self) -> str:
        """Name of the means by which `set_gate` keeps a claim from starting; empty when there is
        none, and claims are not gated."""

    @property
    def books(self) -> str:
        """Name of the way in which claims with a known start are booked; empty when there is none,
        and `submit` refuses them."""

    def times(self, resources: messages.Resources) -> Times:
        """Return the times that a batch job with these wishes may have, as far as is known."""

    def number(self, claim: str) -> str:
        """Return the batch system's number of the claim's job, for its records; empty when it has
        no numbers, has not assigned it yet, or has forgotten the claim."""

    async def run(self) -> None:
        """Find the jobs of an earlier run, then serve until `close` or until cancelled."""

    async def opened(self) -> None:
        """Wait until `run` has found the earlier jobs: from then on `listing` is complete."""

    async def close(self, *, kill: bool = False) -> None:
        """Make `run` return. Batch jobs stay as they are; with `kill` all are ended first."""

    async def submit(self, placeholder: Placeholder) -> None:
        """Queue the batch job, once for each claim: a known claim, even an ended one, is left
        alone. Raises `LocalManagerError`; after a transient one it may or may not be queued."""

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """Make the batch job of a waiting claim ineligible, or eligible again, with its place in
        the queue kept. Idempotent; one that runs, has ended or is unknown is left alone. Raises
        `LocalManagerError`."""

    async def withdraw(self, claim: str) -> None:
        """Dequeue or end the batch job; return when that is ordered. `Ended` is reported when
        nothing is left of it. An ended or unknown claim is left alone."""

    def note_start(self, claim: str) -> None:
        """Note that the claim's starter has checked in: its batch job runs."""

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """Note that the claim's starter has ended all, said so, and hung up; if it `is_gone`, no
        process is left, and `Ended` may be reported before the manager has seen the end."""

    async def listing(self) -> tuple[Listed, ...]:
        """Return all that the manager knows under our names, in the order of submission."""

    async def find(self, claim: str) -> Listed | None:
        """Return the claim's entry of a listing; None when it has none."""

    async def idle(self) -> Idle:
        """Return the processors now."""
