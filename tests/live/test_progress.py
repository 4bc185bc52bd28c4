"""Synchronous queuing with real processes: measured, slowed down, and never left stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from tests.harness.moments import moment, until
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

TELL = """import os, sys, time
for done in range(1, 10000):
    with open(os.environ["KOALA_PROGRESS"], "w") as file:
        file.write(str(done * float(sys.argv[1])))
    time.sleep(0.02)"""
"""Says that it has done so much in each fiftieth of a second, and uses next to nothing."""

POINTS = 20
"""Samples of the skew, four a second."""
KEPT = 4.0
"""Limit of the mean skew after so many points, which comes to 45 without corrections."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    folder = tmp_path_factory.mktemp("progress")
    # Programs that are to end have time to say that they heard it.
    parameters = {**CALM, "kill_s": 10.0}
    with live_grid(folder, sites={"near": 2, "far": 2}, parameters=parameters) as grid:
        yield grid


def job(program: str, *arguments: str, more: str) -> str:
    """The same program at both sites, with these arguments."""
    text = program.replace('"', '""')
    parts = "".join(
        f'(&(executable={sys.executable})(arguments=-c "{text}" {words})(label={site})'
        f"(resourceManagerContact={site}))"
        for site, words in zip(("near", "far"), arguments, strict=True)
    )
    return f"+{more}{parts}"


async def slowed(client: AsyncClient, job_id: str, label: str, *, share: float) -> dict[str, Any]:
    """Return the job's progress when this component was slowed down to less than this share of its
    time. It is not for ever: on a busy machine it may fall behind."""
    return await seen(client, job_id, lambda found: found["shares"].get(label, 1.0) < share)


async def seen(
    client: AsyncClient, job_id: str, is_it: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The job's progress as soon as it is like that."""
    while True:
        found = (await client.show(job_id))["progress"]
        if found is not None and is_it(found):
            return dict(found)
        await moment(0.1)


def told_file(pid: int) -> Path:
    """Return the file into which a program of one process writes its progress."""
    return Path(f"/proc/{pid}/cwd").readlink() / ".koala" / "progress.0"


async def test_components_of_unequal_speed_are_kept_together(
    grid: Grid, client: AsyncClient
) -> None:
    """One of them tells ten times as much as the other: without control their skew would grow by up
    to nine a second."""
    submitted = await client.submit(job(TELL, "0.02", "0.2", more="(progress=sq)(asynchrony=0.1)"))
    told = await seen(
        client, submitted.job, lambda said: said["corrections"] > 0 and len(said["skews"]) >= POINTS
    )
    last = [skew for _, skew in told["skews"]][-8:]
    assert sum(last) / len(last) < KEPT, told
    await client.cancel([submitted.job])
    await grid.at_rest(client)


async def test_nothing_stays_stopped_when_its_agent_or_the_daemon_is_killed(
    grid: Grid, client: AsyncClient
) -> None:
    """The starter stops and continues its program, so that nobody else is needed for it."""
    submitted = await client.submit(job(TELL, "0.02", "0.2", more="(progress=sq)(asynchrony=0.1)"))
    told = await slowed(client, submitted.job, "far", share=0.5)
    programs = grid.programs(submitted.job)
    (held,) = [pid for pid, claim in programs.items() if claim.split("/")[2] == "1"]
    file = told_file(held)
    grid.kill("far", "daemon")
    before = float(file.read_text() or 0)
    await until(lambda: float(file.read_text() or 0) > before + 1)
    grid.start()
    await grid.ready(client)
    again = (await client.show(submitted.job))["progress"]
    assert again["corrections"] >= told["corrections"], "what was corrected is durable"
    await client.cancel([submitted.job])
    await grid.at_rest(client)
