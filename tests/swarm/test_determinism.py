"""Tests of determinism: a run is a function of its seed, in any process, under any hash seed
(promise 8).

More seeds: `python -m tests.swarm.traces`.
"""

from __future__ import annotations

from tests.swarm.traces import start, trace

SEEDS = (12, 23)
HASH_SEED = "4242"


def test_another_process_with_another_hash_seed_sees_the_same_run() -> None:
    """That of this process is random, unless PYTHONHASHSEED says otherwise."""
    other = start(SEEDS, HASH_SEED)
    ours = [trace(seed) for seed in SEEDS]
    assert other.communicate()[0].splitlines() == ours
    assert other.returncode == 0
