"""Key-value store of an attempt: values that components know only at run time, such as ports.

- Names are shared by all components of a job, within one attempt.
- A put is idempotent. Putting another value under the same name is an error, so a component and
  its successor cannot both be believed.
- A get blocks until its name has a value, or until it times out.
- Nothing is journaled: after a restart agents repeat the puts of their components in their
  inventories.

Pure; the caller expires waiting gets.
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
    """Get whose name has no value yet; `asker` is opaque and identifies the caller."""

    asker: object
    name: str
    until: Instant
    wait_s: float


@dataclass(slots=True)
class _AttemptValues:
    """Values and pending gets of one attempt."""

    by_name: dict[str, str] = field(default_factory=dict)
    waiting: list[PendingGet] = field(default_factory=list)


class KeyValueStore:
    """Values and pending gets of all live attempts."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[JobId, int], _AttemptValues] = {}

    def put(self, job: JobId, attempt: int, *, name: str, value: str) -> list[PendingGet]:
        """Store a value; return the gets that it answers. Raises SpecError, RejectedError."""
        _check(name, value)
        values = self._attempts.setdefault((job, attempt), _AttemptValues())
        known = values.by_name.get(name)
        if known is not None and known != value:
            raise RejectedError(f"{name!r} has another value already: {known[:80]!r}")
        if known is None and len(values.by_name) >= NAMES_MAX:
            raise RejectedError(f"too many names have values (expected at most {NAMES_MAX})")
        values.by_name[name] = value
        answered = [waiting for waiting in values.waiting if waiting.name == name]
        values.waiting = [waiting for waiting in values.waiting if waiting.name != name]
        return answered

    def get(
        self, job: JobId, attempt: int, *, asker: object, name: str, wait_s: float, now: Instant
    ) -> str | None:
        """Return the value of a name, or None to wait for it. Raises SpecError, RejectedError."""
        _check(name, "")
        values = self._attempts.setdefault((job, attempt), _AttemptValues())
        value = values.by_name.get(name)
        if value is None:
            if len(values.waiting) >= WAITING_MAX:
                raise RejectedError(f"{WAITING_MAX} gets of {job}/{attempt} wait already")
            until = now + min(wait_s, WAIT_S_MAX)
            values.waiting.append(PendingGet(asker=asker, name=name, until=until, wait_s=wait_s))
        return value

    @property
    def wake_at(self) -> Instant | None:
        """Earliest timeout of a waiting get."""
        return min(
            (get.until for values in self._attempts.values() for get in values.waiting),
            default=None,
        )

    def expire(self, now: Instant) -> list[PendingGet]:
        """Remove and return the gets that have timed out."""
        expired = []
        for values in self._attempts.values():
            expired += [waiting for waiting in values.waiting if waiting.until <= now]
            values.waiting = [waiting for waiting in values.waiting if waiting.until > now]
        return expired

    def forget(self, live: dict[JobId, int]) -> list[PendingGet]:
        """Drop the values of all but the live attempts; return the gets that waited there."""
        dropped = []
        for job, attempt in tuple(self._attempts):
            if live.get(job) != attempt:
                dropped += self._attempts.pop((job, attempt)).waiting
        return dropped


def _check(name: str, value: str) -> None:
    if not name or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise SpecError(f"name {name[:80]!r} (expected 1 to {NAME_BYTES_MAX} bytes)")
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > VALUE_BYTES_MAX:
        raise SpecError(f"the value of {name!r} has {size} bytes; at most {VALUE_BYTES_MAX}")
