"""Ids and small values without behaviour of their own.

Instants are seconds of the driver's clock, which is monotonic; durations are seconds. Ids are made
outside the core or by the functions here, and are never reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypeAlias

from koala.common.protocol import names

JobId = NewType("JobId", str)
SiteName = names.SiteName
ClaimId = names.ClaimId
TransferId = NewType("TransferId", str)
FileName = NewType("FileName", str)
UserName = NewType("UserName", str)
QueueName = NewType("QueueName", str)
Inputs: TypeAlias = FileName | tuple[FileName, ...]
"""The input file of a component, or several."""

Instant: TypeAlias = float
Seconds: TypeAlias = float

FOREVER: Seconds = float("inf")


class Priority(StrEnum):
    """The importance of a job relative to others (KOALA 2.4)."""

    HIGH = "high"
    LOW = "low"


ALL = "all"
"""In a TcpPath: each component."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpPath:
    """A TCP path that a job needs. `source` and `target` are each the label or index of a
    component, or `ALL`.
    """

    source: str
    target: str
    port: int


def claim_id(job: JobId, *, attempt: int, component: int, n: int) -> ClaimId:
    """Make the id `job/attempt/component/n`: the n-th claim for a component in an attempt, n from
    1."""
    return ClaimId(f"{job}/{attempt}/{component}/{n}")


def claim_numbers(claim: str) -> tuple[int, int, int]:
    """Return attempt, component and number of a claim's id, as of j1/2/0/1."""
    attempt, component, number = (int(part) for part in claim.split("/")[1:4])
    return attempt, component, number


def transfer_id(job: JobId, *, attempt: int, n: int) -> TransferId:
    """Make the id `job/attempt/tN`: the n-th transfer of an attempt, n from 1."""
    return TransferId(f"{job}/{attempt}/t{n}")
