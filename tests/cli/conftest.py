"""Fixtures of the command line's tests."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from koala.cli.main import main
from tests.cli.command import Here


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Runs a command in this process, which is quick; for what needs no process of its own."""
    for name in ("KOALA_ADDRESS", "KOALA_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> CompletedProcess[str]:
        status = main(words)
        captured = capsys.readouterr()
        return CompletedProcess(words, status, captured.out, captured.err)

    return run
