"""Every error of the system names the file that it is about."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from koala.errors import system_error_text
from tests.harness.children import program_of

MEMORY = Path("/proc/self/mem")
"""A file that can be opened, and whose first byte cannot be read: EIO."""


def text_of_failure(path: Path, *, is_written: bool = False) -> str:
    with pytest.raises(OSError) as failed:  # noqa: PT011 - its text is what the test is about
        path.write_bytes(b"x") if is_written else path.read_bytes()
    return system_error_text(failed.value)


def test_a_read_that_fails_names_its_file() -> None:
    assert text_of_failure(MEMORY) == "/proc/self/mem: Input/output error"


def test_an_open_that_fails_names_its_file(tmp_path: Path) -> None:
    assert text_of_failure(tmp_path) == f"{tmp_path}: Is a directory"


def test_an_error_without_a_file_names_none(tmp_path: Path) -> None:
    """Though functions around it know of some."""

    def dial(_state: Path) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(OSError) as failed:  # noqa: PT011 - as above
        dial(tmp_path)
    assert system_error_text(failed.value) == "Connection refused"


def test_a_rename_that_fails_names_both_files(tmp_path: Path) -> None:
    with pytest.raises(OSError) as failed:  # noqa: PT011 - as above
        (tmp_path / "a").rename(tmp_path / "b")
    text = system_error_text(failed.value)
    assert text == f"{tmp_path}/a -> {tmp_path}/b: No such file or directory"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("koala.cli.main", ("daemon", "{mem}")),
        ("koala.cli.main", ("submit", "{mem}")),
        ("koala.daemon.__main__", ("{mem}",)),
        ("koala.daemon.__main__", ("{folder}/daemon.toml", "--init")),
        ("koala_agent.__main__", ("{mem}",)),
        ("koala_agent.__main__", ("{folder}/agent.toml",)),
    ],
)
def test_a_start_that_fails_by_the_disk_says_in_a_line_which_file(
    tmp_path: Path, module: str, words: tuple[str, ...]
) -> None:
    """Reads fail, or the kernel lets no file grow."""
    places = {"mem": MEMORY, "folder": tmp_path}
    (tmp_path / "daemon.toml").write_text('[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "s"\n')
    (tmp_path / "agent.toml").write_text(
        '[agent]\nsite = "delft"\ndaemon = "127.0.0.1:1"\nplain = true\nstate_dir = "s"\n'
        '[site]\nprocessors = 1\n[lrm]\nkind = "emulated"\n'
    )
    command = [sys.executable, "-c", program_of(module), *(one.format(**places) for one in words)]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        _, said = process.communicate()
    assert process.returncode not in (0, None)
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert str(MEMORY) in last or str(tmp_path) in last, said
    assert os.strerror(5) in last or os.strerror(27) in last or "disk I/O error" in last, said
