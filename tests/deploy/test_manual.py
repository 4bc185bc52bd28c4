"""Manual pages and completions, which the wheel brings."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from koala.local.demo_scenario import GRID_FILE
from koala.local.init import TEMPLATES
from tests.cli.test_documents import COMMAND_LINE, command_lines
from tests.documents.pages import prepare
from tests.tidy.sources import ROOT

BUILD = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
    "build"
]["targets"]["wheel"]


def load(path: Path) -> ModuleType:
    """Load a module that only the build uses."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MANUAL = load(ROOT / "deploy" / "packaging" / "manual.py")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    text = COMMAND_LINE.read_text(encoding="utf-8")
    made: dict[str, str] = MANUAL.manual_pages(text, version="1.2")
    return made


def test_every_command_has_a_page_and_the_first_page_names_all(pages: dict[str, str]) -> None:
    names = {"-".join(("koala", *words)) for words in command_lines()}
    assert {f"{name}.1" for name in names} <= set(pages)
    assert {"koala.1", "koala-agent.1", "koala-agent-start.1"} <= set(pages)
    overview = pages["koala.1"].replace("\\", "")
    assert [name for name in names if f"fB{name}fR(1)" not in overview] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_build_installs_a_completion_for_each_shell(shell: str) -> None:
    (source,) = [one for one, to in BUILD["shared-data"].items() if f"/{shell}" in to]
    text = ROOT.joinpath(source).read_text(encoding="utf-8")
    assert f"_KOALA_COMPLETE={shell}_complete" in text


def test_bash_completes_commands(tmp_path: Path) -> None:
    bin_folder = prepare(tmp_path)
    script = ROOT / "deploy" / "completions" / "koala.bash"
    ask = f"source {script}; COMP_WORDS=(koala re); COMP_CWORD=1; _koala_completion koala"
    run = subprocess.run(
        ["bash", "-c", f'{ask}; echo "${{COMPREPLY[@]}}"'],
        env={**os.environ, "PATH": os.pathsep.join([str(bin_folder), os.environ["PATH"]])},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert set(run.stdout.split()) == {"replay", "reproduce", "resize"}, run.stderr


def test_the_wheel_has_every_template_and_no_script_of_development() -> None:
    shipped = [Path(one).relative_to("deploy") for one in BUILD["force-include"] if "deploy" in one]
    for name in (*TEMPLATES.values(), GRID_FILE):
        assert any(Path(name).is_relative_to(one) for one in shipped), name
    assert Path("dev") not in shipped


@pytest.mark.long
def test_the_wheel_brings_pages_and_completions(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*words, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    (shared,) = tmp_path.glob("unpacked/*.data/data/share")
    assert shared.joinpath("man/man1/koala-submit.1").is_file()
    assert shared.joinpath("bash-completion/completions/koala").is_file()
