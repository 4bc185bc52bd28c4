"""Daemon and agents in front of batch systems."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from koala.client import AsyncClient
from tests.batch.systems.system import System
from tests.harness.moments import moment
from tests.live.grid import CALM, MARK, Grid

SLOW_BPS = 1_000_000.0
SLOW_S = 12.0
LEAVE_S = 15.0
"""Longest time that an ended batch job may be listed."""
SLOW_FILE = b"\0" * int(SLOW_S * SLOW_BPS)
"""Takes `SLOW_S` to another site."""


@contextmanager
def grid_over(
    folder: Path,
    systems: dict[str, System],
    *,
    more: Mapping[str, str] | None = None,
    keep_s: float = 3600.0,
    grace_s: float = 30.0,
    stored: Mapping[str, bytes] | None = None,
    limits: Mapping[str, float] | None = None,
    beside: Mapping[str, int] | None = None,
    unbooked: Collection[str] = (),
) -> Iterator[Grid]:
    """Daemon and agents in front of these systems; nothing may be left of their jobs and bookings.
    `more` is for their tables `[lrm]`, `limits` are other parameters, and `beside` emulated sites
    with their processors. Files in `stored` are at the first of them, before its agent starts. At
    the sites in `unbooked` nothing is booked, though root may."""
    sizes = {name: system.processors for name, system in systems.items()} | dict(beside or {})
    parameters = {**CALM, "hold_s": 60.0, "bandwidth_default_bps": SLOW_BPS, **(limits or {})}
    grid = Grid(folder, sites=sizes, parameters=parameters, grace_s=grace_s)
    grid.has_batch_jobs = lambda: any(map(ours, systems.values()))
    store = grid.store(grid.sites[0])
    store.mkdir(parents=True)
    for name, content in (stored or {}).items():
        (store / name).write_bytes(content)
    for name, system in systems.items():
        text = grid.config(name).read_text(encoding="utf-8")
        text = text.replace("[agent]\n", f"[agent]\nkeep_s = {keep_s}\n")
        text = text.replace("[files]\n", f"[files]\nrate = {SLOW_BPS}\n")
        text = text.replace("gpus = 0\n", f"gpus = {system.site_gpus}\n")
        if name in unbooked:
            text = text.replace("[site]\n", "[site]\nbooking_ahead_s = 0.0\n")
        lrm = system.lrm_table(f"{MARK}={grid.mark}") + (more or {}).get(name, "")
        grid.shells[name] = system.login
        grid.config(name).write_text(text + lrm, encoding="utf-8")
    left: dict[str, list[str]] = {}
    with ExitStack() as stack:  # each of them, whatever becomes of the others
        for system in systems.values():
            stack.callback(system.clear)
        stack.callback(lambda: left.update(_left(systems)))
        stack.callback(grid.stop)
        grid.start()
        yield grid
    grid.check()
    assert left == {name: [] for name in systems}


def ours(system: System) -> list[str]:
    """List the jobs and bookings of agents at a system."""
    return [*system.numbers("koala-"), *system.bookings("koala-")]


def _left(systems: Mapping[str, System]) -> dict[str, list[str]]:
    """The jobs and bookings that are left. A claim is gone when its starter has said so and hung
    up; its batch system may take a moment more."""
    until = time.monotonic() + LEAVE_S
    while True:
        left = {name: ours(system) for name, system in systems.items()}
        if not any(left.values()) or time.monotonic() > until:
            return left


async def until_trouble(grid: Grid, client: AsyncClient, words: str, *sites: str) -> None:
    """Wait until `koala sites` shows trouble with these words at each site, or none if `words` is
    empty."""
    async with asyncio.timeout(grid.patience_s):
        while True:
            troubles = {site["site"]: site["trouble"] or "" for site in await client.sites()}
            said = [troubles.get(site, "no answer yet") for site in sites]
            if all(words in trouble if words else not trouble for trouble in said):
                return
            await moment()
