"""Every error of the system names the file that it is about."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.children import program_of

MEMORY = Path("/proc/self/mem")
"""A file that can be opened, and whose first byte cannot be read: EIO."""


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
