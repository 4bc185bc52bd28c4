"""The journal keeps what was committed, refuses what it cannot trust, and reads back the same."""

import json
import os
import sqlite3
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koala.core.model.events import EVENTS, Event, ParametersChanged, SiteDrained
from koala.core.model.parameters import PAPER, Parameters
from koala.core.model.values import SiteName, UserName
from koala.daemon.storage import journal as journal_module
from koala.daemon.storage.folder import FILE, POSITION_FILE
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import open_journal, records
from koala.daemon.storage.records import (
    Batch,
    JournalPosition,
    Notice,
    Record,
    _chained,
    decode_event,
    encode_event,
    position_text,
    read_rows,
    rows_of,
)
from koala.errors import DiskError, JournalError

st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(int, st.integers(min_value=-(2**60), max_value=2**60))
st.register_type_strategy(str, st.text(max_size=20))
st.register_type_strategy(Parameters, st.sampled_from([PAPER, Parameters(), Parameters(hold_s=7)]))


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_every_kind_of_event_reads_back_as_it_was(kind: type[Event]) -> None:
    @settings(max_examples=15)
    @given(event=st.from_type(kind))
    def check(event: Event) -> None:
        assert decode_event(kind.__name__, encode_event(event)) == event

    check()


def test_the_table_of_kinds_is_the_union_of_events() -> None:
    assert set(EVENTS.values()) == set(get_args(Event))


def test_infinite_parameters_read_back() -> None:
    event = ParametersChanged(parameters=PAPER, links=((SiteName("a"), SiteName("b"), 1.5),))
    text = encode_event(event)
    json.loads(text, parse_constant=pytest.fail)  # plain JSON, for other programs
    assert decode_event("ParametersChanged", text) == event


@pytest.mark.parametrize("kind", ["SiteDrained", "ParametersChanged"])
def test_what_is_nested_too_deep_is_refused_as_any_other_nonsense(kind: str) -> None:
    deep = "[" * 100_000
    with pytest.raises(JournalError, match="cannot be read"):
        decode_event(kind, f'{{"site": "delft", "by": "ann", "parameters": {deep}')
    (row,), _ = rows_of([record(1)], JournalPosition())
    seq, at, name, body, _, _ = row
    chain = _chained(b"", seq, at, name, body, deep)
    with pytest.raises(JournalError, match="event 1 cannot be read"):
        list(read_rows([(seq, at, name, body, deep, chain)], JournalPosition(), source="a journal"))


def record(seq: int, *, answers: list[object] | None = None) -> Record:
    event = SiteDrained(site=SiteName("delft"), by=UserName(f"user {seq}"))
    return Record(seq=seq, at=100.0 + seq, event=event, answers=answers or [])


def opened(folder: Path) -> tuple[Journal, list[Record]]:
    journal = Journal.open(folder)
    try:
        return journal, list(journal.records())
    except BaseException:
        journal.close()
        raise


def read(path: Path) -> list[Record]:
    """As somebody does who is not the daemon."""
    return list(records(open_journal(path)))


def written(folder: Path, count: int) -> Path:
    """A closed journal with so many events, and its database file."""
    journal, _ = opened(folder)
    for seq in range(1, count + 1):
        journal.append(Batch(records=[record(seq)]))
    journal.close()
    return folder / FILE


async def test_notices_keep_their_numbers_over_a_restart(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path)
    notices = [Notice(number=n, at=1.0, job=f"j{n}", phase="Placing", text="t") for n in (1, 2, 3)]
    journal.append(Batch(records=[record(1)], notices=notices))
    assert await journal.notices(1, 10) == notices[1:]
    assert await journal.notices(0, 2) == notices[:2]
    journal.close()
    again, _ = opened(tmp_path)
    assert (again.first_notice, again.notice_number) == (1, 3)
    again.close()


async def test_only_the_newest_notices_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "NOTICES_MAX", 2000)
    journal, _ = opened(tmp_path)
    for first in range(1, 6001, 500):
        numbers = range(first, first + 500)
        journal.append(Batch(records=[], notices=[Notice(number=n, at=0.0) for n in numbers]))
    kept = await journal.notices(0, 10_000)
    assert [kept[0].number, kept[-1].number] == [journal.first_notice, 6000]
    assert 2000 <= len(kept) < 3000
    journal.close()


def test_another_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalError, match="format 99: this version of Koala reads 2"):
        Journal.open(tmp_path)
    with pytest.raises(JournalError, match="format 99"):
        read(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"what is this\n" * 100)
    with pytest.raises(JournalError, match="damaged: it cannot be read: file is not a database"):
        Journal.open(tmp_path)


@pytest.mark.parametrize("is_empty", [False, True])
def test_events_without_a_mark_are_refused_until_a_loss_is_accepted(
    tmp_path: Path, *, is_empty: bool
) -> None:
    """The end of the journal may be lost with the mark: with its write-ahead log."""
    state = tmp_path / "state"
    file = written(state, 3)
    (state / POSITION_FILE).write_bytes(b"") if is_empty else (state / POSITION_FILE).unlink()
    for _ in range(2):  # what was refused is refused again
        with pytest.raises(JournalError) as refused:
            opened(state)
        said = str(refused.value)
        assert f"{file}: damaged: it ends with event 3, and {state / POSITION_FILE}" in said
        assert "--accept-loss" in said
    assert read(state) == [record(1), record(2), record(3)], "a copy is read without"
    journal = Journal.open(state)
    assert list(journal.records(accept_loss=True)) == [record(1), record(2), record(3)]
    journal.close()
    with pytest.raises(JournalError, match="it ends with event 3"):
        opened(state)  # nothing was committed after the loss: it is not accepted yet
    journal = Journal.open(state)
    list(journal.records(accept_loss=True))
    journal.append(Batch(records=[record(4)]))
    journal.close()
    again, found = opened(state)
    again.close()
    assert found[-1] == record(4)


def test_the_first_mark_is_durable_before_the_first_event_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a loss of power could leave the one without the other, and a new daemon refused."""
    synced: list[int] = []
    texts: list[bytes] = []
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        texts.append((tmp_path / "state" / POSITION_FILE).read_bytes())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    journal, _ = opened(tmp_path / "state")
    state = tmp_path / "state"
    assert synced == [(state / POSITION_FILE).stat().st_ino, state.stat().st_ino]
    assert texts[0] == position_text(JournalPosition())
    journal.append(Batch(records=[record(1)]))
    assert len(synced) == 2, "later ones need not be"
    journal.close()


def test_a_mark_that_cannot_be_written_at_a_start_is_trouble_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int, _text: bytes, _place: int) -> int:
        raise OSError(28, "No space left on device")

    journal = Journal.open(tmp_path / "state")
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(DiskError, match=r"journal\.mark: cannot be written"):
        list(journal.records())
    journal.close()
