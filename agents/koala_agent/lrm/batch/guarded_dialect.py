"""Dialects whose mistakes are errors of their site, and end no agent."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TypeVar, cast

from koala.errors import KoalaError, LocalManagerError
from koala_agent.lrm.dialect import Booker, Dialect, Gate

Guarded = TypeVar("Guarded", Dialect, Gate, Booker)


def guarded(dialect: Guarded) -> Guarded:
    """Return the dialect, its gate or its booker, with each error that it does not raise on
    purpose, as an IndexError for an answer of another form, told with its place as a transient
    LocalManagerError."""
    return cast("Guarded", _GuardedDialect(dialect))


class _GuardedDialect:
    def __init__(self, dialect: Dialect | Gate | Booker) -> None:
        self._dialect = dialect

    def __getattr__(self, name: str) -> object:
        try:
            value = getattr(self._dialect, name)
        except AttributeError:
            raise
        except Exception as error:
            raise _mistake(name, error) from error
        return _guarded(name, value) if callable(value) else value


def _guarded(name: str, call: Callable[..., object]) -> Callable[..., object]:
    @wraps(call)
    def run(*arguments: object, **named: object) -> object:
        try:
            return call(*arguments, **named)
        except KoalaError:
            raise
        except Exception as error:
            raise _mistake(name, error) from error

    return run


def _mistake(name: str, error: Exception) -> LocalManagerError:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}, line {place.lineno}"
    message = f"a mistake in `{name}` of the dialect ({where}): {type(error).__name__}: {error}"
    return LocalManagerError(message, transient=True)
