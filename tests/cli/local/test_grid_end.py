"""The end of a grid of `koala up`: by a signal, by a kill, and by the end of one of its agents."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.command import LIMIT_S, PROGRAM, environment
from tests.cli.grids import Pipe, Up, marked_with, still_running, up
from tests.harness.forked import Surroundings, start

pytestmark = pytest.mark.live

SLEEP = "&(executable=/bin/sleep)(arguments=600)(count=1)"


def watched(grid: Up, *words: str, until: str) -> list[dict[str, Any]]:
    """The notices that `koala watch` prints up to one with this phase."""
    out = Pipe()
    around = Surroundings(stdout=out.writer, environment=environment(KOALA_ADDRESS=grid.address))
    process = start(PROGRAM, "watch", "--json", *words, around=around)
    out.writer.close()
    notices: list[dict[str, Any]] = []
    with out.reader:
        for line in out.reader:
            notices.append(json.loads(line))
            if notices[-1]["phase"] == until:
                break
    process.terminate()
    process.wait(LIMIT_S)
    return notices


def test_nothing_of_a_grid_is_left_after_a_signal(tmp_path: Path) -> None:
    """SIGTERM. The end of the shared grid checks this for SIGINT, the demo for SIGHUP."""
    with up(tmp_path) as grid:
        job = grid.submit(SLEEP)
        watched(grid, "--after", "0", "--job", job, until="Running")
        children = grid.children()
        assert len(children) >= 4
        grid.process.send_signal(signal.SIGTERM)
        assert grid.process.wait(timeout=LIMIT_S) == 0
        assert still_running(children) == []
    assert marked_with(str(tmp_path)) == []
    assert [path for path in tmp_path.iterdir() if path.name != "grid.toml"] == []


def test_a_killed_grid_takes_its_daemon_and_agents_along(tmp_path: Path) -> None:
    with up(tmp_path) as grid:
        children = grid.children()
        grid.process.kill()
        _, alive = psutil.wait_procs(children, timeout=LIMIT_S)
        assert alive == []


def test_an_agent_that_dies_ends_the_grid_and_is_named(tmp_path: Path) -> None:
    with up(tmp_path) as grid:
        children = grid.children()
        next(one for one in children if _writes_to(one, "vu.log")).kill()
        assert grid.process.wait(timeout=LIMIT_S) == 1
        assert still_running(children) == []
    assert marked_with(str(tmp_path)) == []
    assert "the agent of vu ended by itself with status -9" in "".join(grid.said)
    assert "kept in" in "".join(grid.said)


def _writes_to(process: psutil.Process, log: str) -> bool:
    return any(Path(one.path).name == log for one in process.open_files())
