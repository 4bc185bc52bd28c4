"""Lost or damaged rows of the agent's database are detected, and it is refused."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from koala.common.protocol.names import ClaimId
from koala.errors import DamagedError, DiskError, KoalaError
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.store import Store
from koala_agent.lrm.job_table import JobTable
from tests.agent.claims.test_store import a_claim
from tests.harness.failing_disk import limit_pages

FLIPS = 100


class Row(msgspec.Struct, frozen=True):
    """Row of a table of jobs."""

    text: str


@dataclass(frozen=True)
class Kind:
    """One of the agent's databases: its file, `write` (some rows, changed and removed; answers what
    closes it), and `read` (all that is in it)."""

    file: str
    write: Callable[[Path], Callable[[], None]]
    read: Callable[[Path], Any]

    @property
    def mark(self) -> str:
        return str(Path(self.file).with_suffix(".mark"))


def write_store(folder: Path) -> Callable[[], None]:
    store = Store(folder)
    store.set_epoch(7)
    store.set_leases(LeaseTimes(hold_lease_s=1.0, run_lease_s=2.0, kill_s=0.5))
    for number in range(1, 6):
        store.commit([StoreClaim(claim=a_claim(f"j{number}/1/0/1"))])
    store.commit([StoreClaim(claim=a_claim("j1/1/0/1")), Forget(claim=ClaimId("j2/1/0/1"))])
    store.set_epoch(8)
    return store.close


def read_store(folder: Path) -> Any:
    store = Store(folder)
    try:
        return (
            store.claims(),
            store.forgotten(),
            store.epoch,
            store.port,
            store.leases,
            store.watermark,
        )
    finally:
        store.close()


def write_table(folder: Path) -> Callable[[], None]:
    table = JobTable(folder, Row, boot="b", scope="s")
    for number in range(1, 6):
        table.save(f"j{number}/1/0/1", Row(f"waits {number}"))
    table.save("j1/1/0/1", Row("runs"))
    table.forget("j2/1/0/1")
    return table.close


def read_table(folder: Path, boot: str = "b") -> Any:
    table = JobTable(folder, Row, boot=boot, scope="another")
    try:
        return table.load(), table.scope, table.is_of_this_boot
    finally:
        table.close()


STORE = Kind("agent.db", write_store, read_store)
TABLE = Kind("jobs.sqlite3", write_table, read_table)
kinds = pytest.mark.parametrize("kind", [STORE, TABLE], ids=lambda kind: kind.file)


def killed(kind: Kind, folder: Path) -> Path:
    """Return the database that a process leaves that wrote and was killed."""
    close = kind.write(folder / "writer")
    shutil.copytree(folder / "writer", folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
    close()
    return folder / "killed"


@kinds
@pytest.mark.parametrize("is_in_log", [True, False], ids=["log", "database"])
def test_no_flipped_bit_changes_what_is_read(kind: Kind, is_in_log: bool, tmp_path: Path) -> None:
    left = killed(kind, tmp_path)
    folder = left if is_in_log else tmp_path / "writer"
    whole = kind.read(tmp_path / "writer")
    name = f"{kind.file}-wal" if is_in_log else kind.file
    draw, refused = Random(3), 0
    content = (folder / name).read_bytes()
    assert content
    for number in range(FLIPS):
        spoilt = bytearray(content)
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
        copy = tmp_path / f"copy{number}"
        shutil.copytree(folder, copy)
        (copy / name).write_bytes(spoilt)
        try:
            assert kind.read(copy) == whole
        except KoalaError:
            refused += 1
        shutil.rmtree(copy)
    assert refused > 0


@kinds
def test_a_log_that_was_removed_is_missed(kind: Kind, tmp_path: Path) -> None:
    left = killed(kind, tmp_path)
    (left / f"{kind.file}-wal").unlink()
    with pytest.raises(KoalaError, match=kind.file):
        kind.read(left)


@kinds
def test_an_older_copy_is_told_from_what_was_there(kind: Kind, tmp_path: Path) -> None:
    kind.write(tmp_path)()
    older = (tmp_path / kind.file).read_bytes()
    kind.write(tmp_path)()
    (tmp_path / kind.file).write_bytes(older)
    with pytest.raises(DamagedError, match=r"changes of its rows are missing. Move agent\.db"):
        kind.read(tmp_path)


@kinds
@pytest.mark.parametrize("text", [None, "", "x" * 38, "00000000000000000001 0123456789abcdef\n"])
def test_a_mark_that_is_missing_or_spoilt_is_no_mark(
    kind: Kind, text: str | None, tmp_path: Path
) -> None:
    kind.write(tmp_path)()
    mark = tmp_path / kind.mark
    mark.unlink()
    if text is not None:
        mark.write_text(text)
    with pytest.raises(DamagedError, match=rf"{kind.mark} is missing, or cannot be read"):
        kind.read(tmp_path)


@kinds
def test_a_commit_after_which_no_mark_could_be_written_any_more_counts(
    kind: Kind, tmp_path: Path
) -> None:
    """Nothing was said that rests on it, but it may be there."""
    kind.write(tmp_path)()
    earlier = (tmp_path / kind.mark).read_bytes()
    kind.write(tmp_path)()
    (tmp_path / kind.mark).write_bytes(earlier)
    kind.read(tmp_path)
    assert (tmp_path / kind.mark).read_bytes() > earlier


@kinds
def test_rows_that_somebody_else_changed_are_refused(kind: Kind, tmp_path: Path) -> None:
    kind.write(tmp_path / "whole")()
    table = "claim" if kind is STORE else "job"
    for number, statement in enumerate(
        (f"DELETE FROM {table}", "DELETE FROM seal", "UPDATE seal SET sum = x'00'")
    ):
        copy = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", copy)
        with closing(sqlite3.connect(copy / kind.file)) as connection, connection:
            connection.execute(statement)
        with pytest.raises(DamagedError, match="do not match their checksum"):
            kind.read(copy)


def test_the_end_of_the_machine_may_take_back_jobs_that_ended_with_it(tmp_path: Path) -> None:
    """The table of jobs is not flushed at each change."""
    write_table(tmp_path)()
    older = (tmp_path / TABLE.file).read_bytes()
    write_table(tmp_path)()
    (tmp_path / TABLE.file).write_bytes(older)
    jobs, _, is_of_this_boot = read_table(tmp_path, boot="the next one")
    assert (len(jobs), is_of_this_boot) == (4, False)
    assert len(read_table(tmp_path, boot="b")[0]) == 4, "and counts from there"


def test_a_change_that_was_taken_back_is_in_neither_seal_nor_mark(tmp_path: Path) -> None:
    write_store(tmp_path)()
    store = Store(tmp_path)
    limit_pages(store)
    with pytest.raises(DiskError):
        store.commit([StoreClaim(claim=a_claim(f"j{n}/1/0/1")) for n in range(10, 200)])
    store.close()
    assert len(read_store(tmp_path)[0]) == 4
