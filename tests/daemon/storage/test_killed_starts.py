"""A start with `--accept-loss` that is killed at any of its lines takes nothing away: the next one
refuses the damaged journal as before, or goes on as after a loss with what comes before the damage.
And no kill of any start leaves events without a mark, which would be refused.
"""

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from koala.common.runtime import sqlite_store
from koala.daemon.state import recovery
from koala.daemon.state.recovery import LOST_EPOCHS_MAX, begin_run
from koala.daemon.storage import folder, journal
from koala.daemon.storage.folder import FILE
from koala.errors import JournalError
from tests.daemon.storage.corruption import WAL, State, config_of, jobs_of, make_state

TRACED = {str(module.__file__) for module in (folder, journal, recovery, sqlite_store)}
Damage = Callable[[Path], None]


def a_row(state: Path) -> None:
    """One of the last events is not as it was written."""
    with closing(sqlite3.connect(state / FILE)) as connection, connection:
        connection.execute(
            "UPDATE event SET at = at + 1 WHERE seq = (SELECT max(seq) FROM event) - 2"
        )


def the_end(state: Path) -> None:
    """The write-ahead log is gone; the mark knows of it."""
    (state / WAL).unlink()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return make_state(tmp_path_factory.mktemp("kills"))


@pytest.mark.long
@pytest.mark.parametrize("damage", [a_row, the_end])
def test_a_kill_at_any_line_leaves_the_refusal_or_what_can_be_read(
    state: State, tmp_path: Path, damage: Damage
) -> None:
    spoilt = tmp_path / "spoilt"
    shutil.copytree(state.folder, spoilt)
    damage(spoilt / "state")
    shutil.copytree(spoilt, tmp_path / "whole")
    left = started(tmp_path / "whole", accept_loss=True)
    assert left
    shutil.copytree(spoilt, tmp_path / "looked-at")
    points = changes(tmp_path / "looked-at")
    refused = 0
    for point in points:
        folder = tmp_path / f"killed-{point}"
        shutil.copytree(spoilt, folder)
        assert in_child(folder, partial(kill_at, point)) == -signal.SIGKILL
        if (found := started(folder, accept_loss=False)) is None:
            refused += 1
            found = started(folder, accept_loss=True)
        assert found == left
    assert refused > 0
    assert len(points) - refused > 0


def test_a_new_daemon_that_is_killed_at_any_line_can_be_started(tmp_path: Path) -> None:
    """Nobody needs to accept a loss of what never was."""
    looked_at = tmp_path / "looked-at"
    points = changes(looked_at, accept_loss=False)
    for point in points:
        folder = tmp_path / f"killed-{point}"
        killed = in_child(folder, partial(kill_at, point), accept_loss=False)
        assert killed == -signal.SIGKILL
        opened, found = begin_run(config_of(folder))
        opened.close()
        assert found.scheduler.epoch < LOST_EPOCHS_MAX
    assert len(points) > 2


def started(folder: Path, *, accept_loss: bool) -> dict[str, object] | None:
    """The jobs that a start goes on with, after a loss; None when it is refused."""
    try:
        opened, found = begin_run(config_of(folder), accept_loss=accept_loss)
    except JournalError:
        return None
    opened.close()
    assert found.scheduler.epoch >= LOST_EPOCHS_MAX, "it goes on as if nothing was lost"
    return jobs_of(found)


def in_child(folder: Path, at_line: Callable[[int], None], *, accept_loss: bool = True) -> int:
    """A start that calls this at each line of these modules that it gets to for the first time,
    with the number of those before; how it ended."""
    seen: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in seen:
            at_line(len(seen))
            seen.add(line)
        return trace

    child = os.fork()
    if child == 0:
        status = 1
        try:
            sys.settrace(trace)
            begin_run(config_of(folder), accept_loss=accept_loss)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(point: int, line: int) -> None:
    if line == point:
        os.kill(os.getpid(), signal.SIGKILL)


def changes(folder: Path, *, accept_loss: bool = True) -> list[int]:
    """The lines of a start before which something has changed on the disk."""
    known = [files(folder)]
    told = folder.with_suffix(".lines")

    def look(line: int) -> None:
        if (now := files(folder)) != known[-1]:
            known.append(now)
            with told.open("a") as file:
                file.write(f"{line}\n")

    assert in_child(folder, look, accept_loss=accept_loss) == 0
    return [int(line) for line in told.read_text().splitlines()]


def files(folder: Path) -> list[tuple[str, int, int, int]]:
    found = []
    for path in sorted((folder / "state").rglob("*")):
        if path.is_file() and not path.name.endswith("-shm"):
            status = path.stat()
            found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
    return found
