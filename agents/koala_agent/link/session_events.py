"""Events and outputs of the session with the daemon, and the messages that it tells apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from koala.protocol.messages import (
    Beat,
    Goodbye,
    Reject,
    SiteFigures,
    WantedEnd,
    Watermark,
    Welcome,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Any other message of the daemon; `claim` or `transfer` names what it keeps alive."""

    body: object
    claim: str | None = None
    transfer: str | None = None


FromDaemon: TypeAlias = Welcome | Reject | WantedEnd | Beat | Goodbye | Order

# Events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """The daemon is connected. `session` is a new random name, `idle` the startable processors."""

    connection: int
    session: str
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryTaken:
    """Inventory of the site at this instant; the reports are opaque here."""

    connection: int
    reports: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Message from the daemon; `mark` is the watermark that it rests on, when that is new."""

    connection: int
    message: FromDaemon
    mark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The connection was lost, or could not be made."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A report to send: a claim, transfer or file has changed, or a starter pings or asks."""

    report: object


@dataclass(frozen=True, slots=True)
class SiteChanged:
    """The site's figures, perhaps new. `is_due`: an ask was accepted, so send them in any case."""

    figures: SiteFigures
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """The agent ends in order."""

    reason: str


@dataclass(frozen=True, slots=True)
class Woken:
    """`wake_at` has come."""


Event: TypeAlias = (
    Dialled | InventoryTaken | Received | Cut | Reported | SiteChanged | Closed | Woken
)

# Outputs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dial:
    """Make connection number `connection`; answer with Dialled or Cut."""

    connection: int


@dataclass(frozen=True, slots=True)
class TakeInventory:
    """Answer with InventoryTaken; nothing may change between the taking and the answer."""

    connection: int


@dataclass(frozen=True, slots=True)
class Send:
    """Put a message on the stream: one of ours, or a report as it was given."""

    message: object


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection; when `is_orderly` after all queued messages were sent."""

    connection: int
    reason: str
    is_orderly: bool = False


@dataclass(frozen=True, slots=True)
class StoreEpoch:
    """Store the epoch durably before the next output is carried out."""

    epoch: int


@dataclass(frozen=True, slots=True)
class KeepWatermark:
    """Store the watermark together with the next commit."""

    mark: Watermark


@dataclass(frozen=True, slots=True)
class BeginSession:
    """Apply an accepted session: leases, the daemon's time, the relay."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class Apply:
    """Carry out an order of the daemon."""

    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOthers:
    """Stop all claims and transfers that are not in these complete sets."""

    claims: frozenset[str]
    transfers: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End of the link for good: requested, or refused where a retry does not help."""

    reason: str
    is_refused: bool


Output: TypeAlias = (
    Dial
    | TakeInventory
    | Send
    | HangUp
    | StoreEpoch
    | KeepWatermark
    | BeginSession
    | Apply
    | StopOthers
    | Finish
)
