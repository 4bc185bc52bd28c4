"""Components on several machines of real batch systems: one barrier for all their processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.watching import Ear, process_ended
from tests.batch.systems.grids import grid_over
from tests.batch.systems.jobs import finished
from tests.batch.systems.system import System
from tests.harness.moments import until
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm


@pytest.fixture
def grid(
    tmp_path: Path, slurm: dict[str, System], wide_cell: dict[str, System]
) -> Iterator[tuple[Grid, dict[str, System]]]:
    """Daemon and agents in front of alpha, beta and delta, two machines each."""
    systems = {**slurm, **wide_cell}
    with grid_over(tmp_path, systems) as grid:
        yield grid, systems


def is_helper(pid: int) -> bool:
    """True when this starter is a helper on another machine."""
    return b"machine" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


SIZES = {"alpha": 10, "beta": 18, "delta": 6}
"""More than one machine of each site has."""
CLOCKS_S = 0.01
"""How far the daemon's clock may be from the machine's."""


def job(program: str, sizes: dict[str, int]) -> str:
    parts = (
        f'(&(executable=/bin/bash)(arguments=-c "{program}")(count={count})'
        f"(maxWallTime=5)(resourceManagerContact={site}))"
        for site, count in sizes.items()
    )
    return "+" + "".join(parts)


async def test_processes_of_all_machines_start_at_the_same_moment(
    grid: tuple[Grid, dict[str, System]], tmp_path: Path
) -> None:
    """Two Slurm clusters and a Grid Engine cell, two machines each: what the daemon says of the
    start, and what the processes themselves see on the one clock that they have here."""
    live, _ = grid
    told, seen = [], []
    async with live.client() as client:
        await live.ready(client)
        for number in range(5):
            folder = tmp_path / f"at{number}"
            folder.mkdir()
            program = f"echo $EPOCHREALTIME > {folder}/$RANK"
            shown = await finished(client, job(program, SIZES))
            timeline = shown["timeline"]
            assert isinstance(timeline, dict)
            told.append(timeline["start_skew_s"])
            instants = [float(file.read_text()) for file in folder.iterdir()]
            assert len(instants) == sum(SIZES.values())
            parts = shown["parts"]
            assert isinstance(parts, list)
            assert min(instants) >= max(part["claimed_at"] for part in parts) - CLOCKS_S
            seen.append(max(instants) - min(instants))
        await live.at_rest(client)
    # Milliseconds where nobody else is; starts that wait for nobody are seconds apart. And 34
    # shells begin on a few processors here, one after the other; `srun` alone takes longer. One of
    # five in a moment in which the machine is ours shows it.
    assert min(told) < 0.5, told
    assert min(seen) < 1.0, seen


@pytest.mark.parametrize("site", ["alpha", "delta"])
async def test_nothing_is_left_on_other_machines_when_the_starter_is_killed(
    grid: tuple[Grid, dict[str, System]], tmp_path: Path, ear: Ear, site: str
) -> None:
    """Though they are deaf to TERM. The job is placed again."""
    live, systems = grid
    program = (
        f"test -e {tmp_path}/again && exit 0; trap true TERM; "
        f"echo $$ > {ear.path}; while true; do sleep 1; done"
    )
    count = systems[site].processors
    async with live.client() as client:
        await live.ready(client)
        submitted = await client.submit(job(program, {site: count}))
        pids = [int(await ear.line()) for _ in range(count)]
        (tmp_path / "again").touch()
        for pid in live.starters():
            if not is_helper(pid):
                os.kill(pid, signal.SIGKILL)
        assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
        for pid in pids:
            await process_ended(pid)
        await live.at_rest(client)


async def test_a_batch_job_that_is_put_back_runs_nothing_a_second_time(
    tmp_path: Path, slurm: dict[str, System]
) -> None:
    """Its first starter was ended, and a second one finds the claim bound, if it comes to that: the
    job is placed again, as another attempt."""
    program = f"echo $KOALA_ATTEMPT >> {tmp_path}/ran; test $KOALA_ATTEMPT = 2 && exit 0; sleep 600"
    alpha = slurm["alpha"]
    with grid_over(tmp_path / "grid", {"alpha": alpha}) as live:
        async with live.client() as client:
            await live.ready(client)
            submitted = await client.submit(job(program, {"alpha": 1}))
            await live.phase(client, submitted.job, "Running")
            await until((tmp_path / "ran").exists)
            (number,) = alpha.numbers("koala-")
            alpha.run("scontrol", "update", f"JobId={number}", "Requeue=1")
            alpha.run("scontrol", "requeue", number)
            assert await client.wait(submitted.job) == "Finished", await client.show(submitted.job)
            await live.at_rest(client)
    assert (tmp_path / "ran").read_text() == "1\n2\n"
