"""The table of jobs on a disk that is full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from koala_agent.lrm.job_table import JobTable
from tests.harness.failing_disk import limit_pages


class Row(msgspec.Struct, frozen=True):
    """A row of a table."""

    text: str


def filled(folder: Path, make_room: Callable[[], bool] = lambda: False) -> JobTable[Row]:
    """A table in which there is not a page more to be had."""
    table = JobTable(folder, Row, boot="b", scope="s", make_room=make_room)
    limit_pages(table)
    return table


def test_a_change_that_finds_no_room_is_made_once_more_when_there_is_some(tmp_path: Path) -> None:
    def make_room() -> bool:
        limit_pages(table, more=10_000)
        return True

    table = filled(tmp_path, make_room)
    table.save("j1/1/0/1", Row("x" * 100_000))
    assert table.load() == [Row("x" * 100_000)]
    table.close()
