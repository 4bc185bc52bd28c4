"""The demo's live view, drawn without a terminal, and the lines of the plain one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from koala.local.live_view import BAR_CELLS, PlainView, Scene, panels
from koala.views.records.jobs import Notice
from tests.cli.pictures import a_job, a_site
from tests.views.records import record_of


def drawn(scene: Scene) -> list[str]:
    """The panels as lines of text."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    with console.capture() as captured:
        console.print(panels(scene))
    return [line.rstrip() for line in captured.get().splitlines()]


def a_notice(**changes: str) -> Notice:
    plain = {"number": 1, "at": 0.0, "job": "j1", "phase": "Placing"}
    return record_of(Notice, plain | changes)


def test_the_scene_shows_sites_jobs_and_events() -> None:
    scene = Scene(
        names={"j1": "hello"},
        planned=3,
        elapsed_s=12.3,
        jobs=[a_job(), a_job(job="j2", phase="Stopping", sites=[], reason="refused\nby vu")],
        sites=[a_site(processors=64, claimed=32, idle=16), a_site(site="vu")],
    )
    scene.events.append("7  j2  Stopping")
    assert drawn(scene) == [
        "koala demo  12 s  2 of 3 jobs submitted, 1 over",
        "",
        "site   idle",
        f"delft  16/64  {'█' * BAR_CELLS}",
        f"vu     12/64  {'█' * BAR_CELLS}",
        "█ ours  █ the site's own users  █ idle",
        "",
        "job  example  phase     sites",
        "j1   hello    Finished  delft vu",
        "j2            Stopping            refused by vu",
        "",
        "7  j2  Stopping",
    ]


def test_the_plain_view_has_a_line_for_each_change_of_phase(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PlainView({"j1": "hello"}) as view:
        view.add_event(a_notice(text="submitted"))
        view.add_event(a_notice(text="again"))
        view.add_event(a_notice(phase="Claiming", text="placed on vu"))
        view.add_event(a_notice(job="", site="vu", phase="", text="connected"))
        view.update(Scene())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split() for line in captured.err.splitlines()] == [
        ["j1", "hello", "Placing", "submitted"],
        ["j1", "hello", "Claiming", "placed", "on", "vu"],
        ["vu", "connected"],
    ]
