"""An agent probes its gate by itself, and leaves no job of it behind when it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from koala.client import AsyncClient
from koala_agent.lrm.gate_probe_result import FILE_NAME
from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.harness.moments import moment, until
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.slow]

SITE = "zeta"
LONG_S = 280.0
TEST_S = 2 * LONG_S + 60.0


@pytest.fixture(scope="module")
def grid(
    tmp_path_factory: pytest.TempPathFactory, slurm_by_age: dict[str, System]
) -> Iterator[Grid]:
    """Daemon and agent in front of a cluster where age counts."""
    folder = tmp_path_factory.mktemp("probe")
    with grid_over(folder, slurm_by_age) as grid:
        yield grid


@pytest.fixture
async def probing(grid: Grid) -> None:
    """The agent anew, which has probed nothing and is to do it."""
    config = grid.config(SITE)
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("gate_probe = false\n", ""), encoding="utf-8")
    grid.terminate(SITE)
    for trial in config.parent.rglob(FILE_NAME):
        trial.unlink()
    grid.start(SITE)


@pytest.mark.usefixtures("probing")
async def test_a_gate_is_probed_once_by_itself(
    client: AsyncClient, slurm_by_age: dict[str, System]
) -> None:
    kept = f"keeps the place: tried {datetime.now(UTC):%Y-%m-%d}"
    said: list[str] = []
    async with asyncio.timeout(LONG_S):
        while kept not in said:
            (site,) = [one for one in await client.sites() if one.site == SITE]
            if site.gate_tried not in ("", *said[-1:]):
                said.append(site.gate_tried)
            await moment()
    assert said[-3].startswith("not probed yet: the agent does it")
    assert said[-2].startswith("probing since ")
    assert slurm_by_age[SITE].numbers("koala-") == []


@pytest.mark.usefixtures("probing")
async def test_a_killed_probe_leaves_no_job(grid: Grid, slurm_by_age: dict[str, System]) -> None:
    system = slurm_by_age[SITE]
    await until(lambda: len(system.numbers("koala-")) == 2, LONG_S)
    grid.kill(SITE)
    grid.start(SITE)
    await until(lambda: system.numbers("koala-") == [], LONG_S)
