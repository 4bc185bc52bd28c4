"""`koala site connect` refuses names that no site may have, before it does anything."""

from __future__ import annotations

import pytest

from tests.cli.command import koala_here


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["10.0.0.5"], "10.0.0.5 is an address"),
        (["delft", "--site", "../keys"], "../keys"),
        (["delft", "--site", ""], "--site ''"),
        (["ann@"], "--site ''"),
    ],
)
def test_a_wrong_name_is_refused(words: list[str], named: str) -> None:
    run = koala_here("site", "connect", *words, "--dry-run")
    assert (run.returncode, run.stdout) == (2, "")
    assert named in run.stderr
