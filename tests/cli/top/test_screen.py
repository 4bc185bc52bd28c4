"""The screen of `koala top` follows from a scene and the keys that were pressed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text

from koala.cli.top.keys import SEQUENCES
from koala.cli.top.scene import TopScene, chosen_jobs, counts
from koala.cli.top.screen import screen_lines
from koala.cli.top.state import Order, Prompt, Request, TopState, View
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import Explanation
from tests.cli.pictures import a_job, a_site, a_timeline

HOSTILE = "\x1b[2Jevil\x07\n<b>\u202e"


def the_site(**changes: Any) -> SiteStatus:
    """A site as daemons of this release name it."""
    more = {"local": 8, "running": 20, "held": 4, "trouble": ""}
    return a_site(**{**more, **changes})


JOBS = [
    a_job(job="j1", owner="zoe", processors=2),
    a_job(job="j2", phase="Running", ended_at=None, processors=64, sites=["leiden"]),
    a_job(job="j3", phase="Placing", started_at=None, ended_at=None, submitted_at=900.0),
    a_job(job="j4", owner="ann", name="ocean"),
]


def scene(**changes: Any) -> TopScene:
    facts: dict[str, Any] = {
        "address": "d:7740", "user": "ann", "now_at": 1100.0, "sites": [the_site()],
        "jobs": JOBS, "known": len(JOBS), "counts": counts(JOBS),
    }  # fmt: skip
    return TopScene(**{**facts, **changes})


def ids(state: TopState) -> list[str]:
    return [job.job for job in chosen_jobs(JOBS, state, 1100.0)]


def test_jobs_under_way_come_first_and_each_order_is_reached_by_a_key() -> None:
    state = TopState()
    assert ids(state) == ["j3", "j2", "j4", "j1"]
    found = {}
    for _ in Order:
        state.press("s", [])
        found[state.order] = ids(state)
    assert found == {
        Order.NEWEST: ["j3", "j2", "j4", "j1"],
        Order.PHASE: ["j3", "j2", "j4", "j1"],
        Order.USER: ["j4", "j3", "j2", "j1"],
        Order.SIZE: ["j2", "j4", "j3", "j1"],
        Order.WAIT: ["j3", "j4", "j2", "j1"],
    }
    state.press("a", [])
    assert ids(state) == ["j3", "j2"]


@pytest.mark.parametrize(
    ("words", "found"),
    [("ocean", ["j4"]), ("RUNNING", ["j2"]), ("zoe delft", ["j1"]), ("zoe leiden", [])],
)
def test_a_filter_takes_jobs_with_all_of_its_words(words: str, found: list[str]) -> None:
    state = TopState()
    for key in ("/", *words, "enter"):
        assert state.press(key, []) is Request.NOTHING
    assert ids(state) == found
    for key in ("/", "x", "backspace", "y", "escape"):
        state.press(key, [])
    assert (state.words, state.prompt) == (words, Prompt.NONE)


def test_keys_lead_into_the_views_of_a_job_and_back() -> None:
    state, jobs = TopState(), ["j3", "j2"]
    state.press("down", jobs)
    assert state.chosen == "j2"
    for key, view in (
        ("enter", View.JOB), ("w", View.WHY), ("l", View.LOGS), ("escape", View.JOB),
        ("?", View.HELP), ("q", View.JOB), ("left", View.GRID), ("l", View.LOGS), ("q", View.GRID),
    ):  # fmt: skip
        assert state.press(key, jobs) is Request.NOTHING
        assert (state.view, state.chosen) == (view, "j2"), key
    assert state.press("q", jobs) is Request.QUIT


def test_only_y_after_the_question_cancels_and_a_job_that_is_over_raises_none() -> None:
    state, jobs = TopState(), ["j3"]
    assert [state.press(key, jobs) for key in "cn"] == [Request.NOTHING] * 2
    assert [state.press(key, jobs) for key in "cy"] == [Request.NOTHING, Request.CANCEL]
    assert state.press("c", jobs, is_over=True) is Request.NOTHING
    assert (state.prompt, state.message) == (Prompt.NONE, "j3 is over")
    empty = TopState()
    assert [empty.press(key, []) for key in ("c", "enter", "l")] == [Request.NOTHING] * 3
    assert (empty.view, empty.prompt, empty.message) == (View.GRID, Prompt.NONE, "no job is chosen")


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([*SEQUENCES.values(), *"qwlcy/sa?x"]), max_size=30),
    st.integers(20, 160),
    st.integers(5, 60),
    st.booleans(),
)
def test_no_screen_is_larger_than_the_terminal(
    keys: list[str], width: int, height: int, coloured: bool
) -> None:
    """Nothing that users write reaches the terminal as control characters, either."""
    hostile = a_job(
        job="j9", name=HOSTILE, owner=HOSTILE, reason=HOSTILE, story=[[1.0, HOSTILE]],
        timeline=a_timeline(),
    )  # fmt: skip
    site = the_site(site=HOSTILE, trouble=HOSTILE)
    state = TopState()
    for key in keys:
        state.press(key, [job.job for job in JOBS])
    drawn = screen_lines(
        scene(
            sites=[site] * 30, jobs=[*JOBS, hostile], trouble=HOSTILE, job=hostile,
            why=Explanation(job="j9", phase="Failed", why=(HOSTILE * 20,)),
            log=[HOSTILE + "\n"] * 40,
        ),
        state, width=width, height=height, coloured=coloured,
    )  # fmt: skip
    plain = [Text.from_ansi(line).plain for line in drawn]
    assert len(drawn) <= height
    assert max(map(len, plain)) <= max(width, 40 if state.view is View.JOB else 0)
    assert all(line.isprintable() for line in plain)
    if not coloured:
        assert plain == drawn
