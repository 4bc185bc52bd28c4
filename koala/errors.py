"""The error tree of Koala. Outcomes (refused, unanswered, site lost) are values, never exceptions.

KoalaError
├── SpecError            the request is wrong (job description, option, name)
├── UnknownJobError      no job with this id, or not visible to this user
├── UnknownSiteError     no site with this name
├── UnknownNameError     no user, no enrolled site with this name
├── UnauthenticatedError who asks shows nothing that proves it, or nothing that is good (any more)
├── DeniedError          who asks is known, and may not
├── RejectedError        right, but not here or not now (too large for all sites, queue full)
│   └── ExhaustedError   right, and possible when there is room again: try later
├── ConfigError          a configuration file is wrong
│   └── WorkloadError    a log of jobs is malformed
├── JournalError         the journal is damaged, of another format, or cannot be written
│   ├── DamagedError     it is not as it was written
│   └── DiskError        accepted work could not be made durable: the process must end at once
├── UnreachableError     the other side does not answer
└── LocalManagerError    a local resource manager erred; `transient` when trying again may help
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a text: line and column count from 1; `source` is the text of that line."""

    line: int
    column: int
    source: str = ""

    def caret(self) -> str:
        """The line with a caret below the column; long lines are cut around it."""
        start = max(0, self.column - 61)
        shown = "".join(c if c.isprintable() else " " for c in self.source[start : start + 120])
        return f"{shown}\n{' ' * (self.column - 1 - start)}^"


class KoalaError(Exception):
    """Root of what Koala raises on purpose."""


class SpecError(KoalaError):
    """The request is wrong. `position` says where, when the text is known."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        self.message = message
        self.position = position
        super().__init__(self._text())

    def _text(self) -> str:
        if self.position is None:
            return self.message
        place = f"line {self.position.line}, column {self.position.column}: {self.message}"
        return f"{place}\n{self.position.caret()}" if self.position.source else place


class UnknownJobError(KoalaError):
    """No job with this id."""


class UnknownSiteError(KoalaError):
    """No site with this name."""


class UnknownNameError(KoalaError):
    """No user or enrolled site with this name."""


class UnauthenticatedError(KoalaError):
    """Who asks has shown nothing that proves who it is, or nothing that is good (any more)."""


class DeniedError(KoalaError):
    """Who asks is known, and may not do this."""


class RejectedError(KoalaError):
    """The request is right, but not possible on this grid, or not now."""


class ExhaustedError(RejectedError):
    """The request is right, and there is no room for it now; the message says of what, and how much
    is allowed. Before `retry_after_s` it is not worth trying again; None: nobody knows."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class ConfigError(KoalaError):
    """A configuration file is wrong; the message has its path and the key."""


class WorkloadError(ConfigError):
    """A log of jobs is malformed; the message has its path, the line and the field."""


class JournalError(KoalaError):
    """The journal is damaged, of another format, or cannot be written."""


class DamagedError(JournalError):
    """The journal is not as it was written; the message says what an operator can do."""


class DiskError(JournalError):
    """Accepted work could not be made durable; nothing may follow, and nothing is tried again."""


class UnreachableError(KoalaError):
    """The other side does not answer."""


class LocalManagerError(KoalaError):
    """A local resource manager erred; `transient` when trying again may help."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        self.transient = transient
        super().__init__(message)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first plain error in a group, ours before others."""
    errors: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop(0)
        if isinstance(error, BaseExceptionGroup):
            stack[:0] = error.exceptions
        else:
            errors.append(error)
    return next((error for error in errors if isinstance(error, KoalaError)), errors[0])
