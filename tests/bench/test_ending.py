"""A benchmark that is ended by a signal leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.cli.command import environment
from tests.tidy.sources import ROOT

LIMIT_S = 60.0


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_grid_of_a_benchmark_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """It is ended as soon as its daemon and its agent are there, alone as by `kill`."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench", "--only", "submissions", "--out", tmp_path / "out"],
        stderr=subprocess.DEVNULL,
        env=environment(TMPDIR=str(tmp_path)),
        cwd=ROOT,
    ) as process:
        grid: list[psutil.Process] = []
        try:
            grid = _children(process, 2)
            process.send_signal(number)
            process.wait(LIMIT_S)
            _, alive = psutil.wait_procs(grid, LIMIT_S)
            assert alive == []
        finally:
            process.kill()
            for child in grid:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def _children(process: subprocess.Popen[bytes], count: int) -> list[psutil.Process]:
    """Wait until it has so many."""
    parent = psutil.Process(process.pid)
    while len(found := parent.children()) < count:
        with pytest.raises(subprocess.TimeoutExpired):  # it has not ended
            process.wait(0.05)
    return list(found)
