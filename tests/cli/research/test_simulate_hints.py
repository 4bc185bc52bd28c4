"""`koala simulate hints` as a command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command import koala_here

SHORT = ("--jobs", "40", "--reps", "2", "--workers", "1")
GRID = """
vpn_mbps = 3.0
[sites.delft]
mips = 3000
slice_mips = 1500
slots = 4
link_mbps = 20
[sites.leiden]
mips = 4000
slots = 2
link_mbps = 10
storage_mb = 20000
[vpn.leiden]
delft = 5.0
"""


def test_the_contract_of_the_json_output() -> None:
    ran = koala_here("simulate", "hints", "--policy", "preferlocal", *SHORT, "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for kind in ("all", "io", "cpu"):
        assert set(found["response"][kind]) == {"mean", "ci95"}
        assert found["response"][kind]["mean"] > 0
    assert found["unplaced"] == 0
    assert 0 < found["link_utilization"] < 1


def test_a_grid_file_and_the_files_that_are_written(tmp_path: Path) -> None:
    grid, table, plot = tmp_path / "grid.toml", tmp_path / "jobs.csv", tmp_path / "plot.svg"
    grid.write_text(GRID, encoding="utf-8")
    ran = koala_here(
        "simulate", "hints", "--policy", "Service", *SHORT, "--grid", str(grid),
        "--jobs-out", str(table), "--plot", str(plot),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "leiden-delft" in ran.stdout or "delft-leiden" in ran.stdout
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 40
    assert {row["site"] for row in rows} == {"delft", "leiden"}
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--policy", "Best"), "expected one of CF, WF"),
        (("--io-fraction", "2"), "--io-fraction 2 (expected a number from 0 to 1"),
        (("--io-job", "12"), "expected MB:MI"),
        (("--grid", "nowhere.toml"), "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], text: str) -> None:
    ran = koala_here("simulate", "hints", *words, *SHORT)
    assert ran.returncode == 2, ran.stderr
    assert text in ran.stderr
