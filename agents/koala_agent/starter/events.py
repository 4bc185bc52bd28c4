"""What the starter's machine is told and what it answers: plain values, and how they are read.

All instants are CLOCK_BOOTTIME but those in the daemon's time (`release_at`, `passed_at`,
`ended_at`); durations are seconds.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass, to_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

QUESTION_BITS = 40
"""Questions of processes on other machines have the machine's number above these bits."""

# What it works with ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the machine must know of its claim; a time of 0 for `wall_time_s` means no limit.

    `processes` are its main processes; where they are helpers of a launcher, `ranks` counts the
    processes that they start. `delivers` when the agent cannot see this machine's files;
    `has_outputs` when the job names files that it writes.
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
    hosts: tuple[tuple[str, int], ...] = ()
    ranks: int = 0
    delivers: bool = False
    has_outputs: bool = False


@dataclass(frozen=True, kw_only=True)
class Arming:
    """The latest Arm. `until` is D after its receipt; `is_promised` when it was answered."""

    number: tuple[int, int]
    release_at: float
    late_s: float
    until: float
    is_promised: bool


# Events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Connected:
    """The agent is reached."""


@dataclass(frozen=True, kw_only=True)
class Disconnected:
    """The agent is gone, or could not be reached."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message of the agent."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """All processes are forked and blocked, on all machines."""


@dataclass(frozen=True, kw_only=True)
class Unexecutable:
    """The program cannot be started: found before the check-in, or by a process of it."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class ProcessEnded:
    """A main process has ended: exit status, or minus the signal."""

    index: int
    status: int


@dataclass(frozen=True, kw_only=True)
class RankEnded:
    """A process that a launcher started has ended, as it says itself."""

    rank: int
    status: int


@dataclass(frozen=True, kw_only=True)
class MachineLost:
    """Another machine of the component is lost, or heard too late: the words for the end."""

    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The barrier was opened here at this instant; `is_everywhere` when no other machine is to be
    heard of first."""

    at: float
    is_everywhere: bool = True


@dataclass(frozen=True, kw_only=True)
class OpenedEverywhere:
    """The last process of all machines was let go at this instant."""

    at: float


@dataclass(frozen=True, kw_only=True)
class TooLate:
    """A last look at the clock forbade to open the barrier."""


@dataclass(frozen=True, kw_only=True)
class SiteSignalled:
    """The site wants this batch job to end."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Looked:
    """How many processes are left of all that was started, and what they used together so far.
    Unless `is_known` another machine has not said yet what is left there."""

    left: int
    is_known: bool = True
    cpu_s: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A process puts a value (`value` is one) or asks for one."""

    question: int
    name: str
    value: str | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How far the program is: processor-seconds, or what it told (`is_told`)."""

    work: float
    is_told: bool
    can_pace: bool


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The TCP paths were tried: what is in the way, empty when all are open."""

    problem: str


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """Logs and outputs are at the agent; what is not, for a person. `is_lost` when what was to
    bring them is lost, a machine perhaps, and not a file that cannot be had."""

    problem: str
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Woken:
    """`wake_at` has come."""


# Actions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dial:
    """Give up the connection there is, and connect to the agent."""


@dataclass(frozen=True, kw_only=True)
class Send:
    """Say this to the agent."""

    message: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Have every process forked and blocked, then answer Ready; those that are stay."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """On another machine of the component: this is what there is to do."""

    order: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Write the bundle and hand the environment to the blocked processes."""

    bundle: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class TryPaths:
    """Listen on these ports, reach each target within `limit_s`, and answer Tried. A target is
    (label, address, port, claim)."""

    label: str
    address: str
    listens: list[int]
    targets: list[tuple[str, str, int, str]]
    limit_s: float


@dataclass(frozen=True, kw_only=True)
class ClosePaths:
    """Listen no more: the ports are the program's from here on."""


@dataclass(frozen=True, kw_only=True)
class Open:
    """Look at the clock; if it is not past `not_after`, open the barrier and answer Opened."""

    not_after: float


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Send this signal to all that was started and is left."""

    number: int


@dataclass(frozen=True, kw_only=True)
class Look:
    """Answer Looked."""


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """Bring the logs to the agent, and the outputs with `is_whole`; then answer Delivered."""

    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Answer Measured."""


@dataclass(frozen=True, kw_only=True)
class Halt:
    """Stop the program for a moment."""


@dataclass(frozen=True, kw_only=True)
class Continue:
    """Let the program run again."""


@dataclass(frozen=True, kw_only=True)
class WriteEnd:
    """Write the end down, durably."""

    end: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer a question of a process."""

    question: int
    answer: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Exit:
    """Nothing is left to do."""


# Phases ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Before the barrier; bound once the agent has said so."""

    is_adopted: bool = False


@dataclass(frozen=True, kw_only=True)
class Running:
    """Passed; the program runs until `wall_until` at most."""

    wall_until: float


@dataclass(frozen=True, kw_only=True)
class Ending:
    """All that was started is being ended; by KILL at `kill_at`, None before TERM was sent."""

    kind: str
    reason: str
    kill_at: float | None
    look_at: float
    is_dismissed: bool = False


@dataclass(frozen=True, kw_only=True)
class Delivering:
    """Nothing runs; what it wrote is brought to the agent, until `until`."""

    kind: str
    reason: str
    used: Looked
    until: float


@dataclass(frozen=True, kw_only=True)
class Over:
    """Nothing runs; the end is told until it is noted."""

    until: float


@dataclass(frozen=True, kw_only=True)
class Exited:
    """For good."""


if TYPE_CHECKING:
    Phase: TypeAlias = "Holding | Running | Ending | Delivering | Over | Exited"
    Event: TypeAlias = (
        "Connected | Disconnected | Received | Ready | Unexecutable | ProcessEnded | RankEnded"
        " | MachineLost | Opened | OpenedEverywhere | TooLate | SiteSignalled | Looked | Asked"
        " | Measured | Tried | Delivered | Woken"
    )
    Action: TypeAlias = (
        "Dial | Send | Begin | Fork | Prepare | TryPaths | ClosePaths | Open | Signal | Look"
        " | Deliver | Measure | Halt | Continue | WriteEnd | Answer | Exit"
    )


# What the agent says ------------------------------------------------------------------------------


def to_arm_number(message: dict[str, object]) -> tuple[int, int]:
    """Raises ValueError for anything but [epoch, counter]."""
    value = message.get("number")
    if isinstance(value, list) and len(value) == 2:
        epoch, counter = value
        if isinstance(epoch, int) and isinstance(counter, int):
            return epoch, counter
    raise ValueError(f"number = {value!r} is not [epoch, counter]")


def to_try_paths(message: dict[str, object]) -> TryPaths:
    """Raises ValueError for anything but ports and targets."""
    listens, targets = message.get("listens"), message.get("targets")
    if not isinstance(listens, list) or not isinstance(targets, list):
        raise ValueError(f"{listens!r} and {targets!r} are no lists")  # noqa: TRY004 - as all here
    for port in [*listens, *(target[2] for target in targets if _is_target(target))]:
        if not isinstance(port, int) or not 1 <= port <= 65_535:
            raise ValueError(f"{port!r} is no port")
    if not all(_is_target(target) for target in targets):
        raise ValueError(f"targets = {targets!r}: allowed are [label, address, port, claim]")
    return TryPaths(
        label=str(message.get("label", "")),
        address=str(message.get("address", "")),
        listens=listens,
        targets=[(label, address, port, claim) for label, address, port, claim in targets],
        limit_s=to_number(message, "limit_s"),
    )


def _is_target(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4:
        return False
    return all(isinstance(value[index], str) for index in (0, 1, 3))
