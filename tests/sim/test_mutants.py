"""The swarm finds what is broken on purpose.

Each mutant is tried on a seed that once found it: one run each. When scenarios are drawn otherwise
that seed may tell another story; then `python -m tests.sim.mutants` finds another one.
"""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS, found_by

FOUND_BY = {
    "release_before_the_last_armed": 3,
    "paths_count_as_open": 6,
    "no_fence": 43,
    "early_fence": 0,
    "forgotten_stops": 0,
    "the_same_claim_again": 2,
    "two_releases": 0,
    "errors_are_never_reset": 36,
    "bad_sites_do_not_rest": 18,
    "requeued_to_nowhere": 0,
    "finished_by_the_first": 7,
    "stops_are_not_owed": 3,
    "unrecorded_answers": 10,
    "effects_before_the_commit": 9,
    "a_chain_that_is_not_checked": 25,
    "a_mark_that_is_not_read": 1,
    "inventories_that_are_half_taken": 0,
}
MORE = 10
"""Seeds that are tried beside the known one, from 0 on."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_swarm_finds(name: str) -> None:
    seeds = [FOUND_BY[name], *range(MORE)]
    assert found_by(name, seeds) is not None, f"{name} survives seeds {seeds}"
