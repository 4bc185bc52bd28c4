"""A sample of the campaign in `corruption`, and the checks of the campaign itself."""

import shutil
from pathlib import Path

import pytest

from koala.daemon.state.recovery import LOST_EPOCHS_MAX, LOST_JOBS_MAX, begin_run
from koala.daemon.storage.folder import POSITION_FILE
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
    assert counted["cut: refused: unusable"] > 0
    # Where the refusal says that a loss can be accepted, it can.
    assert counted["flip: with --accept-loss: some jobs"] > 0
    assert counted["flip: with --accept-loss: refused"] == 0
    assert counted["cut: with --accept-loss: refused"] == 0


def test_a_log_that_is_gone_with_its_mark_is_missed(state: State, tmp_path: Path) -> None:
    """The rest is whole in itself, but a journal with events has a mark."""
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "state").mkdir(mode=0o700)
    for path in (state.folder / "state").iterdir():
        if path.is_file() and path.name not in (WAL, POSITION_FILE):
            (folder / "state" / path.name).write_bytes(path.read_bytes())
    assert outcome(state, folder) == "refused: damaged"


def test_an_untouched_state_is_recovered(state: State, tmp_path: Path) -> None:
    shutil.copytree(state.folder, tmp_path / "copy")
    assert outcome(state, tmp_path / "copy") == "recovered"


def test_without_a_backup_a_new_journal_begins_behind_the_fence(
    state: State, tmp_path: Path
) -> None:
    """The files of the journal are moved away; keys, users and sites stay."""
    folder = tmp_path / "without"
    shutil.copytree(state.folder, folder)
    for path in (folder / "state").glob("journal.*"):
        path.unlink()
    journal, found = begin_run(config_of(folder), accept_loss=True)
    assert found.scheduler.epoch >= LOST_EPOCHS_MAX
    assert found.jobs >= LOST_JOBS_MAX
    assert found.scheduler.loss_epoch == found.scheduler.epoch
    journal.close()
    journal, found = begin_run(config_of(folder))
    assert found.scheduler.epoch == LOST_EPOCHS_MAX + 1
    journal.close()
