"""The model behind the pages: what it asks the daemon for, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.client.grid_model import QUIET, GridModel
from koala.common.runtime import clock
from tests.bench.crowd import pause
from tests.daemon.running import ONE, config_of, running

LIMIT_S = 90.0
SLOW_S = 1.0


class SlowList(AsyncClient):
    """A client that takes long to read the whole list, as that of 100,000 jobs does."""

    async def list_jobs(self, *arguments: Any, **options: Any) -> Any:
        """List jobs; all of them come late."""
        if not options.get("jobs"):
            await pause(SLOW_S)
        return await super().list_jobs(*arguments, **options)


@pytest.mark.live
async def test_a_long_list_delays_no_change_that_comes_after_it(tmp_path: Path) -> None:
    async with (
        running(config_of(tmp_path)) as daemon,
        SlowList(daemon.address) as client,
        asyncio.timeout(LIMIT_S),
        asyncio.TaskGroup() as group,
    ):
        model = GridModel(client, refused=lambda: None)
        following = group.create_task(model.run())
        await model.is_loaded.wait()
        loaded_s, serial = clock.now(), model.cursor(None)
        assert serial is not None
        job = (await client.submit(ONE)).job
        async for change in model.changes(serial):
            if any(one["job"] == job for one in change.jobs):
                break
        assert clock.now() - loaded_s < QUIET * SLOW_S, "it waited for the next whole list"
        following.cancel()
