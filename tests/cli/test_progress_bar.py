"""Long operations show how far they are on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import sys

import pytest

from koala.common.runtime import clock, progress_bar
from koala.common.runtime.progress_bar import QUIET_VARIABLE, progress


def shown(monkeypatch: pytest.MonkeyPatch, *, after_s: float, calls: int = 5) -> str:
    """Return the text of a half-done operation on a terminal."""
    monkeypatch.setattr(progress_bar, "SHOWN_AFTER_S", after_s)
    monkeypatch.setenv("TERM", "xterm")
    terminal, other = os.openpty()
    try:
        with os.fdopen(other, "w", closefd=True) as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            with progress("copying [x]", 8) as update:
                for done in range(calls):
                    update(done)
        return read_to_end(terminal)
    finally:
        os.close(terminal)


def read_to_end(terminal: int) -> str:
    """Return all that was written to the closed other end of a terminal.

    The kernel passes on what was written in pieces of its own, so one read may see a part.
    """
    pieces: list[bytes] = []
    with contextlib.suppress(OSError):  # Linux ends the input of a closed terminal with EIO.
        while piece := os.read(terminal, 65_536):
            pieces.append(piece)
    return b"".join(pieces).decode()


def test_a_terminal_gets_the_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, after_s=0.0)
    assert "copying [x]" in text
    assert "50%" in text
    assert "left" in text


def test_short_operations_and_quiet_users_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, after_s=60.0) == ""
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    assert shown(monkeypatch, after_s=0.0) == ""


def test_without_a_terminal_a_line_tells_the_share_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times_s = iter((0.0, 10.0, 60.0, 119.0, 120.0, 180.0))
    monkeypatch.setattr(clock, "now", lambda: next(times_s))
    with progress("copying", 8) as update:
        for done in (1, 2, 3, 4, 8):
            update(done)
    lines = "copying: 25%, 0:05:00 left\ncopying: 50%, 0:02:27 left\n"
    assert capsys.readouterr() == ("", lines)
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    times_s = iter((0.0, 10.0, 60.0))
    with progress("copying", 8) as update:
        for done in (1, 2):
            update(done)
    assert capsys.readouterr() == ("", "")
