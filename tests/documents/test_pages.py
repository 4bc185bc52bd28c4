"""The commands of all documents run, page by page, and print what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.grids import Up, marked_with, up
from tests.documents.blocks import COMMANDS, blocks
from tests.documents.pages import Page, jobs_seen
from tests.tidy.documents import documents
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.live, pytest.mark.slow]


def pages(mark: str) -> list[Path]:
    """List the documents of which a block bears this mark, and can be run."""
    return [
        path
        for path in documents()
        if any(mark in block.marks and block.reason is None for block in blocks(path))
    ]


ON_GRID = pages("grid")
ALONE = [
    path
    for path in documents()
    if path not in ON_GRID
    and any(block.language in COMMANDS and block.reason is None for block in blocks(path))
]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The grid of `koala up` without its local users: jobs of a page find idle sites."""
    folder = tmp_path_factory.mktemp("g")
    text = (ROOT / "deploy" / "das.toml").read_text(encoding="utf-8")
    with up(folder, re.sub(r"^load = .*\n", "", text, flags=re.MULTILINE)) as running:
        yield running
    assert marked_with(str(folder)) == [], "Ctrl-C has left something"


@pytest.mark.parametrize("path", ON_GRID, ids=lambda path: path.stem)
def test_the_commands_of_a_page_run_on_the_grid_of_koala_up(
    path: Path, grid: Up, tmp_path: Path
) -> None:
    first_job = jobs_seen(grid.address)
    Page(path=path, folder=tmp_path, address=grid.address, first_job=first_job).run(long=False)


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_the_commands_of_a_page_run_without_a_grid(path: Path, tmp_path: Path) -> None:
    Page(path=path, folder=tmp_path).run(long=False)


@pytest.mark.long
@pytest.mark.parametrize("path", pages("long"), ids=lambda path: path.stem)
def test_all_commands_of_a_page_run(path: Path, grid: Up, tmp_path: Path) -> None:
    first_job = jobs_seen(grid.address)
    Page(path=path, folder=tmp_path, address=grid.address, first_job=first_job).run(long=True)
