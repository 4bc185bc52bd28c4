"""Orders of file copies that the agent receives, and the reports that it sends: plain values.

They mirror the messages of the link, which link.proto defines and the codec converts. Sizes are
bytes, durations seconds, checksums sha256 in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """Order to the target of a copy: read part of a file from `address`, with the token.

    The part begins at `offset` and has `size_bytes`. `checksum` is that of the whole file; it is
    empty when unknown or when only a part is ordered. `booked_bps` bytes a second of the link are
    reserved for this copy, and it uses no more; 0: it shares the link. At least `report_s` pass
    between two progress reports; 0: none are wanted.
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
    """Order to the source of a copy: serve this part of a file to the bearer of the token.

    With `relay` (host:port) the part is offered there; otherwise the site's own server has it.
    `booked_bps` is as in FetchOrder.
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
    """Progress of a copy: bytes of the part on the disk, and the time since they were first
    requested.
    """

    transfer: str
    size_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFinished:
    """Report of a complete, checked copy; `took_s` is the time since the order."""

    transfer: str
    size_bytes: int
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFailed:
    """Report of a failed copy; `at` is the site at fault, empty when neither end is."""

    transfer: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """Report of a replica that the site holds, with its content's checksum."""

    file: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoved:
    """Report of a replica that the site no longer holds."""

    file: str


TransferReport: TypeAlias = TransferFinished | TransferFailed
Report: TypeAlias = TransferProgress | TransferFinished | TransferFailed | FileFound | FileRemoved


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOrder:
    """Order to send the output files and logs of a claim to the relay.

    `outputs` and `logs` map names in the spool to paths. A path outside the claim's `folder` is
    sent only if it `may_leave` the folder. Only the last bytes of a log are sent.
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
    """Result of one file of an upload; `error` is empty when the relay has it."""

    name: str
    is_log: bool
    size_bytes: int = 0
    error: str = ""
