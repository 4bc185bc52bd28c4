"""The port to a local resource manager: what the agent asks of any batch system.

The agent submits one batch job a claim (it runs the starter), withdraws it, and is told what
happens. All calls are idempotent by claim, because the agent repeats them after each restart.
Outcomes (started, ended, how) are values that are told; `LocalManagerError` is raised only when the
manager itself erred, `transient` when it may work later. What a manager does not know it never
makes up: a silent controller makes `listing` raise, and is not an empty list.

Durations are seconds, memory is bytes. Every call belongs to the event loop that runs `run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from koala.errors import LocalManagerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """The batch job that a claim submits.

    `time_limit_s` may be infinite where the manager allows it. `environment` is added to what jobs
    of this site have anyway, and `KOALA_CLAIM` is always set. `directory` is the working directory;
    it is made when missing, and the job's own output goes to `OUTPUT_FILE` in it. One that
    `may_kill` starts at once, before all that wait, where the site's own jobs may be killed for it;
    the youngest of them go, no more than needed, and none unless that makes room enough.

    With a `body` the job is this shell script instead of `argv` (which can run it from its standard
    input), and the machine that runs it sees no `directory`: it has no output of its own.

    `queue`, `project`, `hosts` and `memory_min_mb` are what the job wishes (empty and 0: nothing);
    a manager says in `honours` which of them it acts on, and leaves the others. `hosts` is the
    number of machines to spread over, `memory_min_mb` what each of the `processes` needs; a single
    process has the memory of its own machine, several have one processor each.

    It runs as `account`, empty for the agent's own; such a job has a `body`.
    """

    claim: str
    processors: int
    time_limit_s: float
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    directory: Path
    body: str = ""
    may_kill: bool = False
    queue: str = ""
    project: str = ""
    hosts: int = 0
    memory_min_mb: int = 0
    processes: int = 1
    account: str = ""

    def has_wishes(self) -> bool:
        """Whether a refusal of the manager may be the job's own fault."""
        return bool(self.queue or self.project or self.hosts or self.memory_min_mb)


OUTPUT_FILE = "placeholder.out"
"""Where standard output and error of a placeholder go, in its directory."""


class RequestRefusedError(LocalManagerError):
    """The local manager is well and will not have this request (now): no error of the site's."""


class EndCause(StrEnum):
    """How a batch job came to its end."""

    EXITED = "exited"
    """By itself, with its exit status when that is known."""
    TIME_LIMIT = "time_limit"
    """The manager ended it at its time limit."""
    WITHDRAWN = "withdrawn"
    """We ended or dequeued it."""
    CANCELLED_BY_SITE = "cancelled_by_site"
    """Somebody at the site ended or dequeued it; no error of the site."""
    LOST = "lost"
    """The manager could not start it, or lost it; nothing of it is left."""
    UNREACHABLE = "unreachable"
    """A machine of it answers no more and the manager counts it as ended, which is no proof: the
    processes there may live on."""


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
    """The batch job of this claim has ended: no process is left, its processors are free (for all
    that the manager knows, where the cause is UNREACHABLE).

    `exit_status` is None when nobody knows it (it ended while nobody watched, or never ran), and
    -n when signal n ended the job. `cpu_s` and `peak_memory_bytes` are those of all its processes
    as far as they were seen. `reason` is for a person.
    """

    claim: str
    cause: EndCause
    exit_status: int | None = None
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    reason: str = ""


Listed = Queued | Running | Ended
"""What a local manager knows of one claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The processors of the site now.

    `idle` run nothing; `startable` is the largest claim of unlimited time that would start at once
    (less than `idle` when somebody waits); `queued_jobs` counts those of everybody;
    `local_processors` are those that local jobs of the site's own users hold. `trouble` is what the
    site's administrator should mend, in words; empty when nothing is known.
    """

    processors: int
    idle: int
    startable: int
    queued_jobs: int
    local_processors: int
    trouble: str = ""


Tell = Callable[[Listed | Idle], None]
"""Called by a manager when a claim starts or ends and when the idle processors change; on the loop,
never from within a call into the manager, and for one claim in order."""


class LocalManager(Protocol):
    """A local resource manager as the agent sees it; `Tell` is given at construction."""

    @property
    def starts_after_stop(self) -> bool:
        """Whether a claim submitted now would start as soon as running claims of enough processors
        end. Asked before a preemption: where it is False nobody is preempted."""

    @property
    def honours(self) -> tuple[str, ...]:
        """What of `hostCount`, `minMemory`, `queue` and `project` it acts on. Whoever asks for
        another is warned at submission. What the site's configuration sets it does not leave to
        jobs."""

    def number(self, claim: str) -> str:
        """What the batch system itself calls the claim's job, for its records; empty when it gives
        no numbers, has not told it yet, or has forgotten the claim."""

    async def run(self) -> None:
        """Finds what an earlier run left, then serves until `close` or until cancelled."""

    async def opened(self) -> None:
        """Returns when `run` has found what was left: from then on `listing` is complete."""

    async def close(self, *, kill: bool = False) -> None:
        """Makes `run` return. Batch jobs stay as they are; with `kill` all are ended first."""

    async def submit(self, placeholder: Placeholder) -> None:
        """Queues the batch job, once a claim: a claim that is known, ended ones included, is left
        alone. Raises `LocalManagerError`; after a transient one it may or may not be queued."""

    async def withdraw(self, claim: str) -> None:
        """Dequeues or ends the batch job; returns when that is ordered, and `Ended` is told when
        nothing is left of it. An ended or unknown claim is left alone."""

    async def listing(self) -> tuple[Listed, ...]:
        """All the manager knows under our names, in the order of submission."""

    async def idle(self) -> Idle:
        """The processors now."""


@asynccontextmanager
async def serving(manager: LocalManager, *, kill: bool = False) -> AsyncIterator[LocalManager]:
    """Runs a local manager around a block; at its end the manager is closed.

    A manager that fails ends the block; a block that fails cancels the manager, which leaves batch
    jobs as they are.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        await manager.opened()
        yield manager
        await manager.close(kill=kill)
