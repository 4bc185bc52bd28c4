"""`koala simulate koala`: its keys, files and refusals."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import koala_here
from tests.cli.test_command import modules_after

BRIEF = ("--jobs", "30", "--local-load", "0.3", "--lost-at", "3000", "--workers", "1")


def test_the_result_is_a_document() -> None:
    run = koala_here("simulate", "koala", *BRIEF, "--reps", "2", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert sorted(found) == [
        "groups", "makespan_s", "ours", "seeds", "setting", "unfinished", "utilization",
    ]  # fmt: skip
    assert found["setting"]["jobs"] == 30
    assert found["setting"]["lost_at_s"] == 3000.0
    assert found["setting"]["claim_fraction"] == 0.75
    assert 30 < found["utilization"]["arrivals"]["busy"]["mean"] <= 100
    groups = {group["group"]: group for group in found["groups"]}
    assert groups["all"]["finished"] == {"mean": 30.0, "ci95": 0.0}
    assert groups["72x8.high"]["components"] == 8


def test_a_simulation_imports_only_what_it_needs() -> None:
    words = [*BRIEF, "--reps", "1"]
    code = f"from koala.cli.main import main; main(['simulate', 'koala', *{words}])"
    heavy = {"grpc", "rich", "structlog", "asyncio", "matplotlib", "numpy"}
    assert heavy & modules_after(code) == set()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--placement", "BF"), "--placement BF (expected one of CF, WF"),
        (("--sizes", "36,x"), "--sizes 36,x (expected numbers"),
        (("--components", "3.5"), "--components 3.5 (expected whole numbers"),
        (("--files", "nan"), "--files nan (expected numbers"),
        (("--files", "4,-8"), "file_bytes = (4000000000, -8000000000) (expected sizes of 0"),
        (("--run", "30"), "--run 30 (expected LOW:HIGH"),
        (("--threshold", "2"), "--threshold 2 (expected a number from 0 to 1"),
        (("--preempt", "all"), "--preempt all (expected one of complete, component, none"),
        (("--lost-site", "9"), "lost_site = 9 (expected 1 to 4, or none"),
        (("--plot", "p.txt"), "--plot p.txt (expected a file named *.svg, *.png, *.pdf)"),
        (
            ("--sites", "30", "--replicas", "1", "--lost-site", "0"),
            "sizes = 36 (expected what fits",
        ),
        (("--plot", "/no/such/folder/p.svg"), "--plot /no/such/folder/p.svg: cannot be written"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(words: tuple[str, ...], text: str) -> None:
    run = koala_here("simulate", "koala", *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr
