"""What batch systems have in common, and the words in which each says it: a dialect.

A dialect is pure: it builds command lines and reads answers. `batch.BatchManager` runs them, keeps
what it learnt, and is the same for all. The names of batch jobs are the only way in which a job is
found again after a crash at any instant: `koala-SCOPE-j12.1.0.1` is the claim j12/1/0/1 of the
agent whose state directory has the mark SCOPE.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from koala.protocol import names
from koala_agent.lrm.port import EndCause, Placeholder
from koala_agent.lrm.processes import CLAIM_VARIABLE, SCOPE_VARIABLE
from koala_agent.lrm.shell import Answer, Command

PREFIX = "koala"
DIGITS_MAX = 15
"""Of a number that a batch system gives: all that a float holds exactly."""
PROCESSORS_MAX = 10_000_000
"""That a site may say it has; the daemon takes no more."""


class JobState(StrEnum):
    """What a batch system says of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    STUCK = "stuck"
    """It will never start, and stays in the queue until somebody takes it out."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A row of a listing: a job of anybody.

    `cause` counts when it has ended or is stuck: WITHDRAWN where the request can never be met, LOST
    where the site erred. `is_again`: the batch system runs it, or will, for a second time.
    `is_limited`: it waits because its user may not have more. `owner` is empty where only jobs of
    the account are listed.
    """

    number: str
    name: str
    state: JobState
    owner: str = ""
    cause: EndCause = EndCause.EXITED
    exit_status: int | None = None
    reason: str = ""
    is_again: bool = False
    is_limited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Processors of the queue or partition that are there for us, those that run nothing and that a
    job without wishes could have, and how many jobs wait for processors (not for an instant,
    another job, or a hold)."""

    processors: int
    idle: int
    queued_jobs: int


class Dialect(Protocol):
    """The commands of one batch system. Readers raise LocalManagerError for what is no answer."""

    @property
    def honours(self) -> tuple[str, ...]:
        """See `LocalManager`."""

    def ask(self, placeholder: Placeholder, *, name: str, script: str) -> Command | None:
        """Whether a request could be met, without queueing it; None where `submit` asks itself."""

    def read_asked(self, answer: Answer) -> None:
        """Raises RequestRefusedError when it could not."""

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        """Queues the script; it must never be started twice by the batch system itself."""

    def read_submitted(self, answer: Answer) -> str:
        """The number of the job. A RequestRefusedError when the batch system will not have it; any
        other error is transient unless the site's configuration is wrong."""

    def list_jobs(self) -> Command:
        """All jobs of the account, ended ones as long as they are known."""

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """Rows in the order of submission."""

    def withdraw(self, number: str) -> Command:
        """Dequeues or ends the job: TERM, then KILL."""

    def read_withdrawn(self, answer: Answer) -> None:
        """Unknown jobs are no error."""

    def record(self, number: str) -> Command:
        """The accounting record of a job that is in no listing any more."""

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """The job, which may be alive after all; None when there is no record (yet)."""

    def figures(self) -> tuple[Command, ...]:
        """Commands that together tell the processors and who waits."""

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures:
        """The processors now."""


def is_count(text: str) -> bool:
    """Whether it is a number as batch systems write them. `isdigit` knows digits that are none, and
    whole numbers of any length."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def job_name(claim: str, *, scope: str) -> str:
    """The batch job's name. No batch system minds its characters, whatever its other habits."""
    return f"{PREFIX}-{scope}-{claim.replace('/', '.')}"


def claim_of(name: str, *, scope: str) -> str | None:
    """The claim that a batch job is for, if its name says that it is one of ours."""
    start = f"{PREFIX}-{scope}-"
    claim = "/".join(name.removeprefix(start).rsplit(".", 3))
    return claim if name.startswith(start) and names.CLAIM.fullmatch(claim) else None


def script(placeholder: Placeholder, *, scope: str) -> str:
    """What the batch system runs: the placeholder in its directory with its environment.

    `exec`, so that the signals of the batch system reach the starter itself.
    """
    environment = (
        *placeholder.environment,
        (CLAIM_VARIABLE, placeholder.claim),
        (SCOPE_VARIABLE, scope),
    )
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment]
    if placeholder.body:
        return "\n".join(["#!/bin/sh", *lines, placeholder.body])
    directory = shlex.quote(str(placeholder.directory))
    return "\n".join(
        [
            "#!/bin/sh",
            *lines,
            f"cd {directory} || exit 71",
            f"exec {shlex.join(placeholder.argv)}",
            "",
        ]
    )
