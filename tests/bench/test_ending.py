"""A benchmark that is ended by a signal leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from koala.common.runtime.child_lifetime import SIGNALLED
from tests.cli.command import environment
from tests.tidy.sources import ROOT

LIMIT_S = 60.0
SIGNALS = (
    signal.SIGTERM,
    pytest.param(signal.SIGINT, marks=pytest.mark.long),
    pytest.param(signal.SIGKILL, marks=pytest.mark.long),
)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_the_grid_of_a_benchmark_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """It is ended as soon as its daemon and its agent are there, alone as by `kill`."""
    with begun(tmp_path, "submissions") as process:
        grid = _tree(process, 2)
        process.send_signal(number)
        process.wait(LIMIT_S)
        _, alive = psutil.wait_procs(grid, LIMIT_S)
        assert alive == []
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.long
def test_a_second_signal_does_not_interrupt_the_end(tmp_path: Path) -> None:
    """`timeout make bench` sends one to the group, and make passes its own on."""
    with begun(tmp_path, "latency") as process:
        grid = _tree(process, 6)
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        assert process.returncode == SIGNALLED + signal.SIGTERM
        _, alive = psutil.wait_procs(grid, LIMIT_S)
        assert alive == []
    assert list(tmp_path.iterdir()) == [], "its folder is removed, too"


@contextmanager
def begun(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a measurement; kill what is left of it when the block is left."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench", "--only", name, "--out", folder / "out"],
        stderr=subprocess.DEVNULL,
        env=environment(TMPDIR=str(folder)),
        cwd=ROOT,
    ) as process:
        found: list[psutil.Process] = []
        try:
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                found = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            for child in found:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def _tree(process: subprocess.Popen[bytes], count: int) -> list[psutil.Process]:
    """Wait until it has so many children; return all below it."""
    parent = psutil.Process(process.pid)
    while len(parent.children()) < count:
        with pytest.raises(subprocess.TimeoutExpired):  # it has not ended
            process.wait(0.05)
    return list(parent.children(recursive=True))
