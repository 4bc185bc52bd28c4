"""Events and outputs of the session with the daemon, and the messages that it tells apart."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from koala.common.protocol.messages import (
    Beat,
    Goodbye,
    Reject,
    SiteFigures,
    WantedEnd,
    Watermark,
    Welcome,
)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Any other message of the daemon; `claim` or `transfer` names what it keeps alive."""

    body: object
    claim: str | None = None
    transfer: str | None = None


FromDaemon: TypeAlias = Welcome | Reject | WantedEnd | Beat | Goodbye | Order

# Events ------------------------------------------------------------------------------------------


class Dialled(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon is connected. `session` is a new random name, `idle` the startable processors."""

    connection: int
    session: str
    idle: int


class InventoryTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Inventory of the site at this instant; the reports are opaque here."""

    connection: int
    reports: tuple[object, ...]


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """Message from the daemon; `mark` is the watermark that it rests on, when that is new."""

    connection: int
    message: FromDaemon
    mark: Watermark | None = None


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The connection was lost, or could not be made."""

    connection: int
    reason: str


class Reported(msgspec.Struct, frozen=True):
    """A report to send: a claim, transfer or file has changed, or a starter pings or asks."""

    report: object


class SiteChanged(msgspec.Struct, frozen=True):
    """The site's figures, perhaps new. `is_due`: an ask was accepted, so send them in any case."""

    figures: SiteFigures
    is_due: bool = False


class Closed(msgspec.Struct, frozen=True):
    """The agent ends in order."""

    reason: str


class Woken(msgspec.Struct, frozen=True):
    """`wake_at` has come."""


Event: TypeAlias = (
    Dialled | InventoryTaken | Received | Cut | Reported | SiteChanged | Closed | Woken
)

# Outputs -----------------------------------------------------------------------------------------


class Dial(msgspec.Struct, frozen=True):
    """Make connection number `connection`; answer with Dialled or Cut."""

    connection: int


class TakeInventory(msgspec.Struct, frozen=True):
    """Answer with InventoryTaken; nothing may change between the taking and the answer."""

    connection: int


class Send(msgspec.Struct, frozen=True):
    """Put a message on the stream: one of ours, or a report as it was given."""

    message: object


class HangUp(msgspec.Struct, frozen=True):
    """Close the connection; when `is_orderly` after all queued messages were sent."""

    connection: int
    reason: str
    is_orderly: bool = False


class StoreEpoch(msgspec.Struct, frozen=True):
    """Store the epoch durably before the next output is carried out."""

    epoch: int


class KeepWatermark(msgspec.Struct, frozen=True):
    """Store the watermark together with the next commit."""

    mark: Watermark


class BeginSession(msgspec.Struct, frozen=True):
    """Apply an accepted session: leases, the daemon's time, the relay. The daemon wrote its Welcome
    between `age_s` seconds ago: it waited for our inventory."""

    welcome: Welcome
    age_s: tuple[float, float]


class Apply(msgspec.Struct, frozen=True):
    """Carry out an order of the daemon."""

    order: Order


class StopOthers(msgspec.Struct, frozen=True, kw_only=True):
    """Stop all claims and transfers that are not in these complete sets."""

    claims: frozenset[str]
    transfers: frozenset[str]


class Finish(msgspec.Struct, frozen=True, kw_only=True):
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
