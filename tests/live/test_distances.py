"""Placement by communication, of real agents, one of which is far away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness.moments import moment
from tests.live.grid import CALM, started
from tests.live.proxied import ProxiedGrid, proxied

pytestmark = [pytest.mark.live, pytest.mark.slow]

SITES = {"near": 2, "beside": 2, "far": 3}
DELAY_S = 0.1


class DistantGrid(ProxiedGrid):
    """Its daemon places by communication."""

    def daemon_toml(self) -> str:
        """See ProxiedGrid."""
        return super().daemon_toml() + '[policies]\nplacement = "communication"\n'


async def test_a_total_is_split_over_the_sites_that_are_close(tmp_path: Path) -> None:
    """The one far away has most processors: whoever looks at these alone takes it."""
    grid = DistantGrid(tmp_path, sites=SITES, parameters=CALM, silence_s=20.0)
    async with proxied(grid) as proxy:
        with started(grid):
            async with grid.client() as client:
                proxy.slow("far.link", DELAY_S)
                await grid.ready(client)
                async with asyncio.timeout(grid.patience_s):
                    while {s.site: s.rtt_s or 0.0 for s in await client.sites()}["far"] < DELAY_S:
                        await moment()
                job = await client.submit("&(executable=/bin/true)(totalCount=4)")
                assert await job.wait() == "Finished"
                shown = await job.show()
                assert {part.site for part in shown.parts} == {"near", "beside"}
                await grid.at_rest(client)
