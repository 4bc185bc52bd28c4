"""Modules that share something expensive are run by one worker."""

from __future__ import annotations

import os
import re

import pytest

from tests.harness.workers import TESTS, TOGETHER, collected_from
from tests.tidy.sources import ROOT

SHARED = re.compile(r'scope="(module|session)"')


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


def test_each_worker_begins_elsewhere_and_collects_all() -> None:
    orders = [collected_from([str(TESTS)], number, 4) for number in range(4)]
    assert len({order[0] for order in orders}) == 4
    assert {frozenset(order) for order in orders} == {frozenset(orders[0])}
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert set(orders[0]) == {str(TESTS / name) for name in folders}
    assert collected_from(["tests/core"], 1, 4) == ["tests/core"]


def test_a_worker_that_replaces_a_crashed_one_collects_all_too() -> None:
    """pytest-xdist counts on: of four workers the first that is replaced becomes number 4."""
    assert collected_from([str(TESTS)], 4, 4) == collected_from([str(TESTS)], 0, 4)


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
