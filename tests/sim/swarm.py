"""Many seeds: `python -m tests.sim.swarm --seeds 10000 [--first K] [--jobs 2] [--explore]`.

A failure prints the one command that repeats it and the last events before it.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context

from tests.sim.scenario import Run, draw

Verdict = tuple[int, str, dict[str, int], int]


def attempt(seed: int) -> Verdict:
    """The seed, what broke (empty: nothing), what was reached, and how many events it took."""
    run = Run(draw(seed))
    try:
        outcome = run.play()
    except Exception:  # noqa: BLE001 - whatever breaks a seed is what the swarm is looking for
        story = traceback.format_exc(limit=-4)
        last = "\n".join(run.oracle.last)
        return seed, f"{last}\n{story}", run.oracle.seen, run.oracle.events
    return seed, "", outcome.seen, outcome.events


def verdicts(seeds: range, jobs: int) -> Iterator[Verdict]:
    """Of every seed; in no order when there are several processes."""
    if jobs == 1:
        yield from map(attempt, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(attempt, seeds, chunksize=20)


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; 1 when one of them broke something."""
    parser = argparse.ArgumentParser(prog="tests.sim.swarm", description=__doc__)
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
    for seed, story, seen, count in verdicts(range(first, first + options.seeds), options.jobs):
        done += 1
        events += count
        reached.update(seen)
        if story:
            broken.append(seed)
            print(story.strip().rsplit("\n", 1)[1] if options.short else story)
            print(f"repeat with: python -m tests.sim.swarm --first {seed} --seeds 1")
            if len(broken) >= options.stop_after:
                break
        if sys.stderr.isatty() or done % 500 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{done} seeds, {events} events, {len(broken)} broken", file=sys.stderr, end=end)
    print(f"{done} seeds from {first} on, {events} events, {len(broken)} broken: {broken}")
    print("reached: " + ", ".join(f"{name} {n}" for name, n in sorted(reached.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
