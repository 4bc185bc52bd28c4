"""Seeded faults in simulated time: every promise after every event, then progress (see README.md).

More seeds: `python -m tests.swarm.swarm --seeds 10000`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.swarm.swarm import attempt

SEEDS = (1, 4, 5, 6)
"""Quick seeds below 8 that reach all that is rare; `make swarm` has the others."""
RESIZED = (2054, 2063, 2073)
BY_FILES = 221
KEPT = [
    int(line.split(maxsplit=1)[0])
    for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    if line.strip()
]
LONG = (3, 1203, 31378, 700078, 3002087, 7001041, 70011271, 70011391)
"""Seeds that take long; of what most of them found there are tests with a few events."""


def _run(seeds: Sequence[int]) -> Counter[str]:
    """Run them all; return the rare situations reached."""
    reached: Counter[str] = Counter()
    for seed in seeds:
        verdict = attempt(seed)
        command = f"python -m tests.swarm.swarm --first {seed} --seeds 1"
        assert not verdict.story, f"{verdict.story}\nrepeat with: {command}"
        reached.update(verdict.seen)
    return reached


def test_all_promises_hold_whatever_goes_wrong() -> None:
    reached = _run(SEEDS)
    rare = ("Finished", "Failed", "Releasing", "Stopping", "passes", "restored")
    missing = [what for what in rare if not reached[what]]
    assert not missing, f"{SEEDS} never reach {missing}: the swarm has lost its power"


def test_all_promises_hold_for_flexible_and_malleable_jobs() -> None:
    reached = _run(RESIZED)
    missing = [what for what in ("flexible", "joined", "asked to leave") if not reached[what]]
    assert not missing, f"{RESIZED} never reach {missing}: the swarm has lost its power"


def test_all_promises_hold_where_starters_dial_nobody() -> None:
    """A seed of lines by files (`focus.by_files`)."""
    assert _run([BY_FILES])["Finished"]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long) if seed in LONG else seed for seed in KEPT]
)
def test_a_seed_that_once_broke_something_holds(seed: int) -> None:
    _run([seed])
