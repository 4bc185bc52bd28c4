"""Fixtures of the tests of local managers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from koala_agent.conformance.witness import Witness
from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from tests.lrm.harness import Ask, Serve, asking, boot_clock, serving


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Runs an emulated site of 8 processors around a block; at its end all its jobs are killed
    unless the block asks for something else."""

    @asynccontextmanager
    async def run(
        *, kill: bool = True, **options: object
    ) -> AsyncIterator[tuple[EmulatedLocalManager, Witness]]:
        settings = EmulatedSettings(
            **{  # type: ignore[arg-type]
                "processors": 8,
                "state_directory": tmp_path / "state",
                "kill_s": 0.2,
                "sample_s": 0.1,
                **options,
            }
        )
        witness = Witness()
        manager = EmulatedLocalManager(settings, on_report=witness, clock=boot_clock)
        async with serving(manager, kill=kill):
            yield manager, witness

    return run


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    return asking(tmp_path, limit_s=1000.0)
