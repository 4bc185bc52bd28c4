"""One short contract at each site of the fleet, through a daemon and its agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from koala.client import AsyncClient
from koala.errors import RejectedError
from tests.batch.conftest import need
from tests.batch.fleet.profiles import CASES, SITE, Case, Wish
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import check_one_start, ended_well
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System, open_folder
from tests.harness.moments import moment, until
from tests.live.grid import Grid

pytestmark = [pytest.mark.lrm, pytest.mark.fleet]

NOTHING = Wish()
BESIDE = "emu"
"""An emulated site, for the other half of pairs."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, marks=pytest.mark.slow if case.is_long else (), id=case.profile)
        for case in CASES
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    """A site and its rules."""
    chosen: Case = request.param
    return chosen


@pytest.fixture(scope="module")
def system(case: Case) -> Iterator[System]:
    """Four nodes of 8 processors, or a cell of 16 slots."""
    need(case.kind)
    if "accounting" in case.profile:
        need("database")
    with open_folder() as folder:  # others have jobs there
        if case.kind == "slurm":
            site = slurm_clusters(folder, f"{SITE}:4x8", profile=case.profile)
        else:  # another cell may be up
            site = grid_engine_cells(
                folder, f"{SITE}:1x16", profile=case.profile, first_group=69_000
            )
        with site as systems:
            yield systems[SITE]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, system: System) -> Iterator[Grid]:
    """Daemon and agents in front of the site, and of another one."""
    folder = tmp_path_factory.mktemp("fleet")
    with grid_over(folder, {SITE: system}, grace_s=120.0, beside={BESIDE: 8}) as grid:
        yield grid


def component(grid: Grid, case: Case, wish: Wish = NOTHING, gate: str = "-") -> str:
    """Return the RSL of a component at the site, which ends with its gate if it has one."""
    more = wish.more + ("" if wish in case.never else case.usual)
    return grid.evidence.component(
        site=SITE, count=wish.count, more=more, gate=gate, seconds=0.1 if gate == "-" else 600
    )


async def submitted(grid: Grid, client: AsyncClient, *components: str) -> str:
    return (await client.submit(grid.evidence.job(*components))).job


async def all_idle(grid: Grid, client: AsyncClient, case: Case) -> None:
    """Wait until the site says that it has what is idle without our jobs."""
    found = -1
    try:
        async with asyncio.timeout(grid.patience_s):
            while found != case.idle:
                found = next(s["idle"] for s in await client.sites() if s["site"] == SITE)
                await moment()
    except TimeoutError:
        raise AssertionError((found, case.idle)) from None


async def told(grid: Grid, client: AsyncClient, job: str, words: str) -> None:
    """Wait until `koala why` has these words."""
    lines: tuple[str, ...] = ()
    try:
        async with asyncio.timeout(grid.patience_s):
            while not any(words in line for line in lines):
                lines = (await client.why(job))["why"]
                await moment()
    except TimeoutError:
        raise AssertionError((words, lines)) from None


async def test_a_job_runs_a_pair_starts_at_one_moment_and_all_is_given_back(
    grid: Grid, client: AsyncClient, case: Case
) -> None:
    await all_idle(grid, client, case)
    there = grid.evidence.component(site=BESIDE)
    alone = await submitted(grid, client, component(grid, case))
    pair = await submitted(grid, client, component(grid, case), there)
    await ended_well(client, alone)
    check_one_start(await ended_well(client, pair))
    await all_idle(grid, client, case)


async def test_what_the_site_can_never_take_is_refused_in_words(
    grid: Grid, client: AsyncClient, case: Case, system: System
) -> None:
    before = len(grid.evidence.lines())
    for wish in case.never:
        try:
            job = await submitted(grid, client, component(grid, case, wish))
        except RejectedError as error:
            assert wish.words in str(error)  # noqa: PT017 - others are taken
            continue
        await told(grid, client, job, wish.words)
        await until(lambda: system.numbers("koala-") == [])
        await client.cancel([job])
    assert len(grid.evidence.lines()) == before


async def test_what_waits_for_a_limit_tells_the_reason_of_the_batch_system(
    grid: Grid, client: AsyncClient, case: Case, system: System
) -> None:
    jobs = []
    try:
        if case.first is not None:
            jobs.append(await submitted(grid, client, component(grid, case, case.first, "first")))
            await grid.phase(client, jobs[0], "Running")
        for late in case.late:
            jobs.append(await submitted(grid, client, component(grid, case, late)))
            await told(grid, client, jobs[-1], late.words)
    finally:
        await client.cancel(jobs)
    assert {await client.wait(job) for job in jobs} <= {"Cancelled"}
    await until(lambda: system.numbers("koala-") == [])
    await all_idle(grid, client, case)


async def test_faults_of_agent_and_controller_lose_and_repeat_nothing(
    grid: Grid, client: AsyncClient, case: Case, system: System
) -> None:
    """A job runs, another one is submitted while nobody answers for it."""
    runs = await submitted(grid, client, component(grid, case, gate="faults"))
    await grid.phase(client, runs, "Running")
    await until(system.has_saved)
    with system.controller_away():
        grid.kill(SITE)
        comes = await submitted(grid, client, component(grid, case))
        grid.start()
        await until(lambda: "gave no answer" in grid.log(SITE))
    await asyncio.to_thread(system.restart_controller)
    await ended_well(client, comes)
    grid.evidence.open_gate("faults")
    assert (await ended_well(client, runs))["attempts"] == 1
    assert grid.evidence.finished(runs, processes=1) == 1
    assert grid.evidence.finished(comes, processes=1) >= 1
