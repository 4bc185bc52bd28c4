"""A daemon begins a new state directory only when told to: one whose disk is not mounted looks like
a new one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from koala.daemon.state.initialization import (
    initialized_path,
    record_initialized,
    require_initialized,
)
from koala.daemon.storage.folder import FILE
from koala.errors import JournalError
from tests.cli.command import koala
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


@pytest.mark.parametrize("name", ["state", "koala/state"])
def test_an_empty_mount_point_above_is_not_new(tmp_path: Path, name: str) -> None:
    """The witness is on the disk that is away."""
    with pytest.raises(JournalError, match=r"nothing else in it|cannot be read"):
        require_initialized(tmp_path / "disk" / name)
    (tmp_path / "disk").mkdir()
    with pytest.raises(JournalError, match=r"nothing else in it|cannot be read"):
        require_initialized(tmp_path / "disk" / name)
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_link_to_a_disk_that_is_away_is_not_followed_into_nothing(place: Path) -> None:
    disk = place / "disk"
    disk.mkdir()
    state = place / "state"
    state.symlink_to(disk)
    begun(state)
    shutil.rmtree(disk)
    with pytest.raises(JournalError, match="began one there before"):
        require_initialized(state)


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


@pytest.mark.live
@pytest.mark.slow
def test_a_grid_whose_state_is_away_gets_no_new_authority(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        '[daemon]\nlisten = "127.0.0.1:0"\nplain = false\n[sites.delft.site]\nprocessors = 2\n'
    )
    state = tmp_path / "state" / "daemon"
    state.mkdir(parents=True)
    initialized_path(state).touch()
    run = koala("up", str(grid), "--state", str(state.parent), XDG_RUNTIME_DIR=str(tmp_path))
    assert run.returncode == 1
    assert "began one there before" in run.stderr
    assert list(state.iterdir()) == []
