"""Frames of HTTP/2 without an end: others are served meanwhile."""

import asyncio
from pathlib import Path

import pytest

from tests.identity.flooding import FLOODS, any_server, attacker
from tests.identity.stage import LIMIT_S, secured

CALLS = 20

pytestmark = pytest.mark.live


@pytest.mark.parametrize("shape", FLOODS)
async def test_others_are_served_during_a_strangers_flood(tmp_path: Path, shape: str) -> None:
    kind, stream, size = FLOODS[shape]
    async with (
        asyncio.timeout(LIMIT_S),
        secured(tmp_path) as grid,
        attacker(grid.address, any_server()) as stranger,
    ):
        if stream:
            stranger.begin()
        async with asyncio.TaskGroup() as group:
            flood = group.create_task(stranger.flood(kind, stream, size))
            for _ in range(CALLS):
                async with grid.client() as client:
                    await client.sites()
            flood.cancel()
