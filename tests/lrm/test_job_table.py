"""The table of jobs on a disk that is full."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from koala.errors import DiskError
from koala_agent.lrm.job_table import JobTable


class Row(msgspec.Struct, frozen=True):
    """A row of a table."""

    text: str


def filled(folder: Path) -> tuple[JobTable[Row], sqlite3.Connection]:
    """A table in which there is not a page more to be had."""
    table = JobTable(folder, Row, boot="b", scope="s")
    (pages,) = table._connection.execute("PRAGMA page_count").fetchone()
    table._connection.execute(f"PRAGMA max_page_count = {pages}")
    return table, table._connection


def test_a_change_that_finds_no_room_is_made_once_more_when_there_is_some(tmp_path: Path) -> None:
    table, connection = filled(tmp_path)

    def make_room() -> bool:
        connection.execute("PRAGMA max_page_count = 10000")
        return True

    table._make_room = make_room
    table.save("j1/1/0/1", Row("x" * 100_000))
    assert table.load() == [Row("x" * 100_000)]
    table.close()


def test_a_change_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    """The manager has decided, and would go on with what is nowhere written."""
    table, _ = filled(tmp_path)
    with pytest.raises(DiskError, match=r"jobs\.sqlite3: cannot be written: database or disk is"):
        table.save("j1/1/0/1", Row("x" * 100_000))
    assert table.load() == []
    table.close()
