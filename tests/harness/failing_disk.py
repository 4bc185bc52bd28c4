"""A database whose disk fails in the middle of a commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Failing:
    def __enter__(self) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    def __exit__(self, *_: object) -> None:
        raise AssertionError


@contextmanager
def failing_commits(database: Any) -> Iterator[None]:
    """Every transaction of a journal or an agent's store begins with a failed fsync."""
    connection, database._connection = database._connection, _Failing()
    try:
        yield
    finally:
        database._connection = connection
