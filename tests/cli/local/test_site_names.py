"""`koala site connect` refuses names that no site may have, before it does anything."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from koala.cli.admin.ssh_sites import connect
from koala.errors import SpecError


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
    result = CliRunner().invoke(connect, [*words, "--dry-run"])
    assert isinstance(result.exception, SpecError)
    assert named in str(result.exception)
