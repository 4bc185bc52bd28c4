"""`koala simulate malleable` as a command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command import koala_here

SHORT = ("--jobs", "20", "--interval", "10", "--reps", "2", "--workers", "1")


def test_the_contract_of_the_json_output_and_its_files(tmp_path: Path) -> None:
    table, plot = tmp_path / "jobs.csv", tmp_path / "plot.svg"
    ran = koala_here(
        "simulate", "malleable", *SHORT, "--malleable", "0.5", "--manager", "egs",
        "--first", "waiting", "--json", "--jobs-out", str(table), "--plot", str(plot),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["setting"]["manager"] == "EGS"
    assert set(found["size"]) == {"all", "shaped", "rigid", "ft", "gadget"}
    assert found["size"]["rigid"]["mean"] == 2
    assert found["size"]["shaped"]["mean"] > 2
    assert found["unfinished"]["mean"] == 0
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 20
    assert {row["mean_processors"] for row in rows if row["job"].startswith("rigid")} == {"2.0"}
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--manager", "Best"), "expected one of FPSMA, EGS"),
        (("--sites", "20,20"), "expected room for a job of 46 processors"),
        (("--sites", "60,1"), "expected 2 processors or more of each site"),
        (("--malleable", "2"), "--malleable 2 (expected a number from 0 to 1"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], text: str) -> None:
    ran = koala_here("simulate", "malleable", *words, *SHORT)
    assert ran.returncode == 2, ran.stderr
    assert text in ran.stderr
