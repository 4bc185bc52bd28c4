"""Published reproductions: they can be made again, and documents agree with them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.lab.papers.cells import CELL_MAX, longest_cell
from tests.lab.papers.published import FOLDER, PROVENANCE, is_same, paper_of, published, rows

SIZE_MAX = 8_000_000
"""Bytes of all published reproductions together, with room for full runs of all papers."""


def test_something_is_published_and_it_is_small() -> None:
    assert published()
    found = [path for folder in published() for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in found) < SIZE_MAX


@pytest.mark.parametrize("folder", published(), ids=lambda path: path.name)
def test_a_published_report_is_whole(folder: Path) -> None:
    provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    assert provenance["options"]["paper"] == folder.name
    assert provenance["runs"]["finished"] == provenance["runs"]["wanted"]
    report = (folder / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", report)
    assert links
    assert all((folder / link).is_file() for link in links)
    assert longest_cell(report) <= CELL_MAX


@pytest.mark.parametrize("folder", published(), ids=lambda path: path.name)
def test_the_page_of_results_counts_what_is_published(folder: Path) -> None:
    """A row of its table: runs, replications, claims and verdicts of the published report."""
    provenance = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    with (folder / "claims.csv").open(encoding="utf-8") as file:
        verdicts = {row["claim"]: row["claim_verdict"] for row in csv.DictReader(file)}
    counts = [
        sum(found == verdict for found in verdicts.values())
        for verdict in ("holds", "holds only near saturation", "undecided", "fails")
    ]
    page = (FOLDER / "results.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| \[{folder.name}\].*$", page, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    options = provenance["options"]
    assert cells[1] == f"{options['reps']} × {options['length']:,.15g}"
    assert cells[2] == f"{provenance['runs']['finished']:,}"
    assert cells[4:9] == [str(one) for one in (len(verdicts), *counts)]


@pytest.mark.long
@pytest.mark.parametrize("folder", published(), ids=lambda path: path.name)
def test_published_rows_can_be_made_again(folder: Path) -> None:
    paper = paper_of(folder.name)
    for line, runs in rows(folder):
        assert is_same(line, runs, paper), line[:200]
