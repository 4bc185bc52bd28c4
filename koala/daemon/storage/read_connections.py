"""Reads of the journal's database: a thread and a connection of its own for each kind, so that what
is short does not wait behind what is long."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
_FORGIVING = partial(str, encoding="utf-8", errors="replace")


class ReadConnection:
    """Answers one question after another; it sees what is committed, and waits for no writer."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None  # of that thread

    async def ask(
        self, read: Callable[[sqlite3.Connection, Path, Question], Answer], question: Question
    ) -> Answer:
        """What `read` finds. It must be short: others wait for their turn meanwhile."""

        def answer() -> Answer:
            if self._connection is None:
                self._connection = connect_reader(self._path)
            return read(self._connection, self._path, question)

        return await asyncio.get_running_loop().run_in_executor(self._thread, answer)

    def close(self) -> None:
        """After what was asked."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads, and is forgiving."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    connection.text_factory = _FORGIVING
    return connection


@contextmanager
def forgiving(connection: sqlite3.Connection) -> Iterator[None]:
    """Text that is damaged so that it is no UTF-8 is read as another text meanwhile: it must not
    hide the rows beside it, and does not pass for what was written."""
    before, connection.text_factory = connection.text_factory, _FORGIVING
    try:
        yield
    finally:
        connection.text_factory = before
