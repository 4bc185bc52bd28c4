"""The example of an experiment in Python runs, and prints the same numbers each time."""

import subprocess
import sys

from tests.examples.stage import EXAMPLES

PROGRAM = EXAMPLES / "simulation" / "compare.py"


def compare(jobs: int) -> str:
    words = [sys.executable, str(PROGRAM), str(jobs)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout


def test_the_same_jobs_give_the_same_table_for_each_policy() -> None:
    table = compare(10)
    assert table == compare(10)
    rows = table.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["WF", "CF", "WF-distinct", "first-fit"]
