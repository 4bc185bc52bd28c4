"""The agent's store keeps what must not be forgotten, and only its owner may open it."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from koala.common.protocol.messages import ArmNumber, Hold, Program, Release
from koala.common.protocol.names import ClaimId
from koala.errors import ConfigError, DiskError, JournalError
from koala_agent.claims.events import StoreClaim
from koala_agent.claims.states import Claim, Passed
from koala_agent.claims.store import Store
from tests.harness.failing_disk import limit_pages


def a_claim(name: str = "j1/1/0/1") -> Claim:
    claim = ClaimId(name)
    program = Program(
        executable="/bin/echo", arguments=("a b", "ü\n"), environment=(("X", "1"),), processes=3
    )
    return Claim(
        hold=Hold(
            port=20_000, claim=claim, processors=3, hold_s=60.0, program=program, inputs=("t1",)
        ),
        secret="s",
        state=Passed(nonce="n", passed_at=12.5),
        release=Release(claim=claim, number=ArmNumber(epoch=2, counter=3), release_at=12.0),
        values={"addr/0": "127.0.0.1:1"},
    )


def test_only_this_user_can_read_it(tmp_path: Path) -> None:
    """It holds the secrets of the claims; SQLite by itself makes its files readable to all."""
    store = Store(tmp_path / "state")
    store.commit([StoreClaim(claim=a_claim())])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()}
    assert modes
    assert all(mode == 0o600 for mode in modes.values()), modes
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    store.close()


def test_a_second_agent_is_refused_and_told_who_has_the_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ConfigError, match=rf"{tmp_path}: another agent .*pid {os.getpid()}"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "agent.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for _ in range(2):  # and what could not be opened is not held
        with pytest.raises(JournalError, match="format 99"):
            Store(tmp_path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.db").write_bytes(b"this is no database, but it is long enough" * 100)
    with pytest.raises(JournalError, match=r"agent\.db"):
        Store(tmp_path)


def spoil(folder: Path, statement: str, values: tuple[str, ...] = ()) -> None:
    """Write what no agent writes; the seal is that of the rows."""
    store = Store(folder)
    store._database.write(lambda connection: connection.execute(statement, values))
    store.close()


@pytest.mark.parametrize("body", ["'{}'", "x'7b22ff22'", "'['"])
def test_a_claim_that_cannot_be_read_is_refused(tmp_path: Path, body: str) -> None:
    store = Store(tmp_path)
    store.commit([StoreClaim(claim=a_claim())])
    store.close()
    spoil(tmp_path, f"UPDATE claim SET body = {body}")
    store = Store(tmp_path)
    with pytest.raises(JournalError, match="a claim cannot be read"):
        store.claims()
    store.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [("epoch", "x"), ("port", "9" * 5_000), ("leases", "[1"), ("leases", '{"kill_s": "5"}'),
     ("mark", "[1, 2]"), ("mark", "{}")],
)  # fmt: skip
def test_a_fact_that_cannot_be_read_is_refused(tmp_path: Path, name: str, value: str) -> None:
    Store(tmp_path).close()
    spoil(tmp_path, "INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value))
    store = Store(tmp_path)
    with pytest.raises(JournalError, match=rf"agent\.db: the {name} .* cannot be read"):
        getattr(store, "watermark" if name == "mark" else name)
    store.close()


def filled(folder: Path, make_room: Callable[[], bool] = lambda: False) -> Store:
    """A store with a claim, and not a page more to be had."""
    store = Store(folder, make_room=make_room)
    store.commit([StoreClaim(claim=a_claim())])
    limit_pages(store)
    return store


def many() -> list[StoreClaim]:
    return [StoreClaim(claim=a_claim(f"j{number}/1/0/1")) for number in range(2, 200)]


def test_a_full_disk_is_tried_once_more_when_room_was_made(tmp_path: Path) -> None:
    asked = []

    def make_room() -> bool:
        asked.append(len(store.claims()))
        limit_pages(store, more=10_000)
        return True

    store = filled(tmp_path, make_room)
    store.commit(many())
    assert asked == [1], "what was begun had been taken back"
    assert len(store.claims()) == 199
    store.close()


def test_a_disk_that_is_full_for_good_changes_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    with pytest.raises(DiskError, match=r"agent\.db: cannot be written: database or disk is full"):
        store.commit(many())
    assert store.claims() == [a_claim()]
    store.close()
