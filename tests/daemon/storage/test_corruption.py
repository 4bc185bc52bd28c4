"""A sample of the campaign in `corruption`, and the checks of the campaign itself."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from koala.daemon.recovery import begin_life
from koala.daemon.state_folder import FILE, MARK
from koala.errors import JournalError
from tests.daemon.storage.corruption import WAL, State, campaign, config_of, make_state, outcome


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return make_state(tmp_path_factory.mktemp("corruption"))


@pytest.mark.long
def test_no_flipped_bit_and_no_cut_takes_back_what_was_committed(
    state: State, tmp_path: Path
) -> None:
    counted = campaign(state, tmp_path, flips=120, cuts=60, seed=7)
    assert counted["flip: recovered"] > 0
    assert counted["flip: refused: damaged"] > 0
    assert counted["cut: refused: damaged"] > 0
    # Whatever one flip spoils, something can be read around it.
    assert counted["flip: with --accept-loss: some jobs"] > 0
    assert counted["flip: with --accept-loss: nothing"] == 0


def test_a_log_that_is_gone_with_its_mark_is_missed(state: State, tmp_path: Path) -> None:
    """The rest is whole in itself, but a journal with events has a mark."""
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "state").mkdir(mode=0o700)
    for path in (state.folder / "state").iterdir():
        if path.is_file() and path.name not in (WAL, MARK):
            (folder / "state" / path.name).write_bytes(path.read_bytes())
    assert outcome(state, folder) == "refused: damaged"


def test_an_untouched_state_is_recovered(state: State, tmp_path: Path) -> None:
    shutil.copytree(state.folder, tmp_path / "copy")
    assert outcome(state, tmp_path / "copy") == "recovered"


def test_what_can_be_read_of_a_refused_journal_is_gone_on_with(
    state: State, tmp_path: Path
) -> None:
    folder = tmp_path / "page"
    shutil.copytree(state.folder, folder)
    (folder / "state" / WAL).unlink()
    (folder / "state" / MARK).unlink()
    with (folder / "state" / FILE).open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 4096)
    assert outcome(state, folder) == "refused: damaged"
    journal, found = begin_life(config_of(folder), accept_loss=True)
    assert found.scheduler.loss_epoch == found.scheduler.epoch
    journal.close()
    damaged = folder / "state" / "damaged-1"
    assert damaged.stat().st_mode & 0o777 == 0o700
    assert (damaged / FILE).exists()
    assert outcome(replace(state, jobs={}), folder) == "refused: an agent knows more"


def test_nothing_is_made_of_nothing(state: State, tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    shutil.copytree(state.folder, folder)
    (folder / "state" / WAL).unlink()
    (folder / "state" / FILE).write_bytes(b"x" * 9999)
    with pytest.raises(JournalError, match="nothing of it can be read"):
        begin_life(config_of(folder), accept_loss=True)
    assert (folder / "state" / FILE).read_bytes() == b"x" * 9999
    assert not list((folder / "state").glob("damaged-*")), "nothing is moved in vain"
    with pytest.raises(JournalError, match="damaged"):
        begin_life(config_of(folder))


def test_a_journal_that_was_moved_aside_does_not_become_an_empty_one(
    state: State, tmp_path: Path
) -> None:
    """As earlier releases left it when they were killed while they salvaged."""
    folder = tmp_path / "aside"
    shutil.copytree(state.folder, folder)
    (folder / "state" / "damaged-1").mkdir(mode=0o700)
    for name in (FILE, WAL, MARK):
        (folder / "state" / name).rename(folder / "state" / "damaged-1" / name)
    for accept_loss in (False, True):
        with pytest.raises(JournalError, match=r"missing, and what was there is in .*damaged-1"):
            begin_life(config_of(folder), accept_loss=accept_loss)
