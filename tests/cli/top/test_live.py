"""The live view of the terminal (`koala top`) on a pseudo-terminal, in front of a real grid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.identity.private_files import write_private
from tests.cli.grids import Up, up
from tests.cli.top.terminal import terminal

pytestmark = pytest.mark.live
ESCAPE, ENTER, DOWN, CONTROL_C = "\x1b", "\r", "\x1b[B", "\x03"
UNTIL_GO = "until [ -e GO ]; do sleep 0.1; done"
PAIR = f"""+(name=pair)(&(executable=/bin/sh)(count=1)(label=left)
   (arguments=-c "echo left is here; {UNTIL_GO}; echo left is done"))
 (&(executable=/bin/sh)(count=2)(label=right)(arguments=-c "{UNTIL_GO}"))"""
SLEEP = "&(executable=/bin/sleep)(arguments=600)(count=1)"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One grid of two sites."""
    with up(tmp_path_factory.mktemp("g")) as running:
        yield running


def row(screen: str, job: str) -> str:
    """Return the line of a job in the list; empty if it is not there."""
    return next((line for line in screen.split("\n") if f" {job} " in f"{line[1:]} "), "")


def test_a_job_is_watched_from_the_list_to_its_end_and_another_is_cancelled(
    grid: Up, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with terminal("top", "--address", grid.address) as screen:
        screen.wait_for("2 sites, 8 processors", "delft", "vu", "q quit")
        pair = grid.submit(PAIR.replace("GO", str(go)))
        screen.wait(lambda text: "Running" in row(text, pair), "the running job")
        assert "pair" in row(screen.text, pair)
        screen.press(ENTER)
        screen.wait_for("left", "right", "barrier: the programs started within", "passed")
        document = json.loads(grid.koala("show", pair, "--json").stdout)
        skew_ms = document["timeline"]["start_skew_s"] * 1000
        assert f"within {skew_ms:.1f} ms" in screen.text
        screen.press("w")
        screen.wait_for("have not ended: left at", "running for")
        screen.press("l")
        screen.wait_for("left.0 | left is here")
        go.touch()
        screen.wait_for("left.0 | left is done")
        screen.press(ESCAPE)
        screen.wait_for("barrier:", "Finished")
        screen.press("c")
        screen.wait_for(f"{pair} is over")
        screen.press("q")
        screen.wait(lambda text: "Finished" in row(text, pair), "the end")

        sleeper = grid.submit(SLEEP)
        screen.wait(lambda text: "Running" in row(text, sleeper), "the other job")
        screen.press("\x1b[H")
        screen.wait(lambda text: row(text, sleeper).startswith(">"), "the first line")
        screen.press("c")
        screen.wait_for(f"cancel {sleeper}?")
        screen.press("n")
        screen.wait_for(f"{sleeper} was not cancelled")
        assert json.loads(grid.koala("show", sleeper, "--json").stdout)["phase"] == "Running"
        screen.press("cy")
        screen.wait(lambda text: "Cancelled" in row(text, sleeper), "the cancellation")

        screen.press("/")
        screen.wait_for("filter:")
        screen.press(f"PAIR{ENTER}")
        screen.wait(lambda text: row(text, sleeper) == "", "the filter")
        assert "1 listed: filter 'PAIR'" in screen.text
        screen.press(f"/{'x' * 3}{ESCAPE}")
        screen.wait_for("q quit", "filter 'PAIR'")
        screen.press("?")
        screen.wait_for("cancel it, after a question")
        screen.press(f"{ESCAPE}")
        screen.wait_for("WAITED")
        screen.press("q")
        assert screen.end() == 0
        assert screen.mode_now() == screen.mode, "the terminal is as it was"
        assert b"\x1b[?1049l" in screen.written


def test_the_view_ends_when_the_daemon_refuses_the_user(grid: Up, tmp_path: Path) -> None:
    token = tmp_path / "ann.token"
    write_private(token, grid.koala("user", "add", "ann").stdout.encode())
    words = ("top", "--address", grid.address)
    with terminal(*words, KOALA_CREDENTIALS=str(token)) as screen:
        screen.wait_for("2 sites, 8 processors", "as ann")
        assert grid.koala("user", "revoke", "ann").returncode == 0
        assert screen.end() == 1
        assert "does not accept these credentials any more" in screen.text
        assert screen.mode_now() == screen.mode


def test_without_a_terminal_other_commands_are_named(grid: Up) -> None:
    run = grid.koala("top")
    assert run.returncode == 2
    assert "must be a terminal; see koala list" in run.stderr
