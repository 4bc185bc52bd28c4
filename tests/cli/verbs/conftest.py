"""Share one grid between the tests of verbs, which only add jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.grids import Up, marked_with, up
from tests.cli.verbs.jobs import HELLO


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A grid with two sites."""
    folder = tmp_path_factory.mktemp("g")
    with up(folder) as running:
        yield running
    assert marked_with(str(folder)) == [], "Ctrl-C has left something"


@pytest.fixture(scope="session")
def finished(grid: Up) -> str:
    """A job that has finished."""
    run = grid.koala("submit", "-", "--wait", "-D", "WORD=two", stdin=HELLO.encode())
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
