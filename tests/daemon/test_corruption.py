"""A sample of the campaign in `corruption`, and the checks of the campaign itself."""

from pathlib import Path

import pytest

from koala.daemon.folder import MARK
from tests.daemon.corruption import WAL, State, campaign, make_state, outcome


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return make_state(tmp_path_factory.mktemp("corruption"))


def test_no_flipped_bit_and_no_cut_takes_back_what_was_committed(
    state: State, tmp_path: Path
) -> None:
    counted = campaign(state, tmp_path, flips=120, cuts=60, seed=7)
    assert counted["flip: recovered"] > 0
    assert counted["flip: refused: damaged"] > 0
    assert counted["cut: refused: damaged"] > 0


def test_only_an_agent_knows_of_a_log_that_is_gone_with_its_mark(
    state: State, tmp_path: Path
) -> None:
    """What is left is whole in itself: a start without agents could not know better."""
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "state").mkdir(mode=0o700)
    for path in (state.folder / "state").iterdir():
        if path.is_file() and path.name not in (WAL, MARK):
            (folder / "state" / path.name).write_bytes(path.read_bytes())
    assert outcome(state, folder) == "refused: an agent knows more"


def test_an_untouched_state_is_recovered(state: State, tmp_path: Path) -> None:
    counted = campaign(state, tmp_path, flips=0, cuts=0, seed=1)
    assert not counted
    assert outcome(state, state.folder) == "recovered"
