"""Co-allocated jobs in a row over two Slurm clusters, a cell and a pool, while parts are killed.

    python -m tests.batch.campaign --jobs 200 --kills 80 --away 60

Agents and daemon get SIGKILL at random instants, and a controller of each kind stands still for a
while; what must hold is that every job ends well, that no two attempts of one are ever alive at
once, and that nothing is left: no batch job, no process, no folder of a claim. `make test-lrm` has
a short form. What is printed is the start skew, of jobs before the first disturbance and of all.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from koala.client import AsyncClient
from koala.errors import UnreachableError
from koala_agent.placeholders.starter_installation import STARTERS
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.grids import grid_over
from tests.batch.systems.htcondor import condor_pools
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.chaos import submit_surely
from tests.live.grid import Grid

AT_ONCE = 5
"""Jobs that are not over yet; the next one waits."""
KEEP_S = 2.0
"""How long the agents of a campaign keep the folders of ended claims."""
FOLDERS_S = 90.0
KILL_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Set the length of a campaign and its faults. The first `calm` jobs meet nothing; a controller
    of each kind is away for `away_s`."""

    jobs: int
    calm: int = 0
    kills: int = 0
    away_s: float = 0.0
    seed: int = 0


@dataclass(slots=True, kw_only=True)
class Course:
    """Collect the outcome: jobs in order of submission, and their start skews."""

    processes: dict[str, int] = field(default_factory=dict)
    calm_skews: list[float] = field(default_factory=list)
    skews: list[float] = field(default_factory=list)
    attempts: int = 0


async def campaign(grid: Grid, systems: dict[str, System], plan: Plan) -> Course:
    """Raises AssertionError when something does not hold."""
    course = Course()
    async with grid.client() as client:
        await grid.ready(client)
        await run_jobs(grid, client, range(plan.calm), plan, course)
        calm = set(course.processes)
        async with asyncio.TaskGroup() as group:
            group.create_task(kill(grid, plan))
            group.create_task(send_controllers_away(systems, plan))
            await run_jobs(grid, client, range(plan.calm, plan.jobs), plan, course)
        await grid.ready(client)
        ends = await client.wait_all(list(course.processes))
        bad = [await client.show(job) for job, end in ends.items() if end != "Finished"]
        assert bad == []
        for job in course.processes:
            shown = await client.show(job)
            course.attempts += shown["attempts"]
            course.skews.append(shown["timeline"]["start_skew_s"])
            if job in calm:
                course.calm_skews.append(course.skews[-1])
        await grid.at_rest(client)
    for job, processes in course.processes.items():
        grid.evidence.finished(job, processes=processes)
    await nothing_is_left(grid, systems)
    return course


async def run_jobs(
    grid: Grid, client: AsyncClient, numbers: Sequence[int], plan: Plan, course: Course
) -> None:
    """One job after the other is submitted, as soon as few enough are not over."""
    places = asyncio.Semaphore(AT_ONCE)
    sites = list(grid.sites)

    async def see_it_through(job: str) -> None:
        while True:
            with suppress(UnreachableError):  # killed just now
                await client.wait(job)
                break
            await moment(0.1)
        places.release()
        if sys.stderr.isatty():
            print(f"\r{len(course.processes)}/{plan.jobs} jobs", end="", file=sys.stderr)

    async with asyncio.TaskGroup() as group:
        for number in numbers:
            await places.acquire()
            random = Random(f"{plan.seed}/{number}")
            counts = {site: random.randint(1, 2) for site in sites}
            if random.random() < 0.25:
                del counts[random.choice(sites)]
            seconds = random.uniform(0.0, 0.8)
            text = grid.evidence.job(
                *(
                    grid.evidence.component(
                        site=site, count=count, seconds=seconds, more="(maxWallTime=10)"
                    )
                    for site, count in counts.items()
                )
            )
            job = await submit_surely(client, text, key=f"campaign-{number}")
            assert job not in course.processes, job
            course.processes[job] = sum(counts.values())
            group.create_task(see_it_through(job))


async def kill(grid: Grid, plan: Plan) -> None:
    """The daemon or an agent, at instants that nothing announces; it is started again at once, or
    a moment later."""
    random = Random(f"{plan.seed}/kills")
    for _ in range(plan.kills):
        await moment(random.uniform(0.0, 2 * KILL_PAUSE_S))
        victim = random.choice(("daemon", *grid.sites))
        grid.kill(victim)
        await moment(random.choice((0.0, 0.0, random.uniform(0.0, 3.0))))
        grid.start(victim)


async def send_controllers_away(systems: dict[str, System], plan: Plan) -> None:
    """First that of a Slurm cluster, then those of a cell and of a pool."""
    for kind in ("slurm", "gridengine", "htcondor"):
        found = [system for system in systems.values() if system.kind == kind]
        if plan.away_s > 0 and found:
            await moment(2.0)
            with found[0].controller_away():
                await moment(plan.away_s)


async def nothing_is_left(grid: Grid, systems: dict[str, System]) -> None:
    """No batch job, no process, and once agents have swept, no folder of a claim."""
    assert grid.processes() == {}
    claims = [grid.state / site / "claims" for site in grid.sites]
    async with asyncio.timeout(FOLDERS_S):
        while any(system.numbers("koala-") for system in systems.values()):
            await moment(0.5)  # claims are gone before their batch jobs
        while any(path.name != STARTERS for folder in claims for path in folder.iterdir()):
            await moment(0.5)


def summary(values: Sequence[float]) -> str:
    """Median, 99th percentile and maximum in milliseconds."""
    if not values:
        return "none"
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    told = (statistics.median(ordered), p99, ordered[-1])
    return "median {:.1f}, p99 {:.1f}, max {:.1f} ms".format(*(1000 * value for value in told))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.batch.campaign", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--calm", type=int, default=40, help="jobs before the first disturbance")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--away", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where logs and journal stay")
    options = parser.parse_args()
    plan = Plan(
        jobs=options.jobs,
        calm=min(options.calm, options.jobs),
        kills=options.kills,
        away_s=options.away,
        seed=options.seed,
    )
    with ExitStack() as stack:
        passing = stack.enter_context(tempfile.TemporaryDirectory(prefix="koala-campaign-"))
        folder: Path = options.folder or Path(passing)
        (folder / "slurm").mkdir(parents=True)
        (folder / "cell").mkdir()
        (folder / "pool").mkdir()
        systems = {
            **stack.enter_context(slurm_clusters(folder / "slurm", "alpha:2x8 beta:2x16")),
            **stack.enter_context(grid_engine_cells(folder / "cell", "gamma:1x16")),
            **stack.enter_context(condor_pools(folder / "pool", "kappa:1x16")),
        }
        grid = stack.enter_context(grid_over(folder / "grid", systems, keep_s=KEEP_S))
        course = asyncio.run(campaign(grid, systems, plan))
    print(f"{len(course.processes)} jobs, {course.attempts} attempts, {plan.kills} kills: none was")
    print("lost, none was alive twice at once, and nothing is left")
    print(f"start skew without disturbance: {summary(course.calm_skews)}")
    print(f"start skew of all: {summary(course.skews)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
