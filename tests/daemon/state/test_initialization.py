"""A daemon begins a new state directory only when told to: one whose disk is not mounted looks like
a new one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from koala.daemon.state.initialization import (
    record_initialized,
    require_initialized,
)
from koala.daemon.storage.folder import FILE
from koala.errors import JournalError
from tests.live.grid import live_grid


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with something in it, as one that is really there has."""
    (tmp_path / "daemon.toml").touch()
    return tmp_path


def begun(state_dir: Path) -> None:
    require_initialized(state_dir)
    state_dir.mkdir(exist_ok=True)
    (state_dir / FILE).touch()
    record_initialized(state_dir)


@pytest.mark.parametrize("is_made", [False, True])
def test_a_new_one_needs_no_word(place: Path, *, is_made: bool) -> None:
    state = place / "state"
    if is_made:
        state.mkdir()
    require_initialized(state)
    require_initialized(state)  # the first one came to nothing, as where its port is taken
    begun(state)
    require_initialized(state)


@pytest.mark.parametrize("is_mount_point", [False, True])
def test_one_that_was_there_and_is_away_is_not_begun_again(
    place: Path, *, is_mount_point: bool
) -> None:
    state = place / "state"
    begun(state)
    shutil.rmtree(state)
    if is_mount_point:
        state.mkdir()
    told = r"began one there before.*mounted.*koala restore.*koala daemon CONFIG --init, once"
    with pytest.raises(JournalError, match=told):
        require_initialized(state)
    assert state.is_dir() == is_mount_point, "nothing was made"
    require_initialized(state, may_begin=True)


@pytest.mark.live
@pytest.mark.slow
async def test_a_daemon_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    with live_grid(tmp_path, sites={"delft": 2}) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            job = (await client.submit("&(executable=/bin/true)")).job
            assert await client.wait(job) == "Finished"
        assert grid.terminate("daemon") == 0
        state = grid.state / "daemon"
        state.rename(grid.state / "away")
        state.mkdir()
        grid.start("daemon")
        assert grid.ended("daemon") == 1
        assert list(state.iterdir()) == []
        assert f"{state}: no journal is there" in grid.log("daemon")
        state.rmdir()
        (grid.state / "away").rename(state)
        grid.start("daemon")
        async with grid.client() as client:
            await grid.ready(client)
            assert (await client.show(job))["phase"] == "Finished"
