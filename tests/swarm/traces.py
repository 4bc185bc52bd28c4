"""Compare the same seeds in two processes with two hash seeds: `python -m tests.swarm.traces
[--seeds 200]`.

Each process prints a hash of everything observed in a run, and the digest of the state at its end;
both must be equal (promise 8).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.harness.children import module_command
from tests.swarm.run import run

ROOT = Path(__file__).parents[2]
HASH_SEEDS = ("1", "4242")


def trace(seed: int) -> str:
    """Run a seed; return one line with the hash of what was observed and the last digest."""
    outcome = run(seed)
    return f"{seed} {outcome.events} {outcome.trace} {outcome.digest}"


def start(seeds: Sequence[int], hash_seed: str) -> subprocess.Popen[str]:
    """Start a process that prints the traces of these seeds."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "agents")))
    words = [str(seed) for seed in seeds]
    return subprocess.Popen(
        module_command("tests.swarm.traces", "--tell", *words),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
    )


def differences(seeds: Sequence[int]) -> list[str]:
    """Return the differences between two processes."""
    processes = [start(seeds, hash_seed) for hash_seed in HASH_SEEDS]
    first, second = (process.communicate()[0].splitlines() for process in processes)
    assert not any(process.returncode for process in processes), "a process ended badly"
    assert len(first) == len(second) == len(seeds), "a seed is missing"
    return [f"{one}\n{other}" for one, other in zip(first, second, strict=True) if one != other]


def main(arguments: list[str] | None = None) -> int:
    """Compare; return 1 when two differ."""
    parser = argparse.ArgumentParser(prog="tests.swarm.traces", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tell", type=int, nargs="+", help="only tell of these seeds")
    options = parser.parse_args(arguments)
    if options.tell:
        for seed in options.tell:
            print(trace(seed), flush=True)
        return 0
    found = differences(range(options.first, options.first + options.seeds))
    print(*found, sep="\n")
    print(f"{options.seeds} seeds from {options.first} on: {len(found)} differ between hash seeds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
