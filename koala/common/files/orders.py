"""Orders of uploads to an agent, and the reports of its copies and uploads. Bytes and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from koala.common.protocol.messages import (
    FileFound,
    FileRemoved,
    TransferFailed,
    TransferFinished,
    TransferProgress,
)

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
