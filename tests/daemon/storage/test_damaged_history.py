"""Events that no start needs are looked at all the same; damaged ones go, and nothing else does."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from koala.daemon.state.backup import back_up
from koala.daemon.state.recovery import LOST_EPOCHS_MAX, LOST_JOBS_MAX, Recovered, begin_run
from koala.daemon.storage.folder import FILE
from koala.daemon.storage.journal_reader import open_journal, replay
from koala.daemon.storage.records import ADVICE, RESTORE
from koala.errors import DamagedError, JournalError
from tests.daemon.storage.corruption import State, config_of, jobs_of, make_state, spoil_history

ROW = "event 12 does not match its checksum"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> State:
    return make_state(tmp_path_factory.mktemp("history"))


@pytest.fixture
def state(made: State, tmp_path: Path) -> Path:
    """A state directory with a snapshot among its events, as a killed daemon left it."""
    shutil.copytree(made.folder / "state", tmp_path / "state")
    return tmp_path / "state"


def change(state: Path, statement: str) -> None:
    with closing(sqlite3.connect(state / FILE)) as connection, connection:
        connection.execute(statement)


def saved_after(state: Path) -> int:
    """The event after which the newest snapshot was taken."""
    with closing(sqlite3.connect(state / FILE)) as connection:
        return int(connection.execute("SELECT max(seq) FROM snapshot").fetchone()[0])


def started(state: Path, *, accept_loss: bool = False) -> Recovered:
    journal, found = begin_run(config_of(state.parent), accept_loss=accept_loss)
    journal.close()  # without a snapshot, as if it was killed
    return found


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE event SET body = body || ' ' WHERE seq = 12", ROW),
        ("UPDATE event SET at = at + 1 WHERE seq = 12", ROW),
        ("UPDATE event SET chain = zeroblob(16) WHERE seq = 12", ROW),
        ("UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE seq = 12", ROW),
        ("DELETE FROM event WHERE seq = 12", "event 12 is missing"),
        ("DELETE FROM event WHERE seq = (SELECT max(seq) FROM snapshot)", r"event \d+ is missing"),
        (
            "UPDATE event SET at = at + 1 WHERE seq = (SELECT max(seq) FROM snapshot)",
            r"event \d+ does not match its checksum",
        ),
    ],
)
def test_damaged_history_is_refused_and_dropped_without_any_loss(
    made: State, state: Path, tmp_path: Path, statement: str, said: str
) -> None:
    change(state, statement)
    with pytest.raises(DamagedError, match=f"{re.escape(str(state / FILE))}.*{said}.*history"):
        started(state)
    found = started(state, accept_loss=True)
    assert jobs_of(found) == made.jobs
    assert found.scheduler.epoch < LOST_EPOCHS_MAX
    assert found.jobs < LOST_JOBS_MAX
    assert found.scheduler.loss_epoch == 0
    assert started(state).scheduler.epoch == found.scheduler.epoch + 1
    *_, last = replay(open_journal(state))
    assert last.record.seq > saved_after(state)
    assert back_up(state, tmp_path / "backup", with_spool=False).events == last.record.seq


def test_history_and_the_end_may_both_be_damaged(made: State, state: Path) -> None:
    change(
        state,
        "UPDATE event SET at = at + 1 WHERE seq = 12 OR seq = (SELECT max(seq) - 2 FROM event)",
    )
    assert started(state, accept_loss=True).scheduler.epoch >= LOST_EPOCHS_MAX
    *_, last = replay(open_journal(state))
    assert last.record.seq < made.mark.seq


def test_without_damage_a_loss_is_one_that_only_sites_know_of(state: Path) -> None:
    assert started(state, accept_loss=True).scheduler.epoch >= LOST_EPOCHS_MAX


def test_what_is_left_of_history_is_looked_at_from_its_second_event_on(state: Path) -> None:
    """As it is after old events were removed."""
    change(state, "DELETE FROM event WHERE seq < 10")
    assert started(state).replayed > 0
    change(state, "UPDATE event SET at = at + 1 WHERE seq = 12")
    with pytest.raises(DamagedError, match=ROW):
        started(state)


def test_a_page_of_history_that_cannot_be_read_is_refused_with_a_backup_as_the_remedy(
    state: Path,
) -> None:
    spoil_history(state)
    for accept_loss in (False, True):
        with pytest.raises(DamagedError) as refused:
            started(state, accept_loss=accept_loss)
        assert RESTORE in str(refused.value)
        assert "--accept-loss" not in str(refused.value), "it does not help"


def test_a_damaged_snapshot_is_none_to_fall_back_on(state: Path) -> None:
    change(state, "INSERT INTO snapshot VALUES (1, 0.0, x'00', x'00', x'00')")
    started(state)
    with closing(sqlite3.connect(state / FILE)) as connection:
        assert connection.execute("SELECT seq FROM snapshot").fetchall() == [(saved_after(state),)]


@pytest.mark.parametrize("which", ["min", "max"])
def test_a_damaged_digest_of_the_state_has_a_way_out(
    made: State, state: Path, tmp_path: Path, which: str
) -> None:
    """Only a replay verifies it; only the newest is looked at by a start."""
    change(
        state,
        "UPDATE digest SET digest = iif(digest LIKE '0%', '1', '0') || substr(digest, 2)"
        f" WHERE seq = (SELECT {which}(seq) FROM digest)",
    )
    if which == "max":
        with pytest.raises(JournalError, match=f"gives another state.*{re.escape(ADVICE)}"):
            started(state)
    with pytest.raises(JournalError, match=f"gives another state.*{re.escape(ADVICE)}"):
        back_up(state, tmp_path / "backup", with_spool=False)
    found = started(state, accept_loss=True)
    assert jobs_of(found) == made.jobs
    assert back_up(state, tmp_path / "backup", with_spool=False).events > made.mark.seq
