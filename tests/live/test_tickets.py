"""Jobs over busy sites on a grid of real processes: their claims wait in the local queues, are
gated and opened, and come up together, whatever is killed meanwhile.

Local users have each busy site for good. They are gone when its agent is started again without
them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from tests.harness.moments import moment
from tests.live.grid import CALM, Grid, live_grid

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]

PROCESSORS = 4
HOLD_S = 120.0
"""Longest hold of what came up first: no busy machine outlasts it."""
CROWDS = {
    site: f"""
[load]
arrivals_per_hour = 36000
run_mean_s = {run_s}
run_max_s = 1e12
size_min = {PROCESSORS}
size_max = {PROCESSORS}
waiting_max = 2
"""
    for site, run_s in (("delft", 1e5), ("leiden", 1e9))
}
"""Local users who fill a site and stay, and a short queue of others. Those of Leiden stay longer by
far."""
SHORT = """
[load]
arrivals_per_hour = 36000
run_mean_s = 2.0
run_max_s = 10.0
size_min = 4
size_max = 4
waiting_max = 30
"""
"""Local users with short jobs and a long queue."""
GATED = "gated, with its place kept"
PARAMETERS: dict[str, Any] = {
    **CALM,
    "ticket_plan_s": 1.0,
    "ticket_slack_s": 1.0,
    "ticket_hold_min_s": 0.1,
    "ticket_hold_max_s": HOLD_S,
    "hold_s": HOLD_S,
}


@asynccontextmanager
async def queued_pair(
    folder: Path, *busy: str, tickets: str, crowd: str = "", **parameters: float
) -> AsyncIterator[tuple[Grid, AsyncClient, str]]:
    """A grid with crowds at some of its two sites, and a job in the queues of both."""
    policies = f'[policies]\ntickets = "{tickets}"\n'
    with live_grid(
        folder,
        sites={"delft": PROCESSORS, "leiden": PROCESSORS},
        parameters={**PARAMETERS, **parameters},
        more={"daemon": policies, **{site: crowd or CROWDS[site] for site in busy}},
    ) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            for site in busy:
                await grid.crowded(client, site)
            evidence = grid.evidence
            limit = "(maxWallTime=60)"  # or nothing could be expected behind a part that is open
            parts = [evidence.component(site=site, count=2, more=limit) for site in grid.sites]
            job = (await client.submit(evidence.job(*parts))).job
            await grid.phase(client, job, "Queued")
            yield grid, client, job


async def why(client: AsyncClient, job: str, *wanted: str) -> None:
    """Wait until `koala why` says each of these of a job."""
    while True:
        said = "\n".join((await client.why(job))["why"])
        if all(words in said for words in wanted):
            return
        await moment()


async def told_everywhere(client: AsyncClient, job: str) -> None:
    """Lists, details and a dry run say the same of a job whose component at Leiden waits."""
    (listed,) = await client.list_jobs(jobs=[job])
    assert listed.reason.startswith("leiden: start about ")
    assert listed.reason.endswith("; delft holds 2")
    shown = await client.show(job)
    assert shown.expected is not None
    assert (shown.expected.component, shown.expected.is_place_kept) == ("leiden", True)
    assert shown.parts[1].waits[0].source == "queue run forward"
    assert "holds 2 processors at delft" in shown.parts[0].wait
    later = "&(executable=/bin/true)(count=4)(resourceManagerContact=leiden)"
    dry = await client.submit(later, dry_run=True)
    assert "component leiden is last" in dry.expected
    soon = f'+{later.replace("&", "(&")})(deadline="+2")'
    assert any("too early" in one for one in (await client.submit(soon, dry_run=True)).warnings)


def leave(grid: Grid, site: str) -> None:
    """Let the local users of a site go: its agent is killed and comes back without them."""
    grid.kill(site)
    grid.config(site).write_text(grid.agent_toml(site, PROCESSORS).replace(CROWDS[site], ""))
    grid.start(site)


async def comes_up(grid: Grid, client: AsyncClient, job: str) -> list[float]:
    """The job Finishes in its first attempt; the instants at which its parts passed."""
    assert await client.wait(job) == "Finished", await client.show(job)
    await grid.at_rest(client)
    assert grid.evidence.finished(job, processes=4) == 1
    shown = await client.show(job)
    assert shown["attempts"] == 1
    passed = [part["passed_at"] for part in shown["parts"]]
    assert max(passed) - min(passed) < PARAMETERS["late_max_s"]
    return passed


async def test_gated_claims_keep_their_places_over_kills_and_start_together(tmp_path: Path) -> None:
    """Delft would start first, by far: its claim is gated, and stays so while nothing else is in
    its way."""
    async with queued_pair(tmp_path, "delft", "leiden", tickets="dodge") as (grid, client, job):
        await why(client, job, "component leiden: queued at leiden", "estimated start in")
        grid.kill("daemon")
        grid.start("daemon")
        await grid.ready(client)
        await why(client, job, "component leiden: queued at leiden", "estimated start in")
        leave(grid, "delft")
        await grid.ready(client)
        await why(client, job, "component delft: queued at delft", GATED)
        await grid.idle(client, PROCESSORS)
        grid.kill("delft", "daemon")
        grid.start()
        await grid.ready(client)
        await grid.idle(client, PROCESSORS)
        assert not grid.starters()
        await why(client, job, GATED)
        leave(grid, "leiden")
        await comes_up(grid, client, job)


async def test_what_came_up_first_holds_over_kills_until_the_other_comes_up(tmp_path: Path) -> None:
    async with queued_pair(tmp_path, "leiden", tickets="turns") as (grid, client, job):
        holds = "component delft: holds 2 processors at delft"
        await why(client, job, holds, "component leiden: queued at leiden")
        await told_everywhere(client, job)
        held = grid.starters(f"{job}/")
        assert len(held) == 1
        for name in ("daemon", "delft"):
            grid.kill(name)
            grid.start(name)
            await grid.ready(client)
            await why(client, job, holds)
            assert grid.starters(f"{job}/") == held
        leave(grid, "leiden")
        await comes_up(grid, client, job)


async def test_what_came_up_too_early_is_given_back_and_gated(tmp_path: Path) -> None:
    """Then its site is idle, and its next claim starts when the other part holds."""
    short: dict[str, Any] = {"ticket_hold_max_s": 4.0}
    async with queued_pair(tmp_path, "leiden", tickets="turns", **short) as (grid, client, job):
        await why(client, job, "component delft: queued at delft", GATED)
        story = [text for _, text in (await client.show(job))["story"]]
        assert any("component delft gives back 2 processors at delft" in text for text in story)
        await grid.nothing_left(f"{job}/")
        await grid.idle(client, PROCESSORS)
        await why(client, job, GATED)
        leave(grid, "leiden")
        await comes_up(grid, client, job)


async def test_a_job_in_two_queues_goes_where_processors_become_idle(tmp_path: Path) -> None:
    """Each part waits at both sites. Delft, which could take the whole job, becomes idle."""
    policies = '[policies]\ntickets = "dodge"\n'
    with live_grid(
        tmp_path,
        sites={"delft": PROCESSORS, "leiden": PROCESSORS},
        parameters={**PARAMETERS, "redundancy_share_max": 1.0},
        more={"daemon": policies, **CROWDS},
    ) as grid:
        async with grid.client() as client:
            await grid.ready(client)
            for site in grid.sites:
                await grid.crowded(client, site)
            parts = [grid.evidence.component(count=2) for _ in range(2)]
            text = grid.evidence.job(*parts, more="(redundancy=2)")
            job = (await client.submit(text)).job
            await grid.phase(client, job, "Queued")
            await why(client, job, "also queued at")
            leave(grid, "delft")
            assert await client.wait(job) == "Finished", await client.show(job)
            await grid.at_rest(client)
            grid.evidence.finished(job, processes=4)
            shown = await client.show(job)
            assert {part["site"] for part in shown["parts"]} == {"delft"}


async def test_busy_sites_are_booked_for_a_common_start_over_a_kill(tmp_path: Path) -> None:
    """Both are full of short jobs, and book for the first instant that both accept."""
    sites = ("delft", "leiden")
    short: dict[str, Any] = {"ticket_hold_max_s": 8.0}
    async with queued_pair(tmp_path, *sites, tickets="book", crowd=SHORT, **short) as (
        grid,
        client,
        job,
    ):
        await why(client, job, "begins in")
        grid.kill("delft", "daemon")
        grid.start()
        await grid.ready(client)
        await comes_up(grid, client, job)
        story = " ".join(text for _, text in (await client.show(job))["story"])
        assert "books delft, to begin in" in story
        assert "books leiden, to begin in" in story
