"""A manager in front of an imitated Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.local_manager import Placeholder
from tests.lrm.batch.imitated_slurm import CLAIM, MISSING_S, UNRECORDED_S, Cluster, Serve
from tests.lrm.harness import serving

SLURM = Slurm()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def serve(cluster: Cluster, tmp_path: Path) -> Serve:
    @asynccontextmanager
    async def run(dialect: Dialect = SLURM) -> AsyncIterator[tuple[BatchManager, Witness]]:
        settings = BatchSettings(
            processors=16,
            state_directory=tmp_path / "state",
            scope="ab",
            poll_s=0.01,
            figures_s=0.01,
            missing_s=MISSING_S,
            unrecorded_s=UNRECORDED_S,
        )
        witness = Witness()
        manager = BatchManager(settings, dialect, cluster, on_report=witness, clock=cluster.clock)
        async with serving(manager):
            yield manager, witness

    return run


@pytest.fixture
def placeholder(tmp_path: Path) -> Placeholder:
    return Placeholder(
        claim=CLAIM, processors=4, time_limit_s=60.0, argv=("true",), directory=tmp_path / "w"
    )
