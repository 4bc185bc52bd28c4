"""`make test` has the folders of its tests in memory where that is possible, and leaves none."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.harness import in_memory
from tests.harness.in_memory import PREFIX, UnsuitableError, remove_what_is_left
from tests.tidy.sources import ROOT

LIMIT_S = 60.0
SHOWN = "import os, sys; os.makedirs(sys.argv[-1].partition('=')[2] + '/a'); print(*sys.argv[1:])"
WAITS = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    f"{SHOWN}; sys.stdout.flush(); signal.pause()"
)


@pytest.fixture(autouse=True)
def enough_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has."""
    monkeypatch.setattr(in_memory, "ROOM_MIN_BYTES", 1)
    monkeypatch.setattr(in_memory, "AVAILABLE_MIN_BYTES", 1)


@contextmanager
def start(folder: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command with its folders in this one, in a process group that is ended at the end."""
    small = "in_memory.ROOM_MIN_BYTES = in_memory.AVAILABLE_MIN_BYTES = 1"
    with subprocess.Popen(
        [
            *(sys.executable, "-c"),
            f"import sys; from tests.harness import in_memory; {small}; sys.exit(in_memory.main())",
            *("--memory", str(folder), "--", sys.executable, "-c", program, "given"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_run_has_a_private_folder_and_its_own_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = f"{SHOWN}; print(oct(os.stat(os.path.dirname(sys.argv[-1][11:])).st_mode)); exit(3)"
    command = [sys.executable, "-c", program, "given"]
    assert in_memory.main(["--memory", str(tmp_path), "--", *command]) == 3
    said = capfd.readouterr()
    words, mode = said.out.splitlines()
    folder = words.removeprefix("given --basetemp=").removesuffix("/t")
    assert Path(folder).parent == tmp_path
    assert stat.S_IMODE(int(mode, 8)) == 0o700
    assert f"in {folder}" in said.err
    assert "FOLDERS=" in said.err
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_asked_for_stay(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", SHOWN, "given"]
    assert in_memory.main(["--folders", str(tmp_path), "--", *command]) == 0
    (folder,) = tmp_path.iterdir()
    assert capfd.readouterr().out == f"given --basetemp={folder}/t\n"
    assert (folder / "t" / "a").is_dir()


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_interrupted(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C reaches the whole group; TERM comes to this process alone, which passes it on."""
    with start(tmp_path, WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("given --basetemp=")
        assert list(tmp_path.glob(f"{PREFIX}*/t/a"))
        (command,) = psutil.Process(process.pid).children()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(LIMIT_S) == 128 + number
    assert not command.is_running()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_what_a_killed_run_left_is_removed_once_its_command_has_ended(tmp_path: Path) -> None:
    with start(tmp_path, WAITS) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (command,) = psutil.Process(process.pid).children()
        process.kill()
        process.wait(LIMIT_S)
        remove_what_is_left(tmp_path)
        (folder,) = tmp_path.iterdir()  # the tests still run
        pidfd = os.pidfd_open(command.pid)
        command.kill()
        assert select.select([pidfd], [], [], LIMIT_S)[0]  # over, whoever reaps it
        os.close(pidfd)
    (folder / "t" / "a").chmod(0)
    remove_what_is_left(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("option", "why"), [("noexec", "no program runs"), ("size=1m", "of 2 needed")]
)
def test_memory_without_room_or_programs_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, why: str
) -> None:
    monkeypatch.setattr(in_memory, "ROOM_MIN_BYTES", 2 * 2**20 if "size" in option else 1)
    subprocess.run(["mount", "-t", "tmpfs", "-o", option, "none", tmp_path], check=True)
    try:
        with pytest.raises(UnsuitableError, match=why):
            in_memory.run_in_memory(["false"], tmp_path)
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_without_memory_pytest_chooses_as_ever(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    command = [sys.executable, "-c", "import sys; print(*sys.argv[1:])", "given"]
    assert in_memory.main(["--memory", str(missing), "--", *command]) == 0
    said = capfd.readouterr()
    assert said.out == "given\n"
    assert f"{missing}: No such file or directory" in said.err
