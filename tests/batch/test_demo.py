"""`make demo-slurm`, interrupted: nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.batch.conftest import need
from tests.live.grid import MARK

pytestmark = pytest.mark.lrm

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_the_demo_removes_all_that_it_has_started_when_it_is_interrupted(
    number: signal.Signals,
) -> None:
    need("slurm")
    with tempfile.TemporaryDirectory(prefix="koala-test-") as folder:
        with subprocess.Popen(
            [sys.executable, ROOT / "deploy" / "dev" / "demo_slurm.py"],
            env={**os.environ, "TMPDIR": folder, MARK: folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as demo:
            assert demo.stderr is not None
            said = []
            for line in demo.stderr:
                said.append(line)
                if "Running" in line:
                    os.killpg(demo.pid, number)
                    break
            said += demo.stderr.readlines()
            assert demo.wait(LIMIT_S) == 130, said
        assert any("interrupted" in line for line in said), said
        assert sorted(Path(folder).iterdir()) == []
        until = time.monotonic() + LIMIT_S
        while left := marked(f"{MARK}={folder}".encode()):  # who was killed takes a moment to go
            assert time.monotonic() < until, left


def marked(mark: bytes) -> list[Path]:
    """List the processes that are left of the demo."""
    return [place for place in Path("/proc").glob("[0-9]*/environ") if has(place, mark)]


def has(environ: Path, marked: bytes) -> bool:
    """True when a process was started with this in its environment."""
    try:
        return marked in environ.read_bytes().split(b"\0")
    except OSError:
        return False
