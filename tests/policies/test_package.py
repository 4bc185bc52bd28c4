"""A package outside of the tree, as docs/development/add-a-policy.md shows one: by name in every
command and in a daemon, checked, and replaced when it misbehaves."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.command import PYTHON_PATH, koala
from tests.documents.blocks import blocks
from tests.harness.installation import write_installation
from tests.lab.workload.logs import a_log, line
from tests.live.grid import live_grid
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "development" / "add-a-policy.md"


def install(
    folder: Path, more: dict[str, str] | None = None, modules: dict[str, str] | None = None
) -> str:
    """Write the page's package and more modules, and what its installation leaves for Python to
    find; return the path to look in."""
    for name, text in (modules or {}).items():
        folder.joinpath(f"{name}.py").write_text(text, encoding="utf-8")
    files = {block.marks.get("file", ""): block.text for block in blocks(PAGE)}
    for name in filter(None, files):
        folder.joinpath(name).write_text(files[name], encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    points = {**project["entry-points"]["koala.policies"], **(more or {})}
    write_installation(folder, project["name"], project["version"], "koala.policies", points)
    return str(folder)


@pytest.fixture
def package(tmp_path: Path) -> str:
    return install(tmp_path)


def run(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    return koala(*words, PYTHONPATH=f"{PYTHON_PATH}:{package}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("simulate", "trace", "LOG", "--policy", "widestt"), "did you mean widest?"),
        (("simulate", "koala", "--queueing", "widestt"), "did you mean widest?"),
        (("simulate", "multiqueue", "--policy", "LS-DOO"), "did you mean LS-DO?"),
        (("simulate", "sq", "--scheme", "SQQ"), "did you mean SQ?"),
        (("simulate", "hints", "--policy", "Servise"), "did you mean Service?"),
        (("yardstick", "--policy", "queueing=widestt"), "did you mean widest?"),
        (("simulate", "trace", "LOG", "--policy", "tightest"), "is a policy of the slot placement"),
        (("simulate", "hints", "--policy", "widest"), "is a policy of the slot queueing"),
        (("simulate", "hints", "--policy", "sjf"), "is a policy of the slot queueing"),
        (("simulate", "multiqueue", "--policy", "widest"), "this simulation has no other queues"),
        (
            ("yardstick", "--policy", "progress=SQ"),
            "slot progress is unknown (expected one of placement",
        ),
    ],
)
def test_a_name_that_is_not_there_gets_an_advice(
    package: str, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    log = a_log(tmp_path, "; MaxProcs: 8", line(1, 1, 20, 1))
    ran = run(package, *(str(log.path) if word == "LOG" else word for word in words))
    assert ran.returncode == 2, ran.stderr
    assert text in ran.stderr


BAD = """
import os, sys, time
from koala.core.model.visiting import Discipline, LocalJobs
from koala.core.policy_api import ClaimPlan

def errs(request, view): return 1 / 0
def claims(question, view, place): return ClaimPlan(fraction=1.0, claims=(0, 0, 7))
def hangs(question, view, place):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
def turn(scans, times): sys.exit("no turn")
def order(*question): raise KeyboardInterrupt
def keeps(question): return "all"
ROUNDS = Discipline(name="rounds", local_jobs=LocalJobs.ALL, order=order, permits=order)
"""


def check(package: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "koala.policies.conformance", *words],
        env={**os.environ, "PYTHONPATH": f"{PYTHON_PATH}:{package}"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


IMPURE = """
import time
asked = []

def late_once(job):
    asked or (asked.append(job), time.sleep(0.7))
    return 1

def kept(job):
    asked.append(job)
    return len(asked)

def by_set(job):
    return list({"ann", "bob", "carol", "dave", job.user}).index("ann")

def changes(question):
    object.__setattr__(question, "members", ())
    return ()
"""


def test_the_check_finds_what_a_policy_must_not_do(package: str) -> None:
    Path(package, "impure.py").write_text(IMPURE, encoding="utf-8")
    Path(package, "bad.py").write_text(BAD, encoding="utf-8")
    for slot, name, text in (
        ("queueing", "impure:kept", "not deterministic: answered (1,), and then (2,)"),
        ("queueing", "impure:by_set", "depend on the hash seed"),
        ("progress", "impure:changes", "changed its question"),
        ("placement", "bad:errs", "ZeroDivisionError: division by zero, in bad.py, line 6"),
        ("claiming", "bad:hangs", "no answer in 0.5 s"),
        ("queueing", "bad:ROUNDS", "KeyboardInterrupt, in bad.py"),
    ):
        ran = check(package, name, "--slot", slot, "--questions", "20")
        assert (ran.returncode, text in ran.stdout) == (1, True), (ran.stdout, ran.stderr)
    for slot, name in (("placement", "tightest"), ("queueing", "impure:late_once")):
        ran = check(package, name, "--slot", slot, "--questions", "50")
        assert ran.stdout == f"{slot} = {name}: 50 questions, no problem\n"
    ran = check(package, "tightest", "--slot", "placment")
    assert (ran.returncode, "did you mean placement?" in ran.stderr) == (2, True)


@pytest.mark.live
@pytest.mark.slow
async def test_a_daemon_goes_on_with_its_default_in_every_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs with and without a deadline end, also after a start whose timers call the policies."""
    (tmp_path / "found").mkdir()
    points = {"placement.errs": "bad:errs", "queueing.turn": "bad:turn"}
    path = install(tmp_path / "found", points, {"bad": BAD})
    monkeypatch.setenv("KOALA_TEST_PATH", path)
    for queueing, deadlines in (("turn", 0), ("bad:ROUNDS", 2)):
        daemon = (
            f'[policies]\nplacement = "errs"\nclaiming = "bad:claims"\ndeadlines = "bad:hangs"\n'
            f'queueing = "{queueing}"\nprogress = "bad:keeps"\n'
        )
        folder = tmp_path / queueing.replace(":", "-")
        with live_grid(folder, sites={"delft": 4}, more={"daemon": daemon}) as grid:
            async with grid.client() as client:
                await grid.ready(client)
                job = (await client.submit("&(executable=/bin/true)(count=1)")).job
                assert await client.wait(job) == "Finished"
                replaced = (await client.metrics())["replaced_policies"]
                assert sorted(replaced) == [
                    "claiming.bad:claims",
                    "placement.errs",
                    f"queueing.{queueing}",
                ]
                for life in range(deadlines):
                    if life:
                        grid.kill("daemon")
                        grid.start("daemon")
                        await grid.ready(client)
                    timed = "&(executable=/bin/true)(deadline='+0.1')"
                    assert await client.wait((await client.submit(timed)).job) == "Finished"
                    replaced = (await client.metrics())["replaced_policies"]
                    assert replaced["deadlines.bad:hangs"] == "no answer in 0.5 s"
