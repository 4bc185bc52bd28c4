"""Lint, form and generated code are tests, so that one command tells all."""

import faulthandler
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.tidy.sources import ROOT

pytestmark = pytest.mark.slow  # long, so it begins early

TOOL_S = 1_200.0
"""A tool may take so long, on a machine that is busy."""


def test_ruff_finds_no_breach_of_the_rules() -> None:
    run_tool("ruff", "check", "--output-format", "concise", ".")


def test_every_file_has_the_form_that_ruff_gives_it() -> None:
    run_tool("ruff", "format", "--check", "--output-format", "concise", ".")


def test_the_generated_code_is_what_the_proto_files_give(tmp_path: Path) -> None:
    generator = load_generator()
    generator.generate(tmp_path)
    assert generator.differences(tmp_path, ROOT) == []


def test_an_edited_a_missing_and_a_foreign_generated_file_are_told(tmp_path: Path) -> None:
    generator = load_generator()
    expected, actual = tmp_path / "expected", tmp_path / "actual"
    for root, texts in (
        (expected, {"a_pb2.py": "1", "b_pb2.py": "1"}),
        (actual, {"a_pb2.py": "2", "c_pb2.py": "1"}),
    ):
        folder = root / generator.PACKAGE
        folder.mkdir(parents=True)
        for name, text in texts.items():
            folder.joinpath(name).write_text(text, encoding="utf-8")
    assert generator.differences(expected, actual) == [
        "a_pb2.py differs",
        "b_pb2.py is missing",
        "c_pb2.py has no source",
    ]


def run_tool(*arguments: str) -> None:
    """Run a tool of this environment on the whole tree; what it says is the failure."""
    faulthandler.cancel_dump_traceback_later()  # pytest's: our stack says nothing of a slow tool
    run = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
    )
    if run.returncode != 0:
        said = (run.stdout + run.stderr).strip()
        pytest.fail(f"{' '.join(arguments)}: exit status {run.returncode}\n{said}", pytrace=False)


def load_generator() -> ModuleType:
    """`proto/generate.py` as a module; the folder is no package."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
