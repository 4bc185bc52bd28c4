"""The key-value exchange: values that components know only at run time (ports, MPI port names).

Names are common to a job within one attempt. A value is given once; giving the same again is
well, giving another is an error, so that a component and its successor cannot both be believed. A
get waits for its name. Nothing is journaled: after a start the agents tell, in their inventories,
what their components had put. Pure; the carrier keeps the time of waiting gets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from koala.core.model.values import Instant, JobId
from koala.errors import RejectedError, SpecError

NAMES_MAX = 1000
NAME_BYTES_MAX = 256
VALUE_BYTES_MAX = 4096
WAITING_MAX = 10_000  # gets of one attempt
WAIT_S_MAX = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGet:
    """A get whose name has no value yet; `asker` is the carrier's, given back with the answer."""

    asker: object
    name: str
    until: Instant
    wait_s: float


@dataclass(slots=True)
class _Board:
    """The values of one attempt, and who waits for more."""

    values: dict[str, str] = field(default_factory=dict)
    waiting: list[PendingGet] = field(default_factory=list)


class KeyValueStore:
    """All boards, by job and attempt."""

    def __init__(self) -> None:
        self._boards: dict[tuple[JobId, int], _Board] = {}

    def put(self, job: JobId, attempt: int, *, name: str, value: str) -> list[PendingGet]:
        """Give a value; the gets that it answers. Raises SpecError, RejectedError."""
        _check(name, value)
        board = self._boards.setdefault((job, attempt), _Board())
        known = board.values.get(name)
        if known is not None and known != value:
            raise RejectedError(f"{name!r} has another value already: {known[:80]!r}")
        if known is None and len(board.values) >= NAMES_MAX:
            raise RejectedError(f"{NAMES_MAX} names have values already; more are not allowed")
        board.values[name] = value
        answered = [waiting for waiting in board.waiting if waiting.name == name]
        board.waiting = [waiting for waiting in board.waiting if waiting.name != name]
        return answered

    def get(
        self, job: JobId, attempt: int, *, asker: object, name: str, wait_s: float, now: Instant
    ) -> str | None:
        """The value of a name, or None: then the get waits. Raises SpecError, RejectedError."""
        _check(name, "")
        board = self._boards.setdefault((job, attempt), _Board())
        value = board.values.get(name)
        if value is None:
            if len(board.waiting) >= WAITING_MAX:
                raise RejectedError(f"{WAITING_MAX} gets of {job}/{attempt} wait already")
            until = now + min(wait_s, WAIT_S_MAX)
            board.waiting.append(PendingGet(asker=asker, name=name, until=until, wait_s=wait_s))
        return value

    @property
    def wake_at(self) -> Instant | None:
        """When the first waiting get is over."""
        return min(
            (w.until for board in self._boards.values() for w in board.waiting), default=None
        )

    def expire(self, now: Instant) -> list[PendingGet]:
        """The gets whose time is over; they wait no more."""
        expired = []
        for board in self._boards.values():
            expired += [waiting for waiting in board.waiting if waiting.until <= now]
            board.waiting = [waiting for waiting in board.waiting if waiting.until > now]
        return expired

    def forget(self, live: dict[JobId, int]) -> list[PendingGet]:
        """Drop the boards of all but the live attempts; the gets that waited there."""
        dropped = []
        for job, attempt in tuple(self._boards):
            if live.get(job) != attempt:
                dropped += self._boards.pop((job, attempt)).waiting
        return dropped


def _check(name: str, value: str) -> None:
    if not name or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise SpecError(f"name {name[:80]!r}: allowed are 1 to {NAME_BYTES_MAX} bytes")
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > VALUE_BYTES_MAX:
        raise SpecError(f"the value of {name!r} has {size} bytes; at most {VALUE_BYTES_MAX}")
