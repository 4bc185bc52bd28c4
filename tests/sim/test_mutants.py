"""The swarm finds what is broken on purpose.

Each mutant is tried on a seed that once found it: one run each. When scenarios are drawn otherwise
that seed may tell another story; `make mutants` then finds another one.
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
    "deadlines_may_be_missed": 35,
    "local_jobs_die_without_the_word": 50,
    "a_mark_that_is_not_read": 1,
    "inventories_that_are_half_taken": 0,
    "answers_before_the_commit": 89,
    "pings_that_are_answered_and_not_noted": 22,
    "gone_before_the_local_manager_says_so": 3,
    "a_nonce_that_is_not_checked": 91,
    "spoilt_copies_that_are_kept": 14,
    "a_start_without_release": 0,
    "an_end_before_the_program_is_dead": 15,
}
LONG = (
    "a_chain_that_is_not_checked",  # seed 334; which byte is spoilt depends on all that is stored
    "any_number_arms",
    "fences_are_ignored",
    "stopped_is_gone",
    "ends_that_are_never_acknowledged",  # seed 0, in twenty seconds
    "a_lease_from_the_answer",
    "a_lease_that_does_not_end",
    "a_start_after_d",
    "a_release_of_another_arm",
    "a_hold_without_an_end",
)
"""For `make mutants`: they need more seeds than the default run has, or are not found yet."""


def test_every_mutant_is_tried_somewhere() -> None:
    assert sorted((*FOUND_BY, *LONG)) == sorted(MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND_BY)
def test_the_swarm_finds(name: str) -> None:
    assert found_by(name, [FOUND_BY[name]]) is not None, f"{name} survives seed {FOUND_BY[name]}"
