"""The grid that the tests which kill nothing share, and what each of them begins and ends with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from koala.client import TERMINAL_PHASES, AsyncClient
from tests.harness.limits import limit
from tests.harness.workers import group_of
from tests.live.grid import CALM, Grid, live_grid

FOUR = {"delft": 8, "leiden": 8, "vu": 8, "utrecht": 8}
INPUT = bytes(range(256)) * 4096
"""A megabyte, whose chunks of a quarter all look the same from their beginning."""
INPUT_FILE = "input.dat"
SLOW_FILE = "slow.dat"
"""Takes four seconds to anywhere: its site sends no faster."""
SLOW_BPS = 2_000_000.0
TEST_S = 180.0
"""No test of this folder takes longer, unless its module has such a limit of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder its time limit."""
    limit(items, Path(__file__).parent, TEST_S)


_running = ExitStack()
"""Ends the calm grid."""
_calm_grids: list[Grid] = []
"""The calm grid, while it runs."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """End the calm grid after the last test of the modules that share it: five idle processes for
    the rest of a run take longer than a second start."""
    try:
        yield
    finally:
        if nextitem is None or group_of(nextitem.nodeid) != group_of(item.nodeid):
            _calm_grids.clear()
            _running.close()


@pytest.fixture
def calm_grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Four sites of eight processors; delft and leiden have the input file. The modules of the
    group "calm grid" share it."""
    if not _calm_grids:
        replicas = {
            INPUT_FILE: (INPUT, ("delft", "leiden")),
            SLOW_FILE: (b"\0" * 8_000_000, ("utrecht",)),
        }
        grid = live_grid(
            tmp_path_factory.mktemp("calm"),
            sites=FOUR,
            parameters={**CALM, "bandwidth_default_bps": SLOW_BPS},
            replicas=replicas,
            gpus={"delft": 3},
            more={"utrecht": f"rate = {SLOW_BPS}\n"},
        )
        _calm_grids.append(_running.enter_context(grid))
    return _calm_grids[0]


@pytest.fixture
def grid(calm_grid: Grid) -> Grid:
    """The grid of a module that has none of its own."""
    return calm_grid


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    """A client of the module's grid, which has come to rest before the test and after it."""
    async with client_of(grid) as client:
        yield client
    grid.check()


@asynccontextmanager
async def client_of(grid: Grid) -> AsyncIterator[AsyncClient]:
    """A client of a grid that several tests share: all of it runs before each of them, and nothing
    of what a test that failed has left takes the room of the next one."""
    grid.start()
    async with grid.client() as client:
        await grid.ready(client)
        yield client
        over = {job["job"] for job in await client.list_jobs(phases=TERMINAL_PHASES)}
        left = [job["job"] for job in await client.list_jobs() if job["job"] not in over]
        for job in left:  # what a test that failed waited for
            print(await client.why(job), (await client.show(job))["story"], sep="\n")
        await client.cancel(left)
        await grid.at_rest(client)
