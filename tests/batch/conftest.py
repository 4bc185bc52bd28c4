"""One set of real batch systems for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.batch.systems import System, grid_engine_cells, slurm_clusters

PACKAGES = {
    "slurm": ("/usr/sbin/slurmctld", "slurm-wlm"),
    "gridengine": ("/usr/sbin/sge_qmaster", "gridengine-master gridengine-exec"),
}


def need(kind: str) -> None:
    path, packages = PACKAGES[kind]
    program = Path(path).name
    if not Path(path).exists() and shutil.which(program) is None:
        raise SkipTest(f"{program} is not installed (Debian: apt install {packages})")
    if kind == "gridengine" and os.geteuid() != 0:
        raise SkipTest("Grid Engine's execution daemon sets user ids: its tests need root")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, System]]:
    """alpha (2 nodes of 8) and beta (2 nodes of 16)."""
    need("slurm")
    folder = tmp_path_factory.mktemp("slurm")
    with slurm_clusters(folder, "alpha:2x8 beta:2x16") as systems:
        yield systems


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, System]]:
    """gamma, one cell of 16 slots."""
    need("gridengine")
    folder = tmp_path_factory.mktemp("cell")
    with grid_engine_cells(folder, "gamma:1x16") as systems:
        yield systems


@pytest.fixture(scope="session")
def wide_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, System]]:
    """delta, a cell in which a job of more than 4 slots has two machines."""
    need("gridengine")
    folder = tmp_path_factory.mktemp("wide")
    with grid_engine_cells(folder, "delta:2x4", first_group=66_000) as systems:
        yield systems


@pytest.fixture(params=["slurm", "gridengine"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One of each kind, 16 processors; empty before and after each test."""
    if request.param == "slurm":
        system: System = request.getfixturevalue("slurm")["alpha"]
    else:
        system = request.getfixturevalue("cell")["gamma"]
    yield system
    system.clear()
