"""The lines of the demo where there is no terminal."""

from __future__ import annotations

import pytest

from koala.local.demo_run import PhaseLines
from koala.views.records.jobs import Notice
from tests.views.records import record_of


def a_notice(**changes: str) -> Notice:
    plain = {"number": 1, "at": 0.0, "job": "j1", "phase": "Placing"}
    return record_of(Notice, plain | changes)


def test_each_change_of_phase_has_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = PhaseLines({"j1": "hello"})
    lines.add(a_notice(text="submitted"))
    lines.add(a_notice(text="again"))
    lines.add(a_notice(phase="Claiming", text="placed on vu"))
    lines.add(a_notice(job="", site="vu", phase="", text="connected"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split() for line in captured.err.splitlines()] == [
        ["j1", "hello", "Placing", "submitted"],
        ["j1", "hello", "Claiming", "placed", "on", "vu"],
        ["vu", "connected"],
    ]
