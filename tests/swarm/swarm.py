"""Run many seeds: `python -m tests.swarm.swarm --seeds 10000 [--first K] [--jobs 2] [--explore]`.

A failure prints the one command that repeats it and the last events before it.
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing import get_context

from koala.common.runtime.child_lifetime import serve
from tests.swarm.drawing.busy import BOOKED_FIRST, BUSY_FIRST
from tests.swarm.drawing.seed import draw
from tests.swarm.run import Run
from tests.swarm.scenario import Scenario

BUSY_SHARE = 20
"""One seed in so many of a short campaign is of busy sites: it takes three times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of a seed: the failure (empty: none), rare situations reached, events handled by the
    core, and simulated time."""

    seed: int
    story: str
    seen: dict[str, int]
    events: int
    simulated_s: float


def attempt(seed: int) -> Verdict:
    """Run a seed."""
    run = Run(draw(seed))
    story = ""
    try:
        run.play()
    except Exception:  # noqa: BLE001 - whatever breaks a seed is what the swarm is looking for
        last = "\n".join(run.oracle.record.last)
        story = f"{last}\n{traceback.format_exc(limit=-4)}"
    return Verdict(
        seed=seed,
        story=story,
        seen=run.oracle.record.seen,
        events=run.oracle.events,
        simulated_s=run.world.engine.now,
    )


def spare_collections() -> None:
    """Make garbage collections rare: reference counts free what a seed leaves behind."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def begin(parent: int) -> None:
    """Prepare this process to run seeds as long as its parent lives."""
    serve(parent)
    spare_collections()


def seeds_of(first: int, seeds: int) -> list[int]:
    """List the seeds of a campaign. One from the beginning that is too short for the first seeds in
    which jobs wait in the queues of busy sites, some of which book processors, has some of these in
    place of its last twentieth."""
    if first or seeds > BUSY_FIRST:
        return [*range(first, first + seeds)]
    share = seeds // BUSY_SHARE
    busy = islice((s for s in count(BUSY_FIRST) if draw(s).tickets != "none"), share - share // 2)
    booked = islice((s for s in count(BOOKED_FIRST) if _all_book(draw(s))), share // 2)
    return [*range(seeds - share), *busy, *booked]


def _all_book(drawn: Scenario) -> bool:
    return drawn.tickets == "book" and all(setting.facts.books for setting in drawn.settings)


def verdicts(seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """Yield the verdict of every seed; in no order when there are several processes."""
    if jobs == 1:
        spare_collections()
        yield from map(attempt, seeds)
        return
    with get_context("spawn").Pool(jobs, begin, (os.getpid(),)) as pool:
        yield from pool.imap_unordered(attempt, seeds, chunksize=20)


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; return 1 when one of them broke a promise."""
    parser = argparse.ArgumentParser(prog="tests.swarm.swarm", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--explore", action="store_true", help="begin at a seed never seen")
    parser.add_argument("--stop-after", type=int, default=3, help="failures")
    parser.add_argument("--short", action="store_true", help="only the last line of each failure")
    options = parser.parse_args(arguments)
    first = secrets.randbelow(10**9) if options.explore else options.first
    reached: Counter[str] = Counter()
    events = done = 0
    broken: list[int] = []
    simulated_s = 0.0
    for verdict in verdicts(seeds_of(first, options.seeds), options.jobs):
        done += 1
        events += verdict.events
        simulated_s += verdict.simulated_s
        reached.update(verdict.seen)
        if verdict.story:
            broken.append(verdict.seed)
            story = verdict.story.strip()
            print(story.rsplit("\n", 1)[1] if options.short else story)
            print(f"repeat with: python -m tests.swarm.swarm --first {verdict.seed} --seeds 1")
            print(f"made small:  python -m tests.swarm.minimise {verdict.seed}")
            if len(broken) >= options.stop_after:
                break
        if sys.stderr.isatty() or done % 500 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{done} seeds, {events} events, {len(broken)} broken", file=sys.stderr, end=end)
    hours = f"{simulated_s / 3600:.0f} simulated hours"
    print(f"{done} seeds from {first} on, {events} events, {hours}, {len(broken)} broken: {broken}")
    print("reached: " + ", ".join(f"{name} {n}" for name, n in sorted(reached.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
