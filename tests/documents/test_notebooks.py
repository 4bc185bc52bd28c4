"""The notebooks run, and print what they show but for numbers that depend on the machine."""

from __future__ import annotations

import json
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


def test_the_documents_have_three_notebooks_with_outputs() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["compare", "policy", "replay"]
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(tmp|home|root|work)/", text), f"{path.name} names a path"
        cells = [one for one in json.loads(text)["cells"] if one["cell_type"] == "code"]
        assert sum(bool(one["outputs"]) for one in cells) >= 4
        kinds = {out["output_type"] for one in cells for out in one["outputs"]}
        assert "error" not in kinds


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
