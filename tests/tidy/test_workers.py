"""Modules that share something expensive are run by one worker."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.forked import FORKS, forks
from tests.harness.workers import TOGETHER
from tests.tidy.sources import ROOT

SHARED = re.compile(r'scope="(module|session)"')


def own_number() -> str:
    return Path("/proc/self").readlink().name


IMPORTED_BY = own_number()


def test_the_modules_that_go_together_are_there() -> None:
    assert [module for module in TOGETHER if not ROOT.joinpath(module).is_file()] == []


def test_what_is_live_and_shared_is_made_by_one_worker_only() -> None:
    """Tests in front of batch systems run in one process anyway."""
    found = set()
    for path in sorted(ROOT.joinpath("tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if SHARED.search(text) and "pytest.mark.live" in text:
            found.add(path.relative_to(ROOT).as_posix())
    assert found - set(TOGETHER) - {"tests/tidy/test_workers.py"} == set()


def test_the_calm_grid_is_used_by_its_group_only() -> None:
    """It ends with its group: a module outside would start it for each of its tests."""
    for path in sorted(ROOT.joinpath("tests/live").rglob("test_*.py")):
        if "calm_grid" in path.read_text(encoding="utf-8"):
            assert TOGETHER.get(path.relative_to(ROOT).as_posix()) == "calm grid", path


def test_a_worker_finds_its_tests_imported() -> None:
    """By the process from which all workers are forked."""
    is_forked = "PYTEST_XDIST_WORKER" in os.environ and forks()
    assert (own_number() != IMPORTED_BY) == is_forked


NAME_TAKERS = ("os.getpid", "tempfile.mkdtemp", "free_port")


def names_taken(text: str) -> set[str]:
    """Return which of these functions a module calls for a name of its own while it is imported."""
    if not any(name in text for name in NAME_TAKERS):
        return set()
    imported = [one for one in ast.parse(text).body if isinstance(one, ast.Assign | ast.AnnAssign)]
    return {
        ast.unparse(node.func)
        for one in imported
        for node in ast.walk(one)
        if isinstance(node, ast.Call)
    }.intersection(NAME_TAKERS)


def test_no_module_takes_a_name_from_the_process_that_imports_it() -> None:
    """All workers are forked from one process that has imported the tests: they would share it."""
    for path in sorted(ROOT.joinpath("tests").rglob("*.py")):
        assert not names_taken(path.read_text(encoding="utf-8")), path
    assert names_taken("PORT: int = free_port()") == {"free_port"}


@pytest.mark.parametrize("number", range(12))
def test_all_of_a_group_are_run_by_one_worker(
    number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Else each of the workers has some of the dozen."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return  # there is one process
    folder = tmp_path_factory.getbasetemp().parent / "workers-seen"
    folder.mkdir(exist_ok=True)
    folder.joinpath(worker).touch()
    assert [path.name for path in folder.iterdir()] == [worker], number


SCHEDULER = """
from tests.harness.workers import Together

def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)
"""
DIES = """
import os, pytest, signal

@pytest.mark.parametrize("number", range(8))
def test_it(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_test_that_kills_its_worker_fails_and_all_others_are_run(tmp_path: Path) -> None:
    """A new worker runs what the dead one had, but not that test again."""
    texts = {"pytest.ini": "[pytest]\n", "conftest.py": SCHEDULER, "test_dies.py": DIES}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "xdist.plugin"]
    words += ["-p", "no:cacheprovider", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    run = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # they are slow to import
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "1 failed, 7 passed" in run.stdout, run.stdout + run.stderr
    assert "test_it[3]" in run.stdout


ENDS_PARTS = """
import os, signal

def test_it():
    os.kill({pid}, signal.SIGKILL)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("pid", "said"),
    [
        (
            "os.getpid()",
            (r"worker process \d+ was ended by SIGKILL\n", r"of gw0 was ended by SIGKILL"),
        ),
        (
            "os.getppid()",
            (r"of gw0 ended with status 70; ", r"fork server \d+ was ended by SIGKILL"),
        ),
    ],
)
def test_how_a_worker_ended_is_said(tmp_path: Path, pid: str, said: tuple[str, ...]) -> None:
    """With the signal, and with that of the server from which it was forked. The lines are of two
    processes, so they come in any order."""
    path = tmp_path / "test_ends.py"
    path.write_text(ENDS_PARTS.format(pid=pid))
    words = [
        "-q",
        "-n",
        "1",
        "--maxfail=1",
        "-c",
        os.devnull,
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), FORKS: "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    for line in said:
        assert re.search(line, run.stderr), run.stdout + run.stderr
    assert "[gw0] node down" in run.stdout
