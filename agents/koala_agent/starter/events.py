"""Events and actions of the starter's machine: plain values.

All instants are CLOCK_BOOTTIME but those in the daemon's time (`release_at`, `passed_at`,
`ended_at`); durations are seconds.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from koala_agent.starter.messages import PathsOrder

QUESTION_BITS = 40
"""Bits of a question's number; above them is the number of the machine that asked."""

# Settings ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the machine of one claim; a time of 0 for `wall_time_s` means no limit.

    `processes` counts the main processes. Where these are helpers of a launcher, `ranks` counts the
    processes that they start. `boot` identifies this boot of the machine. `delivers` when the agent
    cannot see this machine's files; `has_outputs` when the job names files that it writes. On a
    slow connection an answer takes up to `answer_s`. Its processors were taken when the batch job
    `began_at`, by the clock of this machine; None: just now.
    """

    claim: str
    secret: str
    nonce: str
    processes: int
    hold_s: float
    hold_lease_s: float
    run_lease_s: float
    kill_s: float
    wall_time_s: float = 0.0
    progress_s: float = 0.0
    no_barrier: bool = False
    boot: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    ranks: int = 0
    delivers: bool = False
    has_outputs: bool = False
    answer_s: float = 0.0
    began_at: float | None = None


# Events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Connected:
    """The connection to the agent is made."""


@dataclass(frozen=True, kw_only=True)
class Disconnected:
    """The connection to the agent is lost, or could not be made."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message of the agent has arrived."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """All processes are forked and blocked, on all nodes."""


@dataclass(frozen=True, kw_only=True)
class Unexecutable:
    """The program cannot be started: found before the check-in, or by one of its processes."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class ProcessEnded:
    """A main process has ended, with its exit status or minus the signal."""

    index: int
    status: int


@dataclass(frozen=True, kw_only=True)
class RankEnded:
    """A process that a launcher started has reported its own end."""

    rank: int
    status: int


@dataclass(frozen=True, kw_only=True)
class NodeLost:
    """Another node of the component is lost, or got the start too late; `kind` and `reason` are
    for the end.
    """

    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The barrier was opened here at this instant.

    `is_everywhere` when no other machine has to report first.
    """

    at: float
    is_everywhere: bool = True


@dataclass(frozen=True, kw_only=True)
class OpenedEverywhere:
    """The last process of all nodes passed at this instant."""

    at: float


@dataclass(frozen=True, kw_only=True)
class TooLate:
    """The last check of the clock forbade to open the barrier."""


@dataclass(frozen=True, kw_only=True)
class SiteSignalled:
    """The site has signalled this batch job to end."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class ProcessesCounted:
    """Number and resource usage of the processes left of all that was started.

    Unless `is_known` another node has not reported yet.
    """

    left: int
    is_known: bool = True
    cpu_s: float = 0.0
    memory_bytes: int = 0
    forwarded_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ValueRequested:
    """A process puts a value (`value` is set) or gets one."""

    question: int
    name: str
    value: str | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class WorldRequested:
    """A process waits for members of its malleable job with a greater number than `after`."""

    question: int
    after: int
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class ProgressMeasured:
    """Progress of the program: processor-seconds, or its own report (`is_told`)."""

    work: float
    is_told: bool
    can_pace: bool


@dataclass(frozen=True, kw_only=True)
class PathsProbed:
    """The TCP paths were probed; `problem` is empty when all are open. `reached` are claims and
    round trips to them, in seconds. `ports` are the results of paths that may be closed: claim,
    port, round trip and problem."""

    problem: str
    reached: tuple[tuple[str, float], ...] = ()
    ports: tuple[tuple[str, int, float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PortsMoved:
    """Ports of others were used through the grid, so much so far (`messages.PortsCounted`)."""

    ports: tuple[tuple[str, str, int, int, float, float, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """The agent has the logs and outputs; `problem` names those that it has not.

    `is_lost` when the process that carries the files was lost, perhaps with its machine, and not
    when a file cannot be had.
    """

    problem: str
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Woken:
    """The instant `wake_at` has come."""


# Actions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dial:
    """Drop the present connection, and connect to the agent."""


@dataclass(frozen=True, kw_only=True)
class Send:
    """Send a message to the agent."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Fork every missing process, blocked, then answer Ready."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Begin the component's work on another node, by this order."""

    order: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Write the bundle and send the environment to the blocked processes."""

    bundle: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Let the program know which members its job has now, here and on other nodes. With
    `leave_s` it shall end within so many seconds.
    """

    number: int
    bundle: dict[str, object]
    leave_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ProbePaths:
    """Probe TCP paths as ordered, and answer PathsProbed."""

    order: PathsOrder


@dataclass(frozen=True, kw_only=True)
class ClosePaths:
    """Stop listening: the ports are the program's from here on."""


@dataclass(frozen=True, kw_only=True)
class Open:
    """Check the clock; if it is not past `not_after`, open the barrier and answer Opened.
    `has_peers` when other components pass at the same instant.
    """

    not_after: float
    has_peers: bool = False


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Send a signal to all processes that are left."""

    number: int


@dataclass(frozen=True, kw_only=True)
class CountProcesses:
    """Count the processes that are left, and answer ProcessesCounted."""


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """Send the logs to the agent, and the outputs with `is_whole`; then answer Delivered."""

    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class MeasureProgress:
    """Measure the progress, and answer ProgressMeasured."""


@dataclass(frozen=True, kw_only=True)
class PauseProgram:
    """Stop the program for the rest of the time that it may not run."""


@dataclass(frozen=True, kw_only=True)
class ResumeProgram:
    """Continue the stopped program."""


@dataclass(frozen=True, kw_only=True)
class WriteEnd:
    """Write the end to disk, durably, and when the batch job began."""

    end: dict[str, object]
    began_at: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer a process's put or get."""

    question: int
    answer: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Exit:
    """Exit: nothing is left to do."""


if TYPE_CHECKING:
    Event: TypeAlias = (
        "Connected | Disconnected | Received | Ready | Unexecutable | ProcessEnded | RankEnded"
        " | NodeLost | Opened | OpenedEverywhere | TooLate | SiteSignalled | ProcessesCounted"
        " | ValueRequested | ProgressMeasured | PathsProbed | PortsMoved | Delivered | Woken"
    )
    Action: TypeAlias = (
        "Dial | Send | Begin | Fork | Prepare | Resize | ProbePaths | ClosePaths | Open | Signal"
        " | CountProcesses | Deliver | MeasureProgress | PauseProgram | ResumeProgram | WriteEnd"
        " | Answer | Exit"
    )
