"""Files of commands appear whole or not at all, and an older file stays until then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from koala.common.runtime.atomic_file import PREFIX, atomic_file, check_writable, write_atomically
from koala.errors import KoalaError
from tests.cli.command import PROGRAM, begin, environment, koala, koala_here
from tests.harness.forked import Surroundings, start
from tests.harness.small_disk import fill, small_disk

OLDER = "what was there before\n"
LOG = "".join(f"{n} {n} -1 100 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 40_000))
LIMIT_S = 60.0


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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_replay_leaves_the_older_file_of_jobs(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Twice as much work comes as the machine can do, so that the replay takes long."""
    jobs, checkpoint = tmp_path / "out" / "jobs.csv", tmp_path / "out" / "checkpoint"
    jobs.parent.mkdir()
    jobs.write_text(OLDER)
    checkpoint.write_text(OLDER)
    log = tmp_path / "log.swf"
    log.write_text(LOG)
    command = begin(
        *("simulate", "trace", str(log), "--processors", "50", "--policy", "conservative"),
        *("--jobs-out", str(jobs), "--checkpoint", str(checkpoint)),
    )
    while not _writes(jobs.parent):
        with pytest.raises(subprocess.TimeoutExpired):  # it has not ended
            command.process.wait(0.02)
    command.process.send_signal(number)
    ended = command.end(LIMIT_S)
    assert ended.returncode in (-number, 128 + number)
    assert "Traceback" not in ended.stderr
    assert (jobs.read_text(), checkpoint.read_text()) == (OLDER, OLDER)
    left = [name for name in names(jobs.parent) if name.startswith(PREFIX)]
    assert len(left) == (number == signal.SIGKILL)


def _writes(folder: Path) -> bool:
    with suppress(FileNotFoundError):  # one by which the command looked whether it can write
        return any(path.stat().st_size for path in folder.glob(f"{PREFIX}*"))
    return False


COMMANDS = {
    "koala": "simulate koala --jobs 5 --reps 1",
    "deadlines": "simulate deadlines --time 6000 --warmup 600 --reps 1",
    "sq": "simulate sq --tasks 10 --reps 1",
    "hints": "simulate hints --jobs 40 --reps 1",
    "multiqueue": "simulate multiqueue --jobs 2000 --warmup 100 --reps 1",
}


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option"),
    [
        *((name, "jobs-out") for name in COMMANDS),
        ("hints", "plot"),
        *(
            pytest.param(name, "plot", marks=pytest.mark.long)
            for name in COMMANDS
            if name != "hints"
        ),
    ],
)
def test_a_full_disk_is_said_with_the_path(tmp_path: Path, name: str, option: str) -> None:
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        path = disk / ("jobs.csv" if option == "jobs-out" else "plot.svg")
        path.write_text(OLDER)
        fill(disk, 0)
        run = koala_here(*COMMANDS[name].split(), f"--{option}", str(path))
        assert run.returncode == 1, run.stderr
        assert f"{path}: cannot be written: No space left on device" in run.stderr
        assert "Traceback" not in run.stderr
        assert path.read_text() == OLDER
        assert names(disk) == sorted(["filler", path.name])


@pytest.mark.root
@pytest.mark.slow
def test_a_report_for_which_there_is_no_room_leaves_the_older_one(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        (disk / "figure-02.csv").write_text(OLDER)
        fill(disk, 0)
        words = "reproduce hints --figure 2 --reps 1 --length 2 --out"
        run = koala_here(*words.split(), str(disk))
        assert run.returncode == 1, run.stderr
        assert f"{disk / 'runs.jsonl'}: cannot be written: No space left" in run.stderr
        assert (disk / "figure-02.csv").read_text() == OLDER
        assert names(disk) == ["figure-02.csv", "filler"]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "9000"])
def test_a_log_for_which_standard_output_has_no_room_is_an_error(jobs: str) -> None:
    """Noticed at the end, or in the middle."""
    words = ["simulate", "workload", "lublin", "--jobs", jobs]
    with Path("/dev/full").open("wb") as full, tempfile.TemporaryFile() as error:
        around = Surroundings(stdout=full, stderr=error, environment=environment())
        assert start(PROGRAM, *words, around=around).wait(LIMIT_S) == 1
        error.seek(0)
        said = (
            b"koala simulate workload: standard output: cannot be written: No space left on device"
        )
        assert error.read().splitlines() == [said]


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.long)])
def test_jobs_go_to_standard_output_where_that_is_named(tmp_path: Path, unbuffered: str) -> None:
    """Through a pipe, and into a file that the shell opened: none writes over the other's text."""
    words = [*COMMANDS["hints"].split(), "--jobs-out", "/dev/stdout"]
    changes = {"PYTHONUNBUFFERED": unbuffered} if unbuffered else {}
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-m", "koala.cli", *words]
        subprocess.run(command, stdout=out, env=environment(**changes), check=True)
    said = (tmp_path / "out").read_text().splitlines()
    assert [line[:20] for line in said if line.startswith(("job,", "Service: "))] == [
        "Service: 40 jobs, 20",
        "job,class,submitted_",
    ]
    assert sorted(koala(*words, stdin=b"", **changes).stdout.splitlines()) == sorted(said)
