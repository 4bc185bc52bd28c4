"""Messages between a starter and its agent, and the records on the starter's disk.

Each is declared once, for both ends. On the line a message is one JSON object: its `kind` and its
fields, by their names. A field with a default may be missing. Reading checks types;
the agent checks limits, too (`starter_link.codec`), because a program can impersonate its starter.

Instants are in the daemon's time, but `sent_at` of a ping, which the starter alone reads, and the
clock sample's `at`, which is CLOCK_BOOTTIME; durations are seconds.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass, read_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    Record = TypeVar("Record")

    class Message(Protocol):
        """A message of either end."""

        KIND: str


# Records on disk ---------------------------------------------------------------------------------

PASS_FILE, END_FILE = "passed.json", "end.json"
"""Files in the state folder of a claim, for an agent that missed the reports."""


@dataclass(frozen=True, kw_only=True)
class PassRecord:
    """Content of PASS_FILE."""

    nonce: str
    passed_at: float


@dataclass(frozen=True, kw_only=True)
class End:
    """Cause and circumstances of a claim's end. Statuses are exit statuses, or minus the signal;
    resource usage is missing where it was not measured."""

    kind: str
    reason: str = ""
    statuses: tuple[int, ...] = ()
    ended_at: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    forwarded_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class EndRecord:
    """Content of END_FILE; `end` is an End. Its batch job `began_at`, in the daemon's time."""

    nonce: str
    end: dict[str, object]
    began_at: float | None = None


# Messages of the starter -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The check-in; after a reconnection it has the whole state.

    On the line the secret is replaced by a proof (`challenge_response`). Hosts are the nodes of
    the allocation, each with its processors. `began_at` is its start, in the daemon's time. `armed`
    is the number of the Arm that was answered, `end` is an End.
    """

    KIND = "hello"
    claim: str
    nonce: str
    secret: str | None = None
    proof: str | None = None
    hosts: tuple[tuple[str, int], ...] = ()
    began_at: float | None = None
    armed: tuple[int, int] | None = None
    passed_at: float | None = None
    end: dict[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class PingSent:
    """A ping for the daemon, which renews the lease when it is answered."""

    KIND = "ping"
    sent_at: float


@dataclass(frozen=True, kw_only=True)
class PathsTried:
    """TCP paths were probed; `problem` is empty when all are open but those that may fail.
    `reached` are claims and round trips to them, in seconds. Of each path that may fail `ports` has
    claim, port, round trip and problem."""

    KIND = "tried"
    problem: str
    reached: tuple[tuple[str, float], ...] = ()
    ports: tuple[tuple[str, int, float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class PortsCounted:
    """Use of ports through the grid so far: name, claim, connections, bytes, busy seconds, round
    trip, refused connections and the newest reason."""

    KIND = "ports"
    ports: tuple[tuple[str, str, int, int, float, float, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class ArmAnswered:
    """The promise not to abort before D of the Arm with this number."""

    KIND = "armed"
    number: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class PassReported:
    """The barrier was passed."""

    KIND = "passed"
    passed_at: float


@dataclass(frozen=True, kw_only=True)
class ProgressReported:
    """Progress of the program at the end of a cycle; see `ProgressMeasured`."""

    KIND = "progress"
    cycle: int
    work: float
    is_told: bool = False
    can_pace: bool = False


@dataclass(frozen=True, kw_only=True)
class ValuePut:
    """A process puts a value for the other components."""

    KIND = "put"
    request: int
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class ValueAsked:
    """A process gets a value, and waits for it."""

    KIND = "get"
    request: int
    name: str
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class EndReported:
    """Nothing of the claim is left; `end` is an End. Sent until it is acknowledged."""

    KIND = "ended"
    end: dict[str, object]


# Messages of the agent ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AdoptOrder:
    """The starter owns its claim, with these leases. `clock` is a ClockSample."""

    KIND = "adopted"
    hold_lease_s: float
    run_lease_s: float
    kill_s: float
    clock: dict[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class ClockSample:
    """The agent's measurement of the daemon's clock: at an instant of the machine with this boot,
    with half the round trip as its error."""

    boot: str
    at: float
    half_s: float
    offset_s: float


@dataclass(frozen=True, kw_only=True)
class PathsOrder:
    """Probe TCP paths: listen on these ports, and reach each target (label, address, port, claim,
    may fail) within the limit."""

    KIND = "paths"
    label: str = ""
    address: str = ""
    listens: tuple[int, ...]
    targets: tuple[tuple[str, str, int, str, bool], ...]
    limit_s: float


@dataclass(frozen=True, kw_only=True)
class ArmOrder:
    """Promise to wait at the barrier for `late_s`, which is D."""

    KIND = "arm"
    number: tuple[int, int]
    release_at: float
    late_s: float
    bundle: dict[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class ReleaseOrder:
    """Open the barrier at this instant, or at that of the Arm if it is later."""

    KIND = "release"
    number: tuple[int, int]
    release_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class ResizeOrder:
    """Tell the program which components its job has now. The greatest number counts; with `leave_s`
    this component shall end within so many seconds."""

    KIND = "resize"
    number: int
    bundle: dict[str, object]
    leave_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class PaceOrder:
    """Limit the program to this share of the time, above 0 and up to 1."""

    KIND = "pace"
    share: float


@dataclass(frozen=True, kw_only=True)
class StopOrder:
    """End the claim."""

    KIND = "stop"


@dataclass(frozen=True, kw_only=True)
class DismissOrder:
    """The starter does not own its claim: stop and exit."""

    KIND = "dismissed"
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class EndAcknowledged:
    """The end is stored: exit."""

    KIND = "noted"


@dataclass(frozen=True, kw_only=True)
class PingAnswered:
    """The daemon's answer to a ping, with its own time."""

    KIND = "pong"
    sent_at: float
    now: float


@dataclass(frozen=True, kw_only=True)
class RequestAnswered:
    """The answer to a put or get: the value, or why there is none."""

    KIND = "answer"
    request: int
    ok: bool = False
    value: str = ""
    error: str = ""


# Reading and writing -----------------------------------------------------------------------------


def to_message(message: Message) -> dict[str, object]:
    """Write a message as a JSON object with its kind."""
    return {"kind": message.KIND, **to_json(message)}


def to_json(record: object) -> dict[str, object]:
    """Write the fields of a record as a JSON object."""
    return {
        name: _plain(value) if isinstance(value, tuple) else value
        for name, value in vars(record).items()
    }


def read(cls: type[Record], given: dict[str, object]) -> Record:
    """Read a message or record from a JSON object; other fields of it are ignored. Raises
    ValueError that names the field."""
    return read_fields(cls, given)


def _plain(value: tuple[object, ...]) -> list[object]:
    return [_plain(part) if isinstance(part, tuple) else part for part in value]
