"""Workers with other code of a user's own functions make no runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from koala import lab
from koala.errors import ConfigError
from koala.lab import sweeps

PLACE = "from koala.policies.placement.worst_fit import worst_fit\n\n\ndef place(request, view):\n"
BASE = lab.Experiment(
    grid=lab.grid({"a": 8, "b": 8}),
    workload=lab.Jobs([lab.Job(at=0, processors=6, run_s=100)]),
)


def test_an_own_policy_that_differs_or_is_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "own_places.py"
    module.write_text(f"{PLACE}    return worst_fit(request, view)\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = sweeps.points_of(BASE, {"placement": ["own_places:place", "WF"]})
    own, known = sweeps.work_of(points, [1]).items
    assert (bool(own.own), known.own) == (True, "")
    assert sweeps.run_task(own).values["jobs"] == 1
    module.write_text(f"{PLACE}    return worst_fit(request, view)  # changed\n")
    sweeps._loaded.cache_clear()  # as another process, on another machine
    with pytest.raises(ConfigError, match="has other code of your own functions"):
        sweeps.run_task(own)
    assert sweeps.run_task(known).values["jobs"] == 1


def test_a_module_that_was_edited_and_reloaded_is_run_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: the same process makes both sweeps."""
    module = tmp_path / "own_edited.py"
    module.write_text("def late(jobs):\n    return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_edited  # type: ignore[import-not-found]

    found = []
    for text in ("1.0", "22.0"):
        module.write_text(f"def late(jobs):\n    return {text}\n")
        importlib.reload(own_edited)
        own = lab.Experiment(
            grid=BASE.grid, workload=BASE.workload, metrics={"late": own_edited.late}
        )
        (task,) = sweeps.work_of(sweeps.points_of(own, [{}]), [1]).items
        found.append(sweeps.run_task(task).values["late"])
    assert found == [1.0, 22.0]


def test_a_module_that_only_this_machine_has_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_metric.py").write_text("def late(jobs):\n    return 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_metric  # type: ignore[import-not-found]

    base = lab.Experiment(grid=BASE.grid, workload=BASE.workload, metrics={"late": own_metric.late})
    (task,) = sweeps.work_of(sweeps.points_of(base, [{}]), [1]).items
    monkeypatch.undo()
    del sys.modules["own_metric"]
    sweeps._loaded.cache_clear()
    with pytest.raises(
        ConfigError, match=r"lacks a module of your own: No module named .own_metric"
    ):
        sweeps.run_task(task)
