"""The swarm finds what is broken on purpose, within the seeds of the default run."""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS, found_by
from tests.sim.test_swarm import SEEDS


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_swarm_finds_a_core_with(name: str) -> None:
    assert found_by(name, SEEDS) is not None, f"{name} survives {SEEDS} seeds"
