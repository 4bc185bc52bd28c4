"""A run is a function of its seed: in any process, under any hash seed (promise 8)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = (3, 11, 19)
PROGRAM = f"""
from tests.sim.scenario import run
for seed in {SEEDS}:
    outcome = run(seed)
    print(seed, outcome.events, outcome.trace, outcome.digest)
"""


def _told(hash_seed: str) -> str:
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents")))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
    )
    return done.stdout


def test_two_processes_with_two_hash_seeds_see_the_same_run() -> None:
    first, second = _told("1"), _told("4242")
    assert first.count("\n") == len(SEEDS)
    assert first == second
