"""Jobs with a required start on a grid of real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

GRACE_S = 4.0
GRACES = 2.0
"""Before its deadline, in which a job is claimed: a busy machine takes some seconds for a start."""
PARAMETERS: dict[str, Any] = {
    **CALM,
    "at_deadline": "kill",
    "lead_max_s": 1.0,
    "late_max_s": 8.0,  # of a machine that is busy with other tests
    "wait_graces": GRACES,
}
CROWD = """
[load]
arrivals_per_hour = 36000
run_mean_s = 1e6
run_max_s = 1e9
size_min = 2
size_max = 2
"""
"""Local users who fill a site and stay."""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    """Two sites that nobody else uses, and two full ones, of which one allows kills."""
    with live_grid(
        Path(tmp_path_factory.mktemp("grid")),
        sites={"delft": 4, "leiden": 4, "open": 8, "shut": 8},
        parameters=PARAMETERS,
        grace_s=GRACE_S,
        more={"open": f"[lrm]\nmay_kill_local = true\n{CROWD}", "shut": CROWD},
    ) as grid:
        yield grid


async def test_a_job_starts_at_its_deadline_on_all_its_sites(
    grid: Grid, client: AsyncClient
) -> None:
    evidence = grid.evidence
    parts = [evidence.component(site=site, count=2) for site in ("delft", "leiden")]
    job = (await client.submit(evidence.job(*parts, more='(deadline="+0.2")'))).job
    assert await client.wait(job) == "Finished", await client.show(job)
    shown = await client.show(job)
    deadline_at = shown["deadline"]["deadline_at"]
    assert deadline_at == pytest.approx(shown["submitted_at"] + 12.0, abs=1e-5)
    for part in shown["parts"]:
        assert deadline_at - GRACES * GRACE_S <= part["claimed_at"]
        assert deadline_at <= part["passed_at"] <= deadline_at + PARAMETERS["late_max_s"]
    assert shown["timeline"]["start_lateness_s"] >= 0
    assert evidence.finished(job, processes=4) == 1


async def test_local_jobs_are_killed_for_it_where_that_is_allowed(
    grid: Grid, client: AsyncClient
) -> None:
    """Two jobs of two processors make room for three."""
    evidence = grid.evidence
    part = evidence.component(site="open", count=3)
    site = await grid.crowded(client, "open")
    assert site["may_kill_local"]
    job = (await client.submit(evidence.job(part, more='(deadline="+0.05")'))).job
    assert await client.wait(job) == "Finished", await client.show(job)
    shown = await client.show(job)
    assert shown["parts"][0]["passed_at"] >= shown["deadline"]["deadline_at"]
    assert grid.log("open").count("local_job.killed") == 2
