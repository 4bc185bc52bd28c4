"""`koala init` and `koala examples` write files that work as they stand."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from koala.daemon.config import read_config as read_daemon
from koala.job_descriptions import read_job
from koala_agent.config import read_config as read_agent
from koala_agent.lrm.batch_system import known_systems
from tests.cli.command import LIMIT_S, environment, koala, koala_here

SYSTEMS = [system.kind for system in known_systems()]
RUN_ELSEWHERE = {"mpi", "frameworks"}
"""An MPI program is compiled first (tests/batch), frameworks are installed
(tests/examples)."""


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(folder):
        return koala_here("init", *words)


def test_init_without_a_kind_writes_an_agent_for_the_batch_system_that_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, programs = tmp_path / "bare", tmp_path / "bin"
    bare.mkdir()
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    run = init(bare)
    assert (run.returncode, run.stdout.split()) == (0, ["job.yaml", "daemon.toml"]), run.stderr
    assert "found no batch system here: `koala init KIND` writes an agent" in run.stderr
    for name in ("qsub", "qconf"):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    folder = tmp_path / "cell"
    folder.mkdir()
    run = init(folder)
    assert run.stdout.split() == ["job.yaml", "daemon.toml", "agent-gridengine.toml"], run.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted(run.stdout.split())


@pytest.mark.parametrize("kind", ["job", "daemon", "site-mode", *SYSTEMS])
def test_each_template_is_valid(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine"
    assert init(tmp_path, kind, "mine").returncode == 0
    if kind == "job":
        reading = read_job(path.read_bytes())
        assert reading.spec.distinct
        assert reading.warnings == ()
    elif kind == "daemon":
        assert read_daemon(path).daemon.listen == "0.0.0.0:7740"
    else:
        expected = "slurm" if kind == "site-mode" else kind
        assert read_agent(path).lrm.kind == expected


@pytest.mark.parametrize("kind", SYSTEMS)
def test_init_fills_in_the_site_and_the_daemon(tmp_path: Path, kind: str) -> None:
    run = init(tmp_path, kind, "--site", "boreas", "--daemon", "head.test:7740")
    assert run.stdout.split() == ["boreas.toml"], run.stderr
    agent = read_agent(tmp_path / "boreas.toml").agent
    assert (agent.site, agent.daemon) == ("boreas", "head.test:7740")
    assert agent.state_dir.endswith("koala/boreas"), "agents of one home have folders of their own"
    if kind != "emulated":
        text = (tmp_path / "boreas.toml").read_text(encoding="utf-8")
        first = text.split("[agent]")[1].split("[site]")[0].splitlines()[1:4]
        assert len({line.index("  # ") for line in first}) == 1, "comments keep their column"
        assert "koala-agent start boreas.toml" in text


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    tmp_path.joinpath("daemon.toml").write_text("mine", encoding="utf-8")
    run = init(tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert "daemon.toml exists (expected a new file" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["daemon.toml"]
    assert tmp_path.joinpath("daemon.toml").read_text(encoding="utf-8") == "mine"


def test_examples_go_into_a_new_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    run = koala("examples", str(folder))
    assert run.returncode == 0, run.stderr
    assert str(folder / "hello.yaml") in run.stdout.splitlines()
    run = koala("examples", str(folder))
    assert run.returncode == 2
    assert "expected a new folder, or an empty one" in run.stderr


@pytest.mark.long
@pytest.mark.live
def test_all_examples_run_as_they_stand_on_the_default_grid(tmp_path: Path) -> None:
    folder = tmp_path / "examples"
    koala("examples", str(folder))
    grid = subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "up", "--any-port"],
        env=environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert grid.stdout is not None
    try:
        address = grid.stdout.readline().strip().partition("=")[2]
        jobs = {}
        for path in sorted(folder.rglob("*")):
            is_run_here = RUN_ELSEWHERE.isdisjoint(path.relative_to(folder).parts)
            if path.suffix in (".rsl", ".yaml") and is_run_here:
                run = koala("submit", str(path), KOALA_ADDRESS=address)
                assert run.returncode == 0, f"{path}: {run.stderr}"
                jobs[run.stdout.strip()] = path.name
        koala("wait", *jobs, KOALA_ADDRESS=address)
        listed = json.loads(koala("list", "--json", KOALA_ADDRESS=address).stdout)["jobs"]
        ends = {jobs[job["job"]]: job["phase"] for job in listed}
        assert set(ends.values()) == {"Finished"}, ends
    finally:
        grid.terminate()
        grid.wait(timeout=LIMIT_S)
        grid.stdout.close()
    assert len(jobs) >= 10
    assert [path.name for path in tmp_path.iterdir()] == ["examples"]


def test_a_policy_of_ones_own_comes_with_its_test(tmp_path: Path) -> None:
    """The test passes as it stands."""
    run = init(tmp_path, "policy", "mine.py")
    assert (run.returncode, run.stdout.split()) == (0, ["mine.py", "test_mine.py"])
    assert "--queueing mine:small_first" in run.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "2 passed" in tested.stdout, tested.stdout
    again = init(tmp_path, "policy", "mine.py")
    assert (again.returncode, again.stderr.count("exists (expected a new file")) == (2, 1)
    assert "the name of a Python module" in init(tmp_path, "policy", "my-own.py").stderr
