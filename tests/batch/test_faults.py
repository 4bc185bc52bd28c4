"""Faults of real batch systems under co-allocated jobs, and one job that takes another's place."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from tests.batch.systems.grids import SLOW_FILE, grid_over
from tests.batch.systems.jobs import ESCAPE, alive, ended_well, job, running
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.live.grid import Grid
from tests.live.test_jobs import submitted

pytestmark = pytest.mark.lrm

FILE = "field.dat"


@pytest.fixture(scope="module")
def systems(slurm: dict[str, System], cell: dict[str, System]) -> dict[str, System]:
    """alpha, beta and gamma."""
    return {**slurm, **cell}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory, systems: dict[str, System]) -> Iterator[Grid]:
    """Daemon and agents in front of them; alpha has a file that takes long to the others."""
    # A long grace: what is preempted takes its time on a busy machine.
    folder = tmp_path_factory.mktemp("faults")
    with grid_over(folder, systems, stored={FILE: SLOW_FILE}, grace_s=30.0) as grid:
        yield grid


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Path]:
    """Kill what has written its id there, which is what escapes, after the test."""
    path = tmp_path / "ear"
    yield path
    for pid in alive(path):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("way", ["end", "cancel", "foreign"])
async def test_no_daemon_escapes_from_a_batch_job(
    grid: Grid,
    client: AsyncClient,
    systems: dict[str, System],
    ear: Path,
    tmp_path: Path,
    way: str,
) -> None:
    """Processes that leave a batch system's sight by setsid and a second fork die with their claim,
    whether the program ends, the job is cancelled, or the site's people end the batch jobs."""
    end = tmp_path / "end"
    program = ESCAPE.format(ear=ear) + f"; while ! test -e {end}; do sleep 0.1; done"
    name = await running(grid, client, job(program, *systems))
    await until(lambda: len(alive(ear)) == 3)
    match way:
        case "end":
            end.touch()
            await ended_well(client, name)
        case "cancel":
            await client.cancel([name])
            assert await client.wait(name) == "Cancelled"
        case _:
            for system in systems.values():
                (number,) = system.numbers("koala-")
                system.cancel(number)
            await grid.phase(client, name, "Stopping", "Placing", "Claiming", "Starting")
            await client.cancel([name])
            assert await client.wait(name) == "Cancelled"
    await until(lambda: not alive(ear))
    assert {site["errors"] for site in await client.sites()} == {0}


async def test_what_a_killed_starter_ran_is_gone_before_its_batch_job(
    grid: Grid, client: AsyncClient, systems: dict[str, System], ear: Path, tmp_path: Path
) -> None:
    """It has dropped its environment and left its session, and no batch system here looks for it;
    the next attempt begins when it has ended."""
    starters, again = tmp_path / "starters", tmp_path / "again"
    escape = ESCAPE.format(ear=ear).replace("(setsid", "(env -i setsid")
    program = (
        f"test -e {again} && exit 0; echo $PPID >> {starters}; {escape}; "
        f"while :; do sleep 0.1; done"
    )
    name = await running(grid, client, job(program, *systems))
    await until(lambda: len(alive(ear)) == 3)
    again.touch()
    for starter in alive(starters):
        os.kill(starter, signal.SIGKILL)
    await ended_well(client, name)
    assert not alive(ear)


@pytest.mark.slow
async def test_a_node_that_does_not_answer_lets_no_two_attempts_live(
    grid: Grid, client: AsyncClient, systems: dict[str, System]
) -> None:
    """Slurm counts the job as ended some 30 s after its slurmd was killed; steps outlive it."""
    evidence = grid.evidence
    parts = (
        evidence.component(site=site, seconds=600, gate="node", more="(maxWallTime=10)")
        for site in ("alpha", "beta")
    )
    name = await running(grid, client, evidence.job(*parts))
    (number,) = systems["alpha"].numbers("koala-")
    node = systems["alpha"].run("squeue", "-h", "-j", number, "-o", "%B")
    with systems["alpha"].without_daemon_on(node):
        async with asyncio.timeout(120):
            async for notice in client.watch(after=0, job=name):
                if notice["phase"] == "Stopping":
                    break
    await grid.phase(client, name, "Running")
    evidence.open_gate("node")
    await ended_well(client, name)
    evidence.check()
    assert evidence.finished(name, processes=2) > 1


# Preemption --------------------------------------------------------------------------------------


async def _low_and_high(grid: Grid, client: AsyncClient, gate: str) -> tuple[str, str]:
    """A high-priority job that waits for its file, and a low one that took all processors of all
    sites meanwhile, with a process at each."""
    evidence = grid.evidence
    limit = "(maxWallTime=10)"
    parts = [evidence.component(site=site, count=2, more=limit) for site in grid.sites]
    first = evidence.job(*parts, more=f"(priority=high)(inputFile={FILE})")
    sizes = {site["site"]: site["processors"] for site in await client.sites()}
    whole = (
        evidence.component(
            site=site, count=sizes[site], seconds=600, gate=gate, more=f"{limit}(jobType=single)"
        )
        for site in grid.sites
    )
    await grid.idle(client, sum(sizes.values()))  # or the low one would wait in the queues
    # At once, so that nothing but the start of the low one has to come before the high one claims.
    high, low = [submitted(one) for one in await client.submit_many([first, evidence.job(*whole)])]
    await grid.phase(client, low, "Running")
    return low, high


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_high_priority_job_takes_the_place_of_a_low_one(
    grid: Grid, client: AsyncClient, systems: dict[str, System], *, is_killed: bool
) -> None:
    """Its claims are in the queues before the low one is stopped; agents are killed meanwhile."""
    gate = f"low-{is_killed}"
    low, high = await _low_and_high(grid, client, gate)
    victims = {name: system.numbers("koala-") for name, system in systems.items()}
    await grid.phase(client, low, "Stopping")
    if is_killed:
        grid.kill("alpha", "gamma")
        grid.start()
    assert await client.wait(high) == "Finished", await client.show(high)
    grid.evidence.check()
    grid.evidence.finished(high, processes=6)
    assert [line for line in grid.evidence.lines(low) if line.word == "end"] == []
    if not is_killed:
        for charge in (await client.show(high))["charges"]:
            system = systems[charge["site"]]
            if system.kind == "slurm":
                (victim,) = victims[system.name]
                queued_at = _told(system, charge["batch_job"], "%V")
                assert queued_at <= _told(system, victim, "%e")  # both ISO 8601, in one zone
    grid.evidence.open_gate(gate)
    assert await client.wait(low) == "Finished", await client.show(low)
    assert grid.evidence.finished(low, processes=len(systems)) > 1
    assert {site["errors"] for site in await client.sites()} == {0}


def _told(system: System, number: str, field: str) -> str:
    """Return Slurm's record of a job, ended ones included."""
    return system.run("squeue", "-h", "-t", "all", "-j", number, "-o", field)
