"""`koala simulate workload`: logs that `koala simulate trace` replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import koala_here


@pytest.mark.parametrize(
    "words",
    [
        ("lublin",),
        ("lublin", "--kinds", "--stretch", "0.5", "--processors", "100"),
        ("das", "--sizes", "1:32", "--run", "100", "--overestimate", "3"),
    ],
)
def test_a_synthetic_log_is_replayed(tmp_path: Path, words: tuple[str, ...]) -> None:
    made = koala_here("simulate", "workload", *words, "--jobs", "200", "--seed", "7")
    assert (made.returncode, made.stderr) == (0, "")
    again = koala_here("simulate", "workload", *words, "--jobs", "200", "--seed", "7")
    assert again.stdout == made.stdout
    path = tmp_path / "made.swf"
    path.write_text(made.stdout, encoding="ascii")
    found = json.loads(koala_here("simulate", "trace", str(path), "--json").stdout)
    assert (found["read"], found["jobs"], found["processors_from"]) == (200, 200, "MaxProcs")
    assert found["changed"]["out_of_order"] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("poisson",), "MODEL poisson (expected one of lublin, das"),
        (("das", "--sizes", "1:200"), "--sizes 1:200: at most 128"),
        (("das", "--q", "2"), "--q 2 (expected a number more than 0, at most 1"),
        (("das", "--run", "0"), "--run 0 (expected a number more than 0"),
        (("lublin", "--stretch", "0"), "--stretch 0 (expected a number more than 0"),
        (("lublin", "--overestimate", "0.5"), "overestimate = 0.5 (expected 0, or 1 or more)"),
        (("lublin", "--jobs", "0"), "0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(words: tuple[str, ...], text: str) -> None:
    run = koala_here("simulate", "workload", *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr
