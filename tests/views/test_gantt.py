"""The course of a job as bars: one model, which the page, the terminal and the picture draw."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from msgspec.structs import replace

from koala.cli.render.gantt import gantt_text
from koala.cli.render.table import Screen
from koala.core.model.actions import PublishOutputs, StopClaim
from koala.core.model.job import EndKind
from koala.core.model.values import JobId
from koala.views.documents import timeline_document
from koala.views.gantt import BarKind, gantt
from koala.views.gantt_svg import gantt_svg
from koala.views.records.base import Moment
from koala.views.records.jobs import JobDetails
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script
from tests.views.jobs import job_of

HOSTILE = "<script>alert(1)</script>\x1b[2J\x00&amp;\u202e"
COLOUR = re.compile(r"\x1b\[[0-9]*m")


def waiting(**more: Any) -> JobDetails:
    """A job that was not placed yet."""
    timeline = dict.fromkeys(("placed_at", "claimed_at", "started_at", "ended_at", "start_at"))
    return job_of(
        "Placing", charges=[], transfers=[], attempts=0, ended_at=None, setbacks=[],
        timeline={"submitted_at": 100.0, **timeline},
        parts=[part | {"site": None} for part in job_of()["parts"]], **more,
    )  # fmt: skip


def test_the_course_of_a_job_has_every_attempt() -> None:
    found = gantt(job_of(), now_at=200.0)
    assert [(row.attempt, row.label, row.site) for row in found.rows] == [
        (1, "left", "leiden"), (2, "left", "delft"), (2, "right", "vu")
    ]  # fmt: skip
    assert [bar.kind for bar in found.rows[0].bars] == ["claiming", "wasted"]
    again = found.rows[1]
    assert [bar.kind for bar in again.bars] == ["transfer", "claiming", "barrier", "running"]
    running = again.bars[-1]
    assert (running.since, running.until, running.text) == (0.6, 1.0, "running: 4.0 s")
    assert [(mark.text, mark.place) for mark in found.marks] == [
        ("AB", 0.0), ("C", 0.4), ("D", pytest.approx(0.601)), ("E", 1.0)
    ]  # fmt: skip
    (setback,) = found.setbacks
    assert setback.place == pytest.approx(0.35)
    assert setback.text == "attempt 1 given up after 3.5 s: Placing: leiden failed"


def test_the_terminal_draws_a_line_for_each_component_and_a_sign_for_each_stage() -> None:
    assert gantt_text(gantt(job_of(), 200.0), Screen(64)).split("\n") == [
        "            0         2.0 s     4.0 s     6.0 s     8.0 s 10.0 s",
        "            AB               !  C         D                   E",
        "attempt 1",
        "left leiden      ..........xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "attempt 2",
        "left delft       ..........:::::::::::::::=====================",
        "  its files      ~~~~~",
        "right vu         ..........:::::::::::::::=====================",
        "! attempt 1 given up after 3.5 s: Placing: leiden failed",
        "",
        ". claiming   : held at the barrier   = running",
        "~ input file on its way   x wasted, given up",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_drawing_fits_the_terminal_and_colours_change_no_character(width: int) -> None:
    chart = gantt(job_of(), 200.0)
    plain = gantt_text(chart, Screen(width))
    assert max(map(len, plain.split("\n"))) <= max(width, 40)
    coloured = gantt_text(chart, Screen(width, is_coloured=True))
    assert COLOUR.sub("", coloured) == plain
    assert coloured != plain


def test_a_claim_without_an_answer_has_a_bar_up_to_now() -> None:
    parts = tuple(replace(part, asked_at=Moment.of(101.0), claims=2) for part in job_of().parts)
    job = replace(waiting(), phase="Claiming", attempts=1, parts=parts)
    chart = gantt(job, now_at=110.0)
    assert [[bar.kind for bar in row.bars] for row in chart.rows] == [[BarKind.CLAIMING]] * 2
    assert chart.rows[0].bars[0].text == "claiming, try 2: 9.0 s"
    assert "no component has a site yet" in gantt_text(gantt(waiting(), 110.0))


def texts(root: Element) -> list[str]:
    """Return all texts of a picture, titles of bars among them."""
    return [one.text or "" for one in root.iter() if one.tag.endswith(("text", "title"))]


def test_the_picture_has_a_rectangle_for_each_bar_and_says_what_it_is() -> None:
    chart = gantt(job_of(), 200.0)
    root = fromstring(gantt_svg(chart))
    said = texts(root)
    for row in chart.rows:
        assert f"{row.label} at {row.site} (attempt {row.attempt})" in said
        for bar in row.bars:
            assert bar.text in said
    assert {"j7 over 10.0 s", "AB", "C", "D", "E", *(one.text for one in chart.setbacks)} <= {*said}


def test_hostile_names_become_no_markup_and_no_control_character() -> None:
    whole = job_of()
    parts = [replace(part, label=HOSTILE) for part in whole.parts]
    job = job_of(parts=parts, setbacks=[replace(whole.setbacks[0], reason=HOSTILE)])
    chart = gantt(job, 200.0)
    root = fromstring(gantt_svg(chart))
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert all(one.isprintable() for one in texts(root))
    assert all(line.isprintable() for line in gantt_text(chart).split("\n"))


def test_the_document_of_a_timeline_has_the_claims_and_setbacks_of_all_attempts() -> None:
    script = Script()
    script.ignore(PublishOutputs, StopClaim)
    script.tell(a_site("a", 4), a_site("b", 2), a_job("j1", 4, 2))
    first, second = script.claimed("j1")
    script.grant(first).after(5).gone(second, EndKind.FAILED)
    script.gone(first).after(1)
    found = timeline_document(script.scheduler, JobId("j1"), script.now)
    assert found.now_at is not None
    chart = gantt(found, float(found.now_at))
    assert [setback.attempt for setback in found.setbacks] == [1]
    assert found.setbacks[0].reason in {text for _, text in script.job("j1").story}
    assert [(row.attempt, row.site) for row in chart.rows][:2] == [(1, "a"), (1, "b")]
    assert [bar.kind for bar in chart.rows[0].bars] == ["claiming", "wasted"]
