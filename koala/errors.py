"""Exceptions of Koala. Outcomes (refused, unanswered, site lost) are values, never exceptions.

KoalaError
├── SpecError            the request is wrong (job description, option, name)
├── UnknownJobError      no job with this id, or not visible to this user
├── UnknownSiteError     no site with this name
├── UnknownNameError     no user, no enrolled site with this name
├── UnauthenticatedError the caller has no credentials, or none that are valid (any more)
├── DeniedError          the caller is known, but lacks the permission
├── RejectedError        a valid request that is not possible here or now (too large, queue full)
│   └── ExhaustedError   a limit is reached: try again later
├── ConfigError          a configuration file is wrong
│   └── WorkloadError    a log of jobs is malformed
├── InvalidAnswerError   a policy of another package answers what its question does not allow
├── EndlessPolicyError   a policy of another package gives no answer in simulated time
├── JournalError         the journal is damaged, of another format, or cannot be written
│   ├── DamagedError     its content does not match its checksum, or cannot be read
│   └── DiskError        accepted work could not be made durable: the process must end at once
├── UnreachableError     the other side does not answer
│   └── NoAnswerError    it did not answer within the time limit of the call; a TimeLimitError, too
├── TimeLimitError       the caller's time limit has passed; also the TimeoutError of Python
└── LocalManagerError    a local resource manager erred; `transient` when trying again may help
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position in a text: line and column count from 1; `source` is the text of that line."""

    line: int
    column: int
    source: str = ""

    def caret(self) -> str:
        """Render the line with a caret below the column; long lines are cut around it."""
        start = max(0, self.column - 61)
        shown = "".join(c if c.isprintable() else " " for c in self.source[start : start + 120])
        return f"{shown}\n{' ' * (self.column - 1 - start)}^"


class KoalaError(Exception):
    """Base class of all errors that Koala raises on purpose."""


class SpecError(KoalaError):
    """The request is wrong. `position` is its place in the text, if known; `others` are further
    mistakes of the same request."""

    def __init__(
        self,
        message: str,
        position: Position | None = None,
        others: tuple[SpecError, ...] = (),
    ) -> None:
        self.message = message
        self.position = position
        self.others = others
        super().__init__("\n".join([self._text(), *(str(other) for other in others)]))

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
    """The caller has no credentials, or none that are valid (any more)."""


class DeniedError(KoalaError):
    """The caller is known, but lacks the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Shortage that rejects a job: the label of the component, the site, and the numbers of
    processors that were `wanted` there and that it `had`; None where the reason is another one."""

    component: str | None = None
    site: str | None = None
    wanted: int | None = None
    had: int | None = None


NO_LACK = Lack()


class RejectedError(KoalaError):
    """The request is valid, but not possible on this grid, or not now. For a job that its size or
    its sites rule out, `component`, `site`, `wanted` and `had` say what the message says (see
    `Lack`)."""

    def __init__(self, message: str, lack: Lack = NO_LACK) -> None:
        self.lack = lack
        self.component, self.site = lack.component, lack.site
        self.wanted, self.had = lack.wanted, lack.had
        super().__init__(message)


class ExhaustedError(RejectedError):
    """The request is valid, but a limit is reached; the message names the limit and its value. A
    retry before `retry_after_s` is useless; None if that time is unknown."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class ConfigError(KoalaError):
    """A configuration file is wrong; the message has its path and the key."""


class WorkloadError(ConfigError):
    """A log of jobs is malformed; the message has its path, the line and the field."""


class InvalidAnswerError(KoalaError):
    """A policy of another package answers what its question does not allow; the message says what
    is allowed."""


class EndlessPolicyError(KoalaError):
    """A policy of another package gives no answer in simulated time, so that the run has no
    result."""


class JournalError(KoalaError):
    """The journal is damaged, of another format, or cannot be written."""


class DamagedError(JournalError):
    """The content of a database does not match its checksums, or cannot be read; `advice` says what
    an operator can do."""

    def __init__(self, what: str, advice: str = "") -> None:
        self.what = what
        super().__init__(f"{what}. {advice}" if advice else what)


class DiskError(JournalError):
    """Accepted work could not be made durable. The process must end without a retry."""


class UnreachableError(KoalaError):
    """The other side does not answer."""


class TimeLimitError(KoalaError, TimeoutError):
    """The caller's time limit has passed before the awaited event."""


class NoAnswerError(UnreachableError, TimeLimitError):
    """The daemon did not answer within the time limit of a call."""


class LocalManagerError(KoalaError):
    """A local resource manager erred; `transient` when trying again may help."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        self.transient = transient
        super().__init__(message)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """First plain error in a group; a KoalaError comes before others."""
    errors: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop(0)
        if isinstance(error, BaseExceptionGroup):
            stack[:0] = error.exceptions
        else:
            errors.append(error)
    return next((error for error in errors if isinstance(error, KoalaError)), errors[0])


_OF_FILES = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EIO,
        errno.ENOLCK,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
        errno.ESTALE,
    }
)
"""Errors that `read`, `write` and `fsync` raise because of a file, and do not name it."""


def system_error_text(error: OSError) -> str:
    """Describe an error: the file, as far as it is known, and what is wrong with it.

    An `open` that fails names its file. A `read`, `write` or `fsync` does not, but the function
    that called it knows the file: it is the path among its variables.
    """
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = " -> ".join(names) or (_nearest_path(error) if error.errno in _OF_FILES else "")
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


def _nearest_path(error: OSError) -> str:
    """Return the path that the innermost function with one was about; empty without one."""
    import traceback  # noqa: PLC0415 - only for an error of the system

    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        for value in frame.f_locals.values():
            if isinstance(value, Path):
                return str(value)
    return ""
