"""Read connections to the journal's database, each with its own thread.

Short reads do not queue behind long ones.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from koala.common.runtime.sqlite_store import FORGIVING

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class ReadConnection:
    """Run reads one after another; it sees committed data and waits for no writer."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None  # used in that thread only

    async def ask(
        self, read: Callable[[sqlite3.Connection, Path, Question], Answer], question: Question
    ) -> Answer:
        """Run `read` in the thread and return its result. It must be short: other reads wait."""

        def answer() -> Answer:
            if self._connection is None:
                self._connection = connect_reader(self._path)
            return read(self._connection, self._path, question)

        return await asyncio.get_running_loop().run_in_executor(self._thread, answer)

    def close(self) -> None:
        """Finish the queued reads and close the connection."""
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a read-only connection that tolerates invalid UTF-8."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    connection.text_factory = FORGIVING
    return connection
