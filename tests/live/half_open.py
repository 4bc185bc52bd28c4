"""Agents that the daemon cannot reach any more, or not hear, though nobody ended a connection.

    python -m tests.live.half_open --times 50

Each time a job runs on two sites. Then the link of one is held in both directions or in one, or its
agent stands still (SIGSTOP). It is measured how long it takes until the daemon knows, and until
nothing of the job is alive at the lost site, which only the lease can bring about. Afterwards all
is let go, and the job runs again on the same sites, in an attempt that never met the first one.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from koala.client import AsyncClient
from tests.harness.moments import moment
from tests.live.grid import HASTY, started, until
from tests.live.proxied import LINK, ProxiedGrid, proxied
from tests.live.proxy import Direction, Proxy

LOST = ("delft", "leiden", "vu", "utrecht")
KEPT = ("amsterdam", "eindhoven", "twente", "groningen")
"""A job of each of the former runs with one of the latter, all at the same time."""
MANNERS: tuple[tuple[Direction, ...], ...] = (("up", "down"), ("up",), ("down",), ())
"""Which directions of the link are held; none: the agent is stopped."""
LEASE_S = HASTY["run_lease_s"]
STOPPED_S = LEASE_S + HASTY["kill_s"]
SILENCE_S = 1.5
MARGIN_S = 20.0
"""For a machine that does other things, too."""


@dataclass(slots=True)
class Seen:
    """Keep how long it took, each time."""

    detected_s: list[float] = field(default_factory=list)
    stopped_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """For people."""
        return (
            f"{len(self.detected_s)} times half-open, leases of {LEASE_S:g} s: detected after"
            f" {statistics.median(self.detected_s):.1f} s (median),"
            f" {max(self.detected_s):.1f} s (longest); nothing of the job alive at the lost site"
            f" after {statistics.median(self.stopped_s):.1f} s, {max(self.stopped_s):.1f} s"
        )

    def check(self) -> None:
        """Raises AssertionError when a lease did not end what it must."""
        assert max(self.detected_s) < LEASE_S + MARGIN_S, str(self)
        assert max(self.stopped_s) < STOPPED_S + MARGIN_S, str(self)


async def rounds(grid: ProxiedGrid, times: int) -> Seen:
    """As many losses, four of them at the same time."""
    seen = Seen()
    async with proxied(grid) as proxy, grid.client() as client:
        await grid.ready(client)
        for first in range(0, times, len(LOST)):
            async with asyncio.TaskGroup() as group:
                for number in range(first, min(first + len(LOST), times)):
                    # Another manner for each site in each round.
                    manner = MANNERS[(number + first // len(LOST)) % len(MANNERS)]
                    place = number % len(LOST)
                    group.create_task(one(grid, proxy, client, place, manner, seen))
        await grid.at_rest(client)
    return seen


async def one(
    grid: ProxiedGrid,
    proxy: Proxy,
    client: AsyncClient,
    place: int,
    manner: tuple[Direction, ...],
    seen: Seen,
) -> None:
    """One job, one loss."""
    evidence, lost = grid.evidence, LOST[place]
    parts = [evidence.component(site=site, count=2, seconds=600) for site in (lost, KEPT[place])]
    job = (await client.submit(evidence.job(*parts))).job
    attempt = await begun(grid, job, after=0)
    began_at = time.monotonic()
    if manner:
        proxy.hold(f"{lost}.{LINK}", *manner)
    else:
        grid.signal(lost, signal.SIGSTOP)
    try:
        async with asyncio.TaskGroup() as group:
            detecting = group.create_task(detected(grid, client, job, lost))
            stopping = group.create_task(grid.nothing_left(f"{job}/{attempt}/0/"))
            detecting.add_done_callback(
                lambda _: seen.detected_s.append(time.monotonic() - began_at)
            )
            stopping.add_done_callback(lambda _: seen.stopped_s.append(time.monotonic() - began_at))
    finally:
        proxy.free(f"{lost}.{LINK}")
        grid.signal(lost, signal.SIGCONT)
    await begun(grid, job, after=attempt)
    evidence.check()
    await client.cancel(job)
    assert await client.wait(job) == "Cancelled"
    await grid.nothing_left(f"{job}/")


async def begun(grid: ProxiedGrid, job: str, *, after: int) -> int:
    """Wait until all four programs of an attempt after that one have begun; its number."""
    found: list[int] = []

    def have_begun() -> bool:
        attempts = [line.attempt for line in grid.evidence.lines(job) if line.word == "start"]
        found[:] = [number for number in attempts if number > after and attempts.count(number) == 4]
        return bool(found)

    await until(have_begun, grid.patience_s)
    return found[0]


async def detected(grid: ProxiedGrid, client: AsyncClient, job: str, site: str) -> None:
    """Wait until the daemon knows: it has cut the link, or set the job back."""
    async with asyncio.timeout(grid.patience_s):
        while True:
            states = {each["site"]: each["state"] for each in await client.sites()}
            phase = (await client.show(job))["phase"]
            if states[site] == "disconnected" or phase not in ("Releasing", "Running"):
                return
            await moment()


def half_open(folder: Path, times: int) -> Seen:
    """A grid in this folder, and so many losses in it."""
    sites = dict.fromkeys((*LOST, *KEPT), 2)
    parameters = {**HASTY, "probe_after_s": 1.0, "claiming_tries_max": 0}
    grid = ProxiedGrid(folder, sites=sites, parameters=parameters, silence_s=SILENCE_S)
    grid.patience_s = 120.0
    with started(grid):
        return asyncio.run(rounds(grid, times))


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.half_open", description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="koala-half-open-") as folder:
        seen = half_open(Path(folder), options.times)
    print(seen)
    seen.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
