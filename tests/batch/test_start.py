"""The start of an agent in front of real batch systems, with the settings that it has by default:
what it asks before its site is registered. Its pauses follow from the number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala_agent.lrm.batch_system import find_system
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import job, running
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

MORE = ("qhost", "oarnodes", "condor_status", "condor_config_val", "condor_qedit")
ASKS_MAX = 10
"""Of 12 in a minute: some must be left for the first job."""


@pytest.fixture
def watched(system: System, tmp_path: Path) -> System:
    return system.watched(tmp_path / "shim", *find_system(system.kind).programs, *MORE)


@pytest.fixture
def grid(tmp_path: Path, watched: System) -> Iterator[Grid]:
    with grid_over(tmp_path / "grid", {watched.name: watched}) as grid:
        yield grid


def lines(grid: Grid, site: str, event: str) -> list[dict[str, object]]:
    """Return the lines of an event in the log of an agent, of all its lives."""
    rows = [json.loads(line) for line in grid.log(site).splitlines() if line.startswith("{")]
    return [row for row in rows if row["event"] == event]


async def asked(grid: Grid, watched: System, *, life: int) -> list[str]:
    """Return the commands of a life of the agent until it was welcomed. It has reconciled its
    claims before that."""
    marks = ("agent.started", "claims.reconciled", "link.welcomed")
    await until(lambda: len(lines(grid, watched.name, marks[-1])) == life)
    began, reconciled, welcomed = (
        datetime.fromisoformat(str(lines(grid, watched.name, mark)[-1]["timestamp"])).timestamp()
        for mark in marks
    )
    assert began < reconciled < welcomed
    return [words for at, words in watched.calls() if began <= at <= welcomed]


async def test_an_agent_that_starts_asks_each_question_once(
    grid: Grid, client: AsyncClient, watched: System
) -> None:
    """Also one that finds a claim of its earlier life."""
    assert [site["idle"] for site in await client.sites()] == [watched.processors]
    first = await asked(grid, watched, life=1)
    assert len(set(first)) == len(first) <= ASKS_MAX, first
    name = await running(grid, client, job("sleep 600", watched.name, count=1))
    grid.terminate(watched.name)
    grid.start(watched.name)
    again = await asked(grid, watched, life=2)
    assert len(set(again)) == len(again) <= ASKS_MAX, again
    reconciled = lines(grid, watched.name, "claims.reconciled")[-1]
    assert (reconciled["restored"], reconciled["listed"]) == (1, 1)
    await grid.phase(client, name, "Running")
    await client.cancel(name)
