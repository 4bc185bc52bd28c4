"""The demo's live view, drawn without a terminal, and the lines of the plain one."""

from __future__ import annotations

import pytest

from koala.local.live_view import LiveView, PlainView
from koala.views.records.jobs import Notice
from tests.cli.pictures import a_job, a_site
from tests.views.records import record_of


def a_notice(**changes: str) -> Notice:
    plain = {"number": 1, "at": 0.0, "job": "j1", "phase": "Placing"}
    return record_of(Notice, plain | changes)


def test_the_plain_view_has_a_line_for_each_change_of_phase(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainView({"j1": "hello"}) as view:
        view.add_event(a_notice(text="submitted"))
        view.add_event(a_notice(text="again"))
        view.add_event(a_notice(phase="Claiming", text="placed on vu"))
        view.add_event(a_notice(job="", site="vu", phase="", text="connected"))
        view.update([], [])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split() for line in captured.err.splitlines()] == [
        ["j1", "hello", "Placing", "submitted"],
        ["j1", "hello", "Claiming", "placed", "on", "vu"],
        ["vu", "connected"],
    ]


def test_the_live_view_draws_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView("unix:here") as view:
        view.add_event(a_notice())
        view.update([a_job(), a_job(job="j2", phase="Stopping")], [a_site(), a_site(site="vu")])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 jobs: 1 Stopping, 1 Finished" in captured.err
    assert {"delft", "vu"} <= {
        line.split()[0] for line in captured.err.splitlines() if line.split()
    }
