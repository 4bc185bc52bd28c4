"""The notebooks run, and print what they show but for numbers that depend on the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.sources import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LIMIT_S = 600
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?|\binf\b")


def shapes(notebook: Any) -> list[list[tuple[str, list[str]]]]:
    """List the outputs of each cell: kinds, and words without numbers and widths."""
    return [
        [(one["output_type"], _words(one)) for one in cell.get("outputs", []) if _is_told(one)]
        for cell in notebook.cells
    ]


def _is_told(output: Any) -> bool:
    return not (output["output_type"] == "stream" and output["name"] == "stderr")


def _words(output: Any) -> list[str]:
    data = output.get("data", {})
    text = output.get("text") or data.get("text/plain", "")
    return [*sorted(data), *NUMBER.sub("0", text).split()]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'agents'}")
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    shown = shapes(notebook)
    NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    assert shapes(notebook) == shown
