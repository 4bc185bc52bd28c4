"""Commands that are ended early leave nothing behind, and say nothing of Python's."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from koala.daemon.state.backup import back_up
from tests.cli.command import Command, begin
from tests.daemon.storage.corruption import make_state

pytestmark = [pytest.mark.live, pytest.mark.slow]

GRID = "[daemon]\n[sites.delft.site]\nprocessors = 2\n"
WAIT_S = 60.0
LOOK_S = 0.002
"""How often a folder is looked at: often enough to meet what is there for a moment."""


def until(is_so: Callable[[], bool], command: Command) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert command.process.poll() is None, command.end()
        assert time.monotonic() < end
        with suppress(subprocess.TimeoutExpired):
            command.process.wait(LOOK_S)


def started(folder: Path, *words: str) -> Command:
    return begin(*words, TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder))


@pytest.mark.parametrize(
    ("number", "times", "sign"),
    [
        (signal.SIGTERM, 1, "daemon/endpoint"),
        (signal.SIGINT, 1, "daemon.toml"),
        (signal.SIGINT, 5, ""),
        pytest.param(signal.SIGTERM, 1, "", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 1, "daemon.toml", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 1, "", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 1, "daemon/endpoint", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 5, "daemon.toml", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, 5, "daemon/endpoint", marks=pytest.mark.long),
    ],
)
def test_a_grid_that_is_ended_while_it_starts_leaves_nothing(
    number: signal.Signals, times: int, sign: str, tmp_path: Path
) -> None:
    grid, made = tmp_path / "grid.toml", tmp_path / "made"
    grid.write_text(GRID)
    made.mkdir()
    command = started(made, "up", str(grid), "--any-port", "--no-web")
    until(lambda: any(made.glob(f"koala-up-*/{sign}")), command)
    for _ in range(times):
        command.process.send_signal(number)
    ended = command.end(WAIT_S)
    assert ended.returncode in (0, 128 + number), ended.stderr
    assert "Traceback" not in ended.stderr
    assert (ended.stdout, list(made.iterdir())) == ("", [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_backup_that_is_cut_short_leaves_no_secrets(
    number: signal.Signals, tmp_path: Path
) -> None:
    """One that was killed leaves them to the next, which removes them."""
    state = make_state(tmp_path).folder / "state"
    target = tmp_path / "backups" / "one"
    target.parent.mkdir()
    command = backup_under_way(tmp_path, state, target)
    command.process.send_signal(number)
    assert "Traceback" not in command.end(WAIT_S).stderr
    assert not target.exists()
    left = list(target.parent.iterdir())
    assert len(left) == (number is signal.SIGKILL)
    back_up(state, target, with_spool=False)
    assert list(target.parent.iterdir()) == [target]


def backup_under_way(folder: Path, state: Path, target: Path) -> Command:
    """Start a backup and meet it while it copies; start again if it was made unseen."""
    end = time.monotonic() + WAIT_S
    while True:
        command = started(folder, "backup", str(state), str(target))
        while command.process.poll() is None:
            if any(target.parent.glob(".koala-*/koala-backup")):
                return command
            assert time.monotonic() < end
        assert command.end().returncode == 0
        shutil.rmtree(target)
