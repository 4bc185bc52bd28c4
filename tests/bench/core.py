"""The core alone: what a scan of a long queue costs."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from koala.core.model.events import SiteReported, Woken
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, SiteName
from koala.core.scheduler import Scheduler
from koala.policies import chosen
from tests.bench.figures import Figure, median
from tests.harness.builders import a_job, a_site

SITES = 100
JOBS = 1_000
PROCESSORS = 16
COMPONENT = 8


def measure(_: Path, is_quick: bool) -> list[Figure]:
    """A queue of jobs that do not fit is scanned again because something changed."""
    scheduler, now = a_full_grid()
    took_s = [scan_s(scheduler, now + step) for step in range(1, 4 if is_quick else 11)]
    assert len(scheduler.queues) == JOBS
    return [
        Figure(
            name=f"scan of {JOBS:,} queued jobs over {SITES} sites", value=median(took_s), unit="s",
            limit=0.1,
            how="core alone, Close-to-Files, jobs of two to four components; one has room; "
            f"all sites have reported other idle processors; the median of {len(took_s)}, the "
            "reports' own handling included",
        )
    ]  # fmt: skip


def a_full_grid() -> tuple[Scheduler, Instant]:
    """Sites without an idle processor, and jobs of two to four components in the low queue."""
    policies = chosen(placement="CF", claiming="ICP", queueing="koala")
    scheduler = Scheduler(Parameters(), policies)
    now = 1.0
    for number in range(SITES):
        site = a_site(f"site{number:03}", PROCESSORS, idle=0)
        scheduler.handle(site, now)
    for number in range(JOBS):
        job = a_job(f"j{number}", *[COMPONENT] * (2 + number % 3))
        scheduler.handle(job, now)
    drain(scheduler, now)
    return scheduler, now


def scan_s(scheduler: Scheduler, now: Instant) -> float:
    """Measure one scan of the whole queue after sites have reported a change."""
    last = next(reversed(scheduler.jobs.values()))
    tries = last.placement_tries
    begun_at = perf_counter()
    for number in range(SITES):
        # One component has room at one site; the others have it nowhere.
        idle = COMPONENT if number == 0 else 1 + (number + round(now)) % (COMPONENT - 1)
        name = SiteName(f"site{number:03}")
        scheduler.handle(SiteReported(site=name, idle=idle, through=0), now)
    drain(scheduler, now)
    took_s = perf_counter() - begun_at
    scans = last.placement_tries - tries
    assert scans > 0, "the queue was not scanned"
    return took_s / scans


def drain(scheduler: Scheduler, now: Instant) -> None:
    """Have all timers rung that are due."""
    while scheduler.wake_at is not None and scheduler.wake_at <= now:
        scheduler.handle(Woken(), now)
