"""What the agent is asked to do with files, and what it tells: plain values between the parts.

They mirror the messages of the link, which are defined in link.proto and stop at the codec. Sizes
are bytes, durations seconds, checksums sha256 in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """To the target: read `size_bytes` of a file from `offset` on, at `address`, with the token.

    `checksum` is that of the whole file; empty when unknown or when a part of it is ordered.
    `booked_bps` bytes a second of the link are this copy's own, and it takes no more; 0: it shares.
    At least `report_s` pass between two reports of how far it is; 0: none are wanted.
    """

    transfer: str
    file: str
    source: str
    address: str
    token: str
    offset: int = 0
    size_bytes: int
    checksum: str = ""
    booked_bps: float = 0.0
    report_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOrder:
    """To the source: serve this part of a file to whoever shows the token.

    With `relay` (host:port) the part is offered there; otherwise the own server has it.
    `booked_bps` as of a FetchOrder.
    """

    transfer: str
    file: str
    target: str
    token: str
    offset: int = 0
    size_bytes: int
    relay: str = ""
    booked_bps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """So many bytes of the part are here; `took_s` since they were first asked for."""

    transfer: str
    size_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFinished:
    """The part is complete and checked here; `took_s` from the order to this."""

    transfer: str
    size_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """The copy was given up. `at` is the site at whose end the error was; empty: nobody's."""

    transfer: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """The site holds a replica with this content."""

    file: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoved:
    """The site holds the replica no more."""

    file: str


TransferReport: TypeAlias = TransferFinished | TransferFailed
Report: TypeAlias = TransferProgress | TransferFinished | TransferFailed | FileFound | FileRemoved


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOrder:
    """Send a claim's output files and logs to the relay.

    `outputs` and `logs` are paths by the name that they get in the spool; what does not lie below
    `folder`, the claim's, is not sent unless it `may_leave` that. Of a log the last bytes are sent.
    """

    claim: str
    label: str
    token: str
    relay: str
    folder: Path
    outputs: Mapping[str, str]
    logs: Mapping[str, str]
    may_leave: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """One file of an upload; `error` is empty when the relay has it."""

    name: str
    is_log: bool
    size_bytes: int = 0
    error: str = ""
