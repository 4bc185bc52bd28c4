"""A database whose disk fails in the middle of a commit, or is full."""

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
def failing_commits(owner: Any) -> Iterator[None]:
    """Every transaction of a journal or an agent's store begins with a failed fsync."""
    database = owner._database
    connection, database.connection = database.connection, _Failing()
    try:
        yield
    finally:
        database.connection = connection


def limit_pages(owner: Any, more: int = 0) -> None:
    """Let the database of a journal or store grow by so many pages, and then find the disk full."""
    connection = owner._database.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + more}")
