"""`koala daemon start`, `stop` and `status`: a daemon in the background, with real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from koala.common.runtime.service.detached import find
from koala.daemon.storage.folder import LOCK
from tests.cli.command import koala

pytestmark = pytest.mark.live

CONFIG = """\
[daemon]
listen = "127.0.0.1:0"
address = "head.example.org:7740"
state_dir = "koala-state"
"""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "daemon.toml"
    path.write_text(CONFIG, encoding="utf-8")
    yield path
    if (left := find(tmp_path / "koala-state" / LOCK)) is not None:
        with suppress(psutil.NoSuchProcess):
            left.kill()
            left.wait()


def run(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    folder = str(config.parent)
    return koala(*words, HOME=folder, KOALA_RUNTIME_DIR=folder)


def test_a_daemon_starts_apart_from_its_terminal_and_stops(config: Path) -> None:
    assert run(config, "daemon", "status", str(config)).returncode == 1
    started = run(config, "daemon", "start", str(config))
    assert started.returncode == 0, started.stderr
    shown = json.loads(run(config, "daemon", "status", str(config), "--json").stdout)
    assert f"(process {shown['pid']}), serving at {shown['address']}" in started.stdout
    assert os.getsid(shown["pid"]) == shown["pid"], "it has a session of its own"
    again = run(config, "daemon", "start", str(config))
    assert (again.returncode, f"process {shown['pid']}" in again.stderr) == (0, True)

    for words in (("user", "add", "ann"), ("site", "add", "atlas")):
        given = run(config, *words)
        assert "head.example.org:7740" in given.stdout + given.stderr, given
    assert run(config, "user", "list").returncode == 0, "its own account dials where it serves"

    ended = run(config, "daemon", "stop", str(config))
    assert (ended.returncode, "jobs run on" in ended.stdout) == (0, True)
    assert not psutil.pid_exists(shown["pid"])
    assert "no daemon" in run(config, "daemon", "stop", str(config)).stdout


def test_a_daemon_that_ends_at_once_leaves_its_last_line_and_status(config: Path) -> None:
    (config.parent / "koala-state").write_text("no folder", encoding="utf-8")
    said = run(config, "daemon", "start", str(config))
    assert said.returncode in (1, 2), said
    assert re.search(r"koala-state.*\n.*ended with status \d", said.stderr), said.stderr
