"""The screen of `koala top` follows from a scene and the keys that were pressed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.text import Text

from koala.cli.top.keys import SEQUENCES, read_keys
from koala.cli.top.scene import TopScene, chosen_jobs, counts
from koala.cli.top.screen import bar, screen_lines
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


def test_trouble_is_said_in_words_and_many_sites_leave_room_for_jobs() -> None:
    sites = [the_site(site=f"s{index:03}", claimed=index) for index in range(1000)]
    sites[500] = replace(sites[500], state="unusable")
    lines = screen_lines(
        scene(sites=sites, trouble="no daemon answers"), TopState(), width=80, height=24
    )
    assert "! not current: no daemon answers" in lines
    assert "and 997 more sites" in lines
    assert [line.split()[0] for line in lines if line.startswith("s")] == ["s500", "s999", "s998"]
    assert [job.job for job in JOBS] == [line[2:4] for line in lines if line[:3] == "  j"]


def test_the_bar_of_a_site_has_a_sign_for_each_use() -> None:
    assert bar(the_site(processors=20, claimed=6, running=1, local=4)) == "[=:::::oooo          ]"
    assert bar(the_site(state="disconnected")) == f"[{' ' * 20}]"
    assert bar(the_site(processors=1000, claimed=1, running=1, local=1)).startswith("[=o ")


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[A\x1bOB\x1b", ["up", "down", "escape"]),
        (b"q\r/\x7f", ["q", "enter", "/", "backspace"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~", ["page up", "page down", "home", "end"]),
        (b"\x1b[15~x\x1b[1;5Cy", ["x", "y"]),
        ("é\x01ü".encode(), ["é", "ü"]),
        (b"\xff\xfeq", ["q"]),
        (b"\x1b[", []),
    ],
)
def test_bytes_of_a_terminal_are_keys(data: bytes, keys: list[str]) -> None:
    assert read_keys(data) == keys


@given(st.binary(max_size=40))
def test_any_bytes_are_read_to_their_end(data: bytes) -> None:
    assert all(key in SEQUENCES.values() or len(key) == 1 for key in read_keys(data))


def test_a_terminal_of_two_columns_gets_the_sentences_cut() -> None:
    why = Explanation(job="j1", phase="Placing", why=("no site has 64 idle processors",))
    state = TopState(view=View.WHY, chosen="j1", message=HOSTILE)
    lines = screen_lines(scene(why=why), state, width=2, height=9)
    assert all(len(line) <= 2 for line in lines[:-1]), lines
    assert not any("\x1b" in line or "\n" in line for line in lines)
