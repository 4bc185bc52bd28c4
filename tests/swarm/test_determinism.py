"""Tests of determinism: a run is a function of its seed, in any process, under any hash seed
(promise 8).

More seeds: `python -m tests.swarm.traces`.
"""

from __future__ import annotations

from tests.swarm.traces import differences

SEEDS = (12, 23)


def test_two_processes_with_two_hash_seeds_see_the_same_run() -> None:
    assert differences(SEEDS) == []
