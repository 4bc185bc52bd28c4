"""Runs `koala` as a user does: a process of its own, with its streams kept apart."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from typing import IO

import pytest

from koala.cli.main import main
from tests.harness.children import program_of
from tests.harness.forked import Surroundings, start
from tests.tidy.sources import ROOT

LIMIT_S = 180.0
SHOWN = {"NO_COLOR": "1", "COLUMNS": "100"}
"""As for a terminal of any user's."""
PROGRAM = program_of("koala.cli.main")
PYTHON_PATH = os.pathsep.join([str(ROOT), str(ROOT / "agents")])


def environment(**changes: str) -> dict[str, str]:
    """Ours, with the packages of this source tree, plain text, and nothing of the user's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "KOALA_RUNTIME_DIR" or not name.startswith("KOALA_")
    }
    return {**kept, "PYTHONPATH": PYTHON_PATH, **SHOWN, **changes}


class Command:
    """`koala` in a process of its own, with its standard streams in files."""

    def __init__(self, *words: str, stdin: bytes, by_exec: bool, variables: dict[str, str]) -> None:
        self._words = words
        self._out, self._error = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            around = Surroundings(
                stdin=given, stdout=self._out, stderr=self._error, environment=variables
            )
            self.process = start(PROGRAM, *words, around=around, by_exec=by_exec)

    def end(self, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        """Wait for its end, and return its status and what it said."""
        try:
            status = self.process.wait(limit_s)
        finally:
            self.process.kill()
        with self._out, self._error:
            said = [_text(stream) for stream in (self._out, self._error)]
        return subprocess.CompletedProcess(self._words, status, *said)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def begin(*words: str, stdin: bytes = b"", **changes: str) -> Command:
    """Start one command; `changes` are variables of its environment."""
    is_about_python = any(name.startswith("PYTHON") for name in changes)
    return Command(*words, stdin=stdin, by_exec=is_about_python, variables=environment(**changes))


def koala(*words: str, stdin: bytes = b"", **changes: str) -> subprocess.CompletedProcess[str]:
    """One command; `changes` are variables of its environment."""
    return begin(*words, stdin=stdin, **changes).end()


def koala_here(*words: str, stdin: bytes = b"", **changes: str) -> subprocess.CompletedProcess[str]:
    """One command in this process: quicker, for what needs no process of its own."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        for name, value in {**SHOWN, **changes}.items():
            patch.setenv(name, value)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(error))
        status = main(words)
    return subprocess.CompletedProcess(words, status, out.getvalue(), error.getvalue())
