"""Files of commands appear whole or not at all, and an older file stays until then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from koala.common.runtime.atomic_file import PREFIX, atomic_file, check_writable, write_atomically
from koala.errors import KoalaError
from tests.cli.command import environment

OLDER = "what was there before\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_older_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(OLDER)
    path.chmod(0o640)
    with atomic_file(path) as part:
        part.write_text("new\n")
        assert path.read_text() == OLDER
        assert part.suffix == ".csv", "by which a drawing knows its form"
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["out.csv"]


def test_a_failure_leaves_the_older_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text(OLDER)
    with pytest.raises(ZeroDivisionError), atomic_file(path) as part:
        part.write_text(str(1 / 0))
    with atomic_file(path) as part:
        part.unlink()  # it gives up
    assert (path.read_text(), names(tmp_path)) == (OLDER, ["out.csv"])


def test_an_error_of_another_file_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"log\.swf"), atomic_file(tmp_path / "out"):
        (tmp_path / "log.swf").read_text()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, dangling = tmp_path / "link", tmp_path / "dangling"
    (tmp_path / "far" / "file").write_text(OLDER)
    link.symlink_to(tmp_path / "far" / "file")
    dangling.symlink_to("far/new")
    for path in (link, dangling):
        write_atomically(path, "new\n")
        assert path.is_symlink()
    assert (tmp_path / "far" / "file").read_text() == (tmp_path / "far" / "new").read_text()
    assert names(tmp_path / "far") == ["file", "new"]


def test_a_pipe_is_written_where_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)  # which does not wait for a reader
    writer = threading.Thread(target=write_atomically, args=(pipe, "new\n"))
    writer.start()
    assert pipe.read_text() == "new\n"
    writer.join()
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    ("place", "reason"),
    [("none/out", "No such file"), (".", "Is a directory"), ("loop", "Too many levels")],
)
def test_what_cannot_be_written_is_an_error_with_its_path(
    tmp_path: Path, place: str, reason: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / place
    with pytest.raises(KoalaError, match=rf"{path}: cannot be written: {reason}"):
        check_writable(path)


def test_a_device_without_room_is_an_error_with_its_path() -> None:
    with pytest.raises(KoalaError, match=r"/dev/full: cannot be written: No space left"):
        write_atomically(Path("/dev/full"), "new\n")


def test_what_a_killed_writer_left_is_removed_and_one_at_work_is_left_alone(
    tmp_path: Path,
) -> None:
    program = (
        "import os, sys; from pathlib import Path; from koala.common.runtime.atomic_file import "
        "atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as part:\n"
        "    part.write_text('half'); print('half', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        (half,) = names(tmp_path)
        assert half.startswith(PREFIX)
        write_atomically(tmp_path / "other", "new\n")
        assert names(tmp_path) == [half, "other"]
        process.kill()
    assert names(tmp_path) == [half, "other"]
    write_atomically(path, "new\n")
    assert names(tmp_path) == ["other", "out"]
