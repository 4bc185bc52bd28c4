"""A grid does without the packages of the extra `sim`, and simulations say that they need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.lab.commands.simulate import SIMULATIONS
from tests.cli.command import LIMIT_S, PYTHON_PATH, environment
from tests.cli.grids import up
from tests.tidy.sources import shipped_files

OPTIONAL = ("scipy", "numpy", "matplotlib")
ABSENT = f"import sys\nfor name in {OPTIONAL}:\n    sys.modules[name] = None\n"
ONE_BY_ONE = """
import contextlib, io, json, sys
from koala.cli.main import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = main(words)
    print(json.dumps([status, out.getvalue(), said.getvalue()]))
"""
ONE_SITE = "[sites.delft.site]\nprocessors = 4\n"
SENTENCE = "needs the extra: pip install 'koala-scheduler[sim]'"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test do not have these packages, wherever they are installed."""
    folder = tmp_path / "bare"
    folder.mkdir()
    folder.joinpath("sitecustomize.py").write_text(ABSENT, encoding="utf-8")
    path = os.pathsep.join([str(folder), PYTHON_PATH])
    monkeypatch.setattr("tests.cli.command.PYTHON_PATH", path)


@pytest.mark.usefixtures("bare")
def test_all_but_drawings_can_be_loaded_without_the_extra() -> None:
    names = [
        name
        for name in shipped_files()
        if not name.endswith((".drawing", ".__main__")) and "starter" not in name
    ]
    assert {
        "koala.daemon.main",
        "koala_agent.main",
        "koala.client",
        "koala.daemon.notifications.mqtt",
    } < set(names)
    code = f"import importlib\nfor name in {names}:\n    importlib.import_module(name)\n"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def commands(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Every command that needs the extra."""
    log = str(tmp_path / "none.swf")
    needed = {"trace": log, "workload": "lublin", "backlog": f"{log}:10+{log}:20"}
    for name in SIMULATIONS:
        yield ("simulate", name, *needed.get(name, "").split())
    yield "reproduce", "koala"


@pytest.mark.usefixtures("bare")
def test_simulations_say_that_they_need_the_extra_and_show_their_help(tmp_path: Path) -> None:
    words = list(commands(tmp_path))
    found = in_one_process([*words, *((*command, "--help") for command in words)])
    refused, helped = found[: len(words)], found[len(words) :]
    for command, (status, out, said) in zip(words, refused, strict=True):
        name = " ".join(command[:2] if command[0] == "simulate" else command[:1])
        assert (status, out) == (2, "")
        assert said.startswith(f"koala {name}: {SENTENCE}"), said
        assert said.count("\n") == 1
    assert len(words) > 5
    assert [(status, said) for status, _, said in helped] == [(0, "")] * len(words)


def in_one_process(commands: list[tuple[str, ...]]) -> list[tuple[int, str, str]]:
    """Status, standard output and standard error of commands, which share a bare interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", ONE_BY_ONE, json.dumps(commands)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return [tuple(json.loads(line)) for line in run.stdout.splitlines()]


@pytest.mark.live
@pytest.mark.long
@pytest.mark.usefixtures("bare")
def test_a_grid_runs_jobs_without_the_extra(tmp_path: Path) -> None:
    job = tmp_path / "job.rsl"
    job.write_text("&(executable=/bin/true)(count=2)", encoding="utf-8")
    with up(tmp_path, ONE_SITE) as grid:
        (journal,) = Path(grid.said_state()).rglob("journal.db")
        at = ("--address", grid.address)
        submitted, listed, replayed = in_one_process(
            [
                ("submit", str(job), "--wait", *at),
                ("list", *at),
                ("replay", str(journal.parent), "--summary"),
            ]
        )
    assert submitted[0] == 0, submitted
    assert "Finished" in listed[1]
    assert replayed[0] == 0, replayed
