"""Published reproductions: they can be made again, and documents agree with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.lab.papers.published import FOLDER, PROVENANCE, is_same, paper_of, published, rows

SIZE_MAX = 3_000_000
"""Bytes of all published reproductions together."""
VERDICTS = ("holds", "holds only near saturation", "undecided", "fails")


def test_something_is_published_and_it_is_small() -> None:
    assert published()
    found = [path for folder in published() for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in found) < SIZE_MAX


@pytest.mark.parametrize("folder", published(), ids=lambda path: path.name)
def test_the_page_of_results_shows_what_is_published(folder: Path) -> None:
    """Its drawings, and a row of its table: runs, replications, claims and verdicts."""
    provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    assert provenance["options"]["paper"] == folder.name
    assert provenance["runs"]["finished"] == provenance["runs"]["wanted"]
    page = (FOLDER / "results.md").read_text(encoding="utf-8")
    assert all(f"({folder.name}/{drawing.name})" in page for drawing in folder.glob("*.svg"))
    (row,) = re.findall(rf"^\| \[{folder.name}\].*$", page, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    options = provenance["options"]
    counts = [provenance["verdicts"].get(verdict, 0) for verdict in VERDICTS]
    assert cells[1] == f"{options['reps']} × {options['length']:,.15g}"
    assert cells[2] == f"{provenance['runs']['finished']:,}"
    assert cells[4:9] == [str(count) for count in (sum(counts), *counts)]


@pytest.mark.long
@pytest.mark.parametrize("folder", published(), ids=lambda path: path.name)
def test_published_rows_can_be_made_again(folder: Path) -> None:
    paper = paper_of(folder.name)
    for digest, runs in rows(folder):
        assert is_same(digest, runs, paper), str(runs[0].setting)
