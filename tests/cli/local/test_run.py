"""`koala run`: a command on several sites, its output, its exit status, and Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.command import LIMIT_S, environment
from tests.cli.grids import Up, marked_with, up

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("g")
    with up(folder) as running:
        yield running
    assert marked_with(str(folder)) == [], "Ctrl-C has left something"


def test_output_is_labelled_by_site_and_process(grid: Up) -> None:
    words = ("--sites", "2", "-n", "2", "--env", "WORD=hi", "--", "sh", "-c", "echo $WORD")
    done = grid.koala("run", *words)
    assert done.returncode == 0, done.stderr
    labels = [f"{site}.{process} | hi" for site in ("delft", "vu") for process in (0, 1)]
    assert sorted(done.stdout.splitlines()) == labels
    assert "submitted j" in done.stderr


def test_a_total_is_split_over_the_sites(grid: Up) -> None:
    done = grid.koala("run", "--total", "7", "--", "sh", "-c", "echo $KOALA_COUNT of $WORLD_SIZE")
    assert done.returncode == 0, done.stderr
    parts = sorted(line.split(" | ")[1] for line in done.stdout.splitlines())
    assert parts == ["3 of 7"] * 3 + ["4 of 7"] * 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--sites", "2", "--site", "vu", "--", "true"), "expected only one of"),
        (("--site", "vu", "--site", "vu", "--", "true"), "--site vu is given twice (expected once"),
        (("-n", "2", "-n", "3", "--", "true"), "-n 2 -n 3 (expected one, or one for each --site"),
        (("--sites", "2", "-n", "2", "-n", "3", "--", "true"), "one for each --site, as in --site"),
        (("--sites", "3", "--", "true"), "the job needs 3 different sites: there are 2"),
        (("--site", "nowhere", "--", "true"), "nowhere"),
        (("--total", "5000", "--", "true"), "5000 processors in at most 1000 components"),
        (("--total", "4", "-n", "2", "--", "true"), "--total 4 and -n 2 (expected only one of"),
        (("--time", "soon", "--memory", "x", "--", "true"), "memory: found 'x'"),
        (("--env", "A", "--", "true"), "--env 'A' (expected NAME=VALUE"),
        (("--gpus", "9", "--", "true"), "needs 9 GPUs"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_run_is_refused_with_the_value(
    grid: Up, words: tuple[str, ...], told: str
) -> None:
    before = json.loads(grid.koala("list", "--json").stdout)["jobs"]
    done = grid.koala("run", *words)
    assert done.returncode in (1, 2), done.stderr
    assert told in done.stderr
    assert json.loads(grid.koala("list", "--json").stdout)["jobs"] == before


def test_detached_only_the_id_is_printed(grid: Up) -> None:
    done = grid.koala("run", "--detach", "--name", "nap", "--", "sleep", "0")
    job = done.stdout.strip()
    assert grid.koala("wait", job).returncode == 0
    assert json.loads(grid.koala("show", job, "--json").stdout)["name"] == "nap"


def test_ctrl_c_asks_whether_the_job_is_to_be_cancelled(grid: Up) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "run", "--", "sh", "-c", "echo begun; sleep 600"],
        env=environment(KOALA_ADDRESS=grid.address),
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
    )
    os.close(follower)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        told = ""
        while "[y/N]" not in told:
            told += os.read(leader, 4096).decode()
        os.write(leader, b"y\n")
        with contextlib.suppress(OSError):  # EIO: the command has ended.
            while piece := os.read(leader, 4096):
                told += piece.decode()
        assert process.wait(timeout=LIMIT_S) == 130
    finally:
        process.kill()
        process.stdout.close()
        os.close(leader)
    job = told.partition("submitted ")[2].split()[0]
    assert told.splitlines()[-1] == f"koala run: {job} is cancelled"
    assert "Traceback" not in told
    assert grid.koala("wait", job).stdout.split() == [job, "Cancelled"]
