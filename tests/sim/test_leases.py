"""The live daemon's own lease keeper, in simulated time, under the oracle: it never fences a claim
of which something lives, and never waits for one that is certainly dead.
"""

from __future__ import annotations

import pytest

from koala.daemon.leases import Leases
from tests.sim.scenario import Run, draw


@pytest.mark.parametrize("first", [100_000, 100_020, 100_040])
def test_the_daemons_leases_keep_all_promises(first: int) -> None:
    for seed in range(first, first + 20):
        Run(draw(seed), keeper=Leases).play()
