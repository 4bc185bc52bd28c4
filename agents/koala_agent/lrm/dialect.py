"""Dialects: the commands and output formats of batch systems, behind one interface.

A dialect is pure: it builds command lines and parses answers. `batch.BatchManager` runs them, keeps
the results, and is the same for all. A job is found again after a crash by its name alone:
`koala-SCOPE-j12.1.0.1` is the claim j12/1/0/1 of the agent whose state directory has the random
name SCOPE.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from koala.common.protocol import names
from koala.common.protocol.messages import NO_RESOURCES, Queue, SiteResources
from koala.errors import LocalManagerError
from koala_agent.environments import CLAIM_VARIABLE
from koala_agent.lrm.claim_processes import SCOPE_VARIABLE
from koala_agent.lrm.local_manager import OUTPUT_FILE, EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer, Command

PREFIX = "koala"
NAME_MAX = 64
"""Characters of the longest name of a batch job: its claim has the largest numbers, of nine digits,
and its job one of 18."""
DIGITS_MAX = 15
"""Digits of a number of a batch system: all that a float holds exactly."""
PROCESSORS_MAX = 10_000_000
"""Processors that a site may report; the daemon accepts no more."""


class JobState(StrEnum):
    """State of a job in a batch system."""

    QUEUED = "queued"
    """It waits to be started."""
    RUNNING = "running"
    """It runs, or is being started or ended: its processors are taken."""
    STUCK = "stuck"
    """It can never start, and stays in the queue until it is cancelled."""
    HELD = "held"
    """It was started, runs no more, and stays in the queue until it is cancelled."""
    ENDED = "ended"
    """Nothing of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """Row of a listing: a job of any user.

    `cause` counts when it has ended, is stuck or held: WITHDRAWN where the request can never be
    met, LOST where the site failed. `is_again`: the batch system runs it, or will, for a second
    time. `is_limited`: it waits because its user has reached a limit. `is_gated`: it waits because
    one of the dialect's gates is shut. `processors` are those that it was given, 0: unknown.
    `owner` is empty where only jobs of the account are listed.
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
    is_gated: bool = False
    processors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """Job of any user that runs, or waits for processors, with the time that it may still run.
    `nodes` are those that it has or may take, None: any."""

    number: str
    processors: int
    left_s: float
    is_running: bool = False
    nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Processors of the queue or partition, idle ones that a job without wishes could have, and the
    number of jobs that wait for processors (not for an instant, another job, a hold, or a gate).
    The `resources` of the site and its idle GPUs.

    What most need not say:

    - `waiting`: those jobs one by one, where a listing tells them.
    - `idle_at`: the idle processors of each node, where jobs wait for certain nodes.
    - `planned`: nodes that are kept for jobs which the batch system does not show us.
    - `asleep` of the idle ones are powered down, and up after `wake_s`.
    - `shut` of the others are used by nobody and not to be had for now, as while a node restarts.
    - `closed`: words for people: how many nobody uses, and why they are not to be had.
    - `shut_queues` start no job now, each with words for why, where no reason of a job says it.
    - `booked`: bookings of anybody, with the idle processors that they keep, or will.
    - `reservations`: those that claims may name; None where none can, or they are unknown.
    - `is_settling`: it will soon be otherwise, as while jobs are being ended.
    """

    processors: int
    idle: int
    queued_jobs: int
    idle_gpus: int = 0
    resources: SiteResources = NO_RESOURCES
    waiting: tuple[QueueRow, ...] | None = None
    idle_at: Mapping[str, int] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()
    asleep: int = 0
    wake_s: float = 0.0
    shut: int = 0
    closed: tuple[str, ...] = ()
    shut_queues: Mapping[str, str] = field(default_factory=dict)
    booked: tuple[Booking, ...] = ()
    reservations: tuple[Booking, ...] | None = None
    is_settling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the queues for one job of ours, the instant (seconds since the epoch) at which the
    site closes for a maintenance, and how many of our jobs gather age while they wait; infinite:
    none is known."""

    queues: tuple[Queue, ...] = ()
    closes_at: float = math.inf
    ageing: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Command whose answer is words for a person; `read` gives none for an answer without any."""

    command: Command
    read: Callable[[Answer], str]


Order = Callable[[Sequence[str]], Command]
"""Makes the command about jobs with these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Means to keep waiting jobs from starting, while they keep their place in the queue.

    - `name`: a noun for people, as in "user hold".
    - `shut`, `open` make the commands about jobs with these numbers; they must not disturb a job
      that has started. `open_native` returns the latter for jobs with these options of their own,
      where the gate takes something of them away.
    - `read` checks their answers: jobs that run or have ended are no error; it raises
      RequestRefusedError where the batch system does not let our account do it.
    - `is_native`: a job of a gated placeholder has it from its submission. `settle` changes from
      what the submission did to this one; by default that is `shut`.
    - `keeps_place`: False where this batch system, as it is configured, makes a job lose its place
      by it. Such a gate is opened where it is found, and never shut.
    - `renew_s`: how long it stays shut without being shut again.
    - `place` asks for words that are the same as long as the place is kept, empty before they are
      known; None where there are none. `note` is what else its users should know.
    - `under`: what of the batch system's configuration it depends on; another one may need another
      probe.
    """

    name: str
    shut: Order
    open: Order
    read: Callable[[Answer], None]
    open_native: Callable[[str], Order] | None = None
    is_native: bool = False
    settle: Order | None = None
    keeps_place: bool = True
    renew_s: float = math.inf
    place: Callable[[str], Question] | None = None
    note: str = ""
    under: str = ""


LATE_S = 120.0
"""Time by which a job may begin after the begin of its booking, which is so much longer: schedulers
that look once a minute are later on a busy server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Booking, as a listing has it. `trouble` is why it cannot be had as things are now, as when
    one of its machines has failed (empty for none), `cause` that of its claim's end if that stays.
    `processors` are those of `size` of ours that no job of it uses, between two instants in seconds
    since the epoch. Jobs of one that `is_open` may begin before, end after it, and have other
    processors."""

    number: str
    name: str
    trouble: str = ""
    cause: EndCause = EndCause.LOST
    processors: int = 0
    size: int = 0
    begins_at: float = 0.0
    ends_at: float = math.inf
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Booker:
    """Means to keep processors free for a claim from a known instant on.

    - `name`: a word for people, as in "qrsub". Without the right (`is_allowed`) it only gives back.
    - `book` makes the command for a placeholder, under the name of its batch job, and `read_booked`
      returns the number of the booking, with which `submit` gets the placeholder then. It raises
      RequestRefusedError where the processors cannot be had, and a transient LocalManagerError
      where they may be booked after all. The booking is `LATE_S` longer than the time limit.
      Without `book`, `submit` itself books, and the job is the booking.
    - `list`, `read_list`: the bookings of the account.
    - `delete` makes the command that gives one back, after the end of its job; `read_deleted`
      checks the answer, for which a booking that is gone is no error.
    """

    name: str
    book: Callable[[Placeholder, str], Command] | None = None
    read_booked: Callable[[Answer], str] = lambda _answer: ""
    list: Command | None = None
    read_list: Callable[[Answer], Sequence[Booking]] = lambda _answer: ()
    delete: Callable[[str], Command] | None = None
    read_deleted: Callable[[Answer], None] = lambda _answer: None
    is_allowed: bool = True


class Dialect(ABC):
    """Commands of one batch system. Parsers raise LocalManagerError for an invalid answer.

    It submits, lists and withdraws; all else is inherited by a batch system that lacks it.
    """

    @property
    def honours(self) -> tuple[str, ...]:
        """RSL names of the resources that `submit` acts on; jobs that ask for others are warned."""
        return ()

    def ask(self, placeholder: Placeholder, *, name: str, script: str) -> Command | None:
        """Test a request without queueing it; None where `submit` includes the test."""
        return None

    def read_asked(self, answer: Answer) -> None:
        """Check the answer. Raises RequestRefusedError when the request could not be met."""
        return  # with this mypy takes it for a body that dialects inherit

    @abstractmethod
    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        """Queue the script; the batch system itself must never start it twice."""

    @abstractmethod
    def read_submitted(self, answer: Answer) -> str:
        """Parse the number of the job. Raises RequestRefusedError when the batch system refuses it;
        any other error is transient unless the site's configuration is wrong."""

    @abstractmethod
    def list_jobs(self) -> Command:
        """List all jobs of the account, ended ones as long as they are known."""

    def list_all(self) -> Command:
        """List the jobs of all users in the same way, where one listing then serves `figures` and
        `list_queue` too: a command that they share is sent once for all."""
        return self.list_jobs()

    @abstractmethod
    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        """Parse the rows, in the order of submission."""

    @abstractmethod
    def withdraw(self, number: str) -> Command:
        """Dequeue or end the job: TERM, then KILL."""

    def read_withdrawn(self, answer: Answer) -> None:
        """Check the answer; unknown jobs are no error. By default any answer is good: the next
        listing tells whether the job is gone, and one that is not is withdrawn again."""
        return

    def record(self, number: str) -> Command | None:
        """Look up the accounting record of a job that has left the listing; None where ended jobs
        leave no record."""
        return None

    def read_record(self, answer: Answer, *, number: str, name: str) -> BatchJob | None:
        """Parse the job, which may be alive after all; None when there is no record (yet)."""
        return None

    def explain(self, number: str) -> Question | None:
        """Ask why a waiting job has not started; None where the listing alone tells it."""
        return None

    def explain_reason(self, reason: str, queues: tuple[Queue, ...]) -> str:
        """Add words, and limits of its queues, to a reason of a listing."""
        return reason

    def figures(self) -> tuple[Command, ...]:
        """Query the processors and the waiting jobs, with one or more commands. With none those
        that the configuration gives to Koala count, and only our own claims use them."""
        return ()

    def read_figures(self, answers: tuple[Answer, ...]) -> Figures | None:
        """Parse the processors now; None where the batch system does not tell them."""
        return None

    def limits(self) -> tuple[Command, ...]:
        """Query the limits of jobs, which change seldom; none where nothing tells them."""
        return ()

    def read_limits(self, answers: tuple[Answer, ...]) -> Limits:
        """Parse the limits. Commands that fail tell none."""
        return Limits()

    def list_queue(self) -> Command | None:
        """List the jobs of all users, from which expected starts follow; None where a listing does
        not tell the processors and limits of others' jobs."""
        return None

    def read_queue(self, answer: Answer) -> tuple[QueueRow, ...]:
        """Parse the jobs, the waiting ones in the order in which they would start. One that is
        gated has the place that it would have if it were open; jobs that wait for something else
        than processors are left out."""
        return ()

    def gates(self) -> tuple[Command, ...]:
        """Query what decides which gate keeps a job's place; empty where nothing decides it."""
        return ()

    def read_gates(self, answers: tuple[Answer, ...]) -> tuple[Gate, ...]:
        """Return the gates, the best first. With none our claims wait in no queue for long."""
        return ()

    def reservations(self) -> Command | None:
        """List the reservations of all, in which claims may run; None where none can."""
        return None

    def read_reservations(self, answer: Answer) -> Sequence[Booking]:
        """Parse the reservations with all processors that they have; claims name them by their
        numbers."""
        return ()

    def booking(self) -> tuple[Command, ...]:
        """Query what decides whether our account may book; empty where nothing decides it."""
        return ()

    def read_booking(self, answers: tuple[Answer, ...]) -> Booker | None:
        """Return the means to book processors; None where our account has none."""
        return None


def user_hold(shut: Sequence[str], open_: Sequence[str], *, read: Callable[[Answer], None]) -> Gate:
    """Return the gate of a batch system whose users hold and release jobs by number, and submit
    them held."""

    def order(words: Sequence[str]) -> Order:
        return lambda numbers: Command(argv=(*words, *numbers))

    return Gate(name="user hold", shut=order(shut), open=order(open_), read=read, is_native=True)


def honoured(
    always: tuple[str, ...], site: Mapping[str, str], native: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the requests that a dialect honours: some always, one of `site` where the site's own
    option is empty, and native options where some are allowed."""
    free = (name for name, option in site.items() if not option)
    return (*always, *free, *(["native"] if native else []))


def check_word(key: str, text: str, word: re.Pattern[str], allowed: str) -> str:
    """Check a word that becomes part of a request. Raises RequestRefusedError."""
    if not word.fullmatch(text):
        raise RequestRefusedError(f"{key}: {text[:80]!r} is refused (expected {allowed})")
    return text


def submitted_number(answer: Answer, command: str) -> str:
    """Return the first number in the answer to a submission. Raises a transient LocalManagerError
    where there is none: the next listing tells whether the job was queued."""
    check_status(answer, command)
    number = re.search(rf"[0-9]{{1,{DIGITS_MAX}}}", answer.out)
    if number is None:
        raise LocalManagerError(f"{command}: no number in {answer.out[:80]!r}", transient=True)
    return number[0]


def submission_error(
    message: str, text: str, refusals: re.Pattern[str], faults: re.Pattern[str], *, is_away: bool
) -> LocalManagerError:
    """Return the error of a submission by its text: a request that is refused, a fault of the
    configuration, or else, as of a batch system that `is_away`, one that may pass."""
    if not is_away and refusals.search(text):
        return RequestRefusedError(message)
    return LocalManagerError(message, transient=is_away or faults.search(text) is None)


def count_of(value: object, most: int = PROCESSORS_MAX) -> int:
    """Return a count, at most so many; 0 for any other value."""
    text = str(value)
    return min(int(text), most) if is_count(text) else 0


def check_status(answer: Answer, command: str) -> None:
    """Check the status of a read-only command. Any error is transient: mostly a daemon is away."""
    if answer.status != 0:
        raise LocalManagerError(f"{command}: {answer.complaint()}", transient=True)


def read_json(answer: Answer, command: str, *, empty: str = "") -> object:
    """Parse JSON; an answer without text means `empty`. A faulty one is a transient error."""
    check_status(answer, command)
    try:
        return json.loads(answer.out.strip() or empty, strict=False)
    except (ValueError, RecursionError) as error:
        message = f"{command}: invalid JSON in its answer: {error}"
        raise LocalManagerError(message, transient=True) from error


def is_count(text: str) -> bool:
    """Test for a number as batch systems write them. `isdigit` alone accepts digits of other
    scripts, and numbers of any length."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX


def by_priority(waiting: list[tuple[QueueRow, int]]) -> list[QueueRow]:
    """Sort jobs by priority. One of 0 is gated, and the scheduler has looked at it: it counts as
    the next one that was submitted."""
    by_number = sorted(waiting, key=lambda pair: leading_number(pair[0].number), reverse=True)
    later = min((priority for _, priority in waiting if priority), default=0)
    keyed = []
    for row, priority in by_number:
        later = priority or later
        keyed.append((-later, leading_number(row.number), row))
    return [row for *_, row in sorted(keyed, key=lambda key: key[:2])]


def leading_number(text: str) -> int:
    """Return the number at the start of a text; a member of a job array has more behind it."""
    found = re.match(rf"[0-9]{{1,{DIGITS_MAX}}}", text)
    return 0 if found is None else int(found[0])


def job_name(claim: str, *, scope: str) -> str:
    """Return the batch job's name. All batch systems accept its characters."""
    return f"{PREFIX}-{scope}-{claim.replace('/', '.')}"


def claim_of(name: str, *, scope: str) -> str | None:
    """Return the claim of a batch job, None when its name is not one of ours."""
    start = f"{PREFIX}-{scope}-"
    claim = "/".join(name.removeprefix(start).rsplit(".", 3))
    return claim if name.startswith(start) and names.CLAIM.fullmatch(claim) else None


def script(placeholder: Placeholder, *, scope: str) -> str:
    """Return the script of a placeholder: it runs in its directory with its environment.

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


def with_output(placeholder: Placeholder, script: str) -> str:
    """Let the script itself write its output, where the batch system would bring it elsewhere. One
    with a `body` has none."""
    if placeholder.body:
        return script
    first, rest = script.split("\n", 1)
    out = shlex.quote(str(placeholder.directory / OUTPUT_FILE))
    # One of `exec` that fails ends some shells with a status of their own.
    return f"{first}\ntrue >> {out} || exit 71\nexec >> {out} 2>&1\n{rest}"
