"""Kills at random instants while jobs stream through: `python -m tests.live.chaos --kills 200`.

The tests run a few of them; this command runs as many as one likes, over the daemon and all agents,
and a job meanwhile that its wall-time limit, whose unit is the minute, must end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

from koala.client import Client
from koala.errors import UnreachableError
from tests.live.grid import Grid, live_grid

SITES = {"delft": 4, "leiden": 4, "vu": 4, "utrecht": 4}
WALL_TIME_SITE = "utrecht"


async def chaos(
    grid: Grid,
    *,
    victims: tuple[str, ...],
    kills: int,
    jobs: int,
    seed: int,
    others: dict[str, str] | None = None,
) -> None:
    """Submits jobs and kills until both are done, then looks at what became of them. `others` are
    jobs that are there already, with their ends."""
    expected = others or {}
    random = Random(seed)
    async with grid.client() as client, asyncio.TaskGroup() as group:
        await grid.ready(client)
        submitting = group.create_task(submit_all(grid, client, jobs, Random(seed)))
        for _ in range(kills):
            await moment(random.uniform(0.0, 1.0))
            victim = random.choice(victims)
            grid.kill(victim)
            grid.start(victim)
        accepted = await submitting
        await grid.ready(client)  # a client waits for a daemon only once it has seen it
        expected = {**expected, **dict.fromkeys(accepted, "Finished")}
        assert await client.wait_all(list(expected)) == expected
        assert {job["job"] for job in await client.list_jobs()} == set(expected)
        await grid.at_rest(client)
        lives = grid.log("daemon").count('"daemon.started"')
        assert (await client.metrics())["epoch"] >= lives > 1
    for job, processes in accepted.items():
        grid.evidence.finished(job, processes=processes)


async def submit_all(grid: Grid, client: Client, jobs: int, random: Random) -> dict[str, int]:
    """Jobs of two and three components, one after the other; the processes of each."""
    evidence = grid.evidence
    accepted: dict[str, int] = {}
    for number in range(jobs):
        counts = [random.randint(1, 2) for _ in range(random.randint(2, 3))]
        seconds = random.uniform(0.0, 0.6)
        rsl = evidence.job(*(evidence.component(count=c, seconds=seconds) for c in counts))
        job = await submit_surely(client, rsl, key=f"chaos-{number}")
        assert job not in accepted
        accepted[job] = sum(counts)
        await moment(random.uniform(0.0, 0.4))
    return accepted


async def submit_surely(client: Client, rsl: str, *, key: str) -> str:
    """The daemon may be killed before, while or after it takes a job in; the key makes them one."""
    while True:
        try:
            return (await client.submit(rsl, key=key)).job
        except UnreachableError:
            await moment(0.05)


async def moment(seconds: float) -> None:
    """Lets some time pass, for kills at instants that nothing announces."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)


async def run(grid: Grid, *, kills: int, jobs: int, seed: int) -> None:
    """The command's work: chaos among all but one site, where the wall time runs out."""
    async with grid.client() as client:
        await grid.ready(client)
        text = grid.evidence.component(site=WALL_TIME_SITE, seconds=600, more="(maxWallTime=1)")
        limited = (await client.submit(text)).job
        await grid.phase(client, limited, "Running")
        victims = ("daemon", *(site for site in SITES if site != WALL_TIME_SITE))
        others = {limited: "Failed"}
        await chaos(grid, victims=victims, kills=kills, jobs=jobs, seed=seed, others=others)
        shown = await client.show(limited)
        assert "wall" in shown["reason"], shown["reason"]
        assert shown["attempts"] == 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="koala-chaos-") as folder,
        live_grid(Path(folder), sites=SITES) as grid,
    ):
        asyncio.run(run(grid, kills=options.kills, jobs=options.jobs, seed=options.seed))
    print(f"{options.kills} kills, {options.jobs} jobs: none was lost, none ran twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
