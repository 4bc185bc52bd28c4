"""The example of an experiment in Python runs, and prints the same numbers each time."""

import subprocess
import sys

from tests.examples.stage import EXAMPLES
from tests.tidy.sources import ROOT

PROGRAM = EXAMPLES / "simulation" / "compare.py"


def compare(jobs: int) -> str:
    words = [sys.executable, str(PROGRAM), str(jobs)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout


def test_the_same_jobs_give_the_same_table_for_each_policy() -> None:
    table = compare(30)
    assert table == compare(30)
    rows = table.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["WF", "CF", "WF-distinct", "first-fit"]


def test_the_page_shows_what_the_program_prints() -> None:
    page = ROOT.joinpath("docs", "start", "first-experiment.md").read_text(encoding="utf-8")
    assert compare(300).strip() in page
