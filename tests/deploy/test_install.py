"""`deploy/dev/install.sh`, by which the Makefile sets up an environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

SCRIPT = ROOT / "deploy" / "dev" / "install.sh"
LIMIT_S = 180.0
UV = """#!/bin/sh
echo "$@" >>"$0.said"
exit "${UV_STATUS:-0}"
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with a `uv` that notes what it is told and installs nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    uv = folder / "uv"
    uv.write_text(UV, encoding="utf-8")
    uv.chmod(0o755)
    return folder


def install(
    tools: Path, venv: Path, *extras: str, **changes: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    return subprocess.run(
        [str(SCRIPT), str(venv), *extras],
        env={**os.environ, "PATH": path, "PYTHON": sys.executable, **changes},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_each_step_is_said_and_each_set_of_packages_is_noted(tools: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    run = install(tools, venv, "examples")
    assert run.returncode == 0, run.stderr
    first, second, third = run.stderr.splitlines()
    assert first.startswith(f"koala: 1 of 2: making {venv} with Python 3.")
    assert second.startswith(f"koala: 2 of 2: installing Koala into {venv} ")
    assert second.endswith(" extras examples, by uv")
    assert third.startswith(f"koala: {venv} is ready after ")
    assert subprocess.run([venv / "bin" / "python", "-c", ""], check=False).returncode == 0
    assert sorted(path.name for path in venv.glob(".has-*")) == [".has-examples"]

    more = install(tools, venv, "dev", "examples")
    assert more.stderr.splitlines()[0].startswith("koala: 2 of 2: "), "it is there already"
    assert sorted(path.name for path in venv.glob(".has-*")) == [".has-dev", ".has-examples"]
    asked = tools.joinpath("uv.said").read_text(encoding="utf-8").splitlines()
    assert [line.rpartition("--editable ")[2] for line in asked] == [
        f"{ROOT}[examples]",
        f"{ROOT}[dev,examples]",
    ]


@pytest.mark.parametrize("python", ["", "/bin/false"])
def test_no_python_that_is_new_enough_is_said_with_a_remedy(
    tools: Path, tmp_path: Path, python: str
) -> None:
    run = install(tools, tmp_path / "venv", "examples", PYTHON=python)
    assert run.returncode == 1
    assert "Python 3.11 or newer" in run.stderr
    assert not (tmp_path / "venv").exists()
