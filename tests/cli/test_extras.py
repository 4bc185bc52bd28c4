"""A grid does without the packages of the extra `sim`, and simulations say that they need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from koala.cli.research.simulate import SIMULATIONS
from tests.cli.command import LIMIT_S, PYTHON_PATH, environment, koala
from tests.cli.grids import up
from tests.tidy.sources import shipped_modules

OPTIONAL = ("scipy", "numpy", "matplotlib")
ABSENT = f"import sys\nfor name in {OPTIONAL}:\n    sys.modules[name] = None\n"
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
        module.name
        for module in shipped_modules()
        if not module.name.endswith((".drawing", ".__main__")) and "starter" not in module.name
    ]
    assert {"koala.daemon.main", "koala_agent.main", "koala.client", "koala.daemon.mqtt"} < set(
        names
    )
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


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("words", [*(("simulate", name) for name in SIMULATIONS), ("reproduce",)])
def test_a_simulation_says_that_it_needs_the_extra(words: tuple[str, ...], tmp_path: Path) -> None:
    needed = {"trace": str(tmp_path / "none.swf"), "reproduce": "koala", "workload": "lublin"}
    given = [needed[words[-1]]] if words[-1] in needed else []
    run = koala(*words, *given)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"koala {' '.join(words)}: {SENTENCE}"), run.stderr
    assert run.stderr.count("\n") == 1
    assert koala(*words, "--help").returncode == 0


@pytest.mark.live
@pytest.mark.usefixtures("bare")
def test_a_grid_runs_jobs_without_the_extra(tmp_path: Path) -> None:
    with up(tmp_path) as grid:
        text = b"&(executable=/bin/true)(count=2)"
        run = koala("submit", "-", "--wait", stdin=text, KOALA_ADDRESS=grid.address)
        assert run.returncode == 0, run.stderr
        assert "Finished" in koala("list", KOALA_ADDRESS=grid.address).stdout
        (journal,) = Path(grid.said_state()).rglob("journal.db")
        replay = koala("replay", str(journal.parent), "--summary")
        assert replay.returncode == 0, replay.stderr
