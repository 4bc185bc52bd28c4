"""Events and actions of the state machine of one copy (`transfer`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from koala.common.files.orders import TransferReport


class Fault(StrEnum):
    """End of the copy at which an error occurred."""

    SOURCE = "source"
    TARGET = "target"
    NOBODY = "nobody"
    """The network between them, or unknown."""


# Events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The copy was ordered; `have_bytes` are here from before, which took `spent_s`."""

    have_bytes: int = 0
    spent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The driver has a free place for this copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The driver waits for the source: from now on the stall limit counts.

    Before that the driver was storing bytes or holding back for the rate.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """More bytes are on the disk."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The source has sent all bytes, and announced the checksum of the part."""

    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The try broke off; another one may resume where it ended."""

    fault: Fault
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """The source has no place for another reader now."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The copy is impossible, and a retry would not change that."""

    fault: Fault
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The checksum of the bytes on the disk was computed."""

    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The copy is durable under its final name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """The copy is no longer wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed."""


Event: TypeAlias = (
    Ordered
    | Admitted
    | Listening
    | Arrived
    | Ended
    | Cut
    | Busy
    | Refused
    | Checked
    | Kept
    | CancelRequested
    | Ticked
)


# Actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPlace:
    """Wait for a free place, then pass in Admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the part from the source, beginning at `offset`; pass in the outcome."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """Cancel the try, and ignore its further events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Make the bytes durable, compute their checksum, pass in Checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Rename the copy to its final name, pass in Kept."""

    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Delete the bytes of the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """Send a report to the daemon."""

    report: TransferReport


Action: TypeAlias = AskPlace | Read | HangUp | Check | Keep | Discard | SendReport
