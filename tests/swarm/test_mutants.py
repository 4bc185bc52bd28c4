"""Tests that the swarm finds deliberate bugs.

Each mutant runs on one seed that once found it. When scenarios are drawn otherwise, that seed may
give another scenario; `make mutants` then finds a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from koala.core.model.job import EndKind
from tests.agent.claims import test_table, test_table_gates, test_table_orders
from tests.agent.claims.table_script import TableScript
from tests.agent.starter import test_barrier, test_state_machine
from tests.core import test_leases
from tests.core.pipeline.resizing import test_resizing
from tests.core.placement import test_flexible
from tests.core.tickets import test_booked_claims, test_tickets
from tests.harness.script import Script
from tests.swarm.mutants import MUTANTS, found_by

FOUND_BY = {
    "release_before_the_last_armed": 3,
    "paths_count_as_open": 6,
    "closed_ports_count_as_reached": 72,
    "sites_that_carry_nothing_are_asked_to": 68,
    "one_token_for_all_ports": 480,
    "no_fence": 3,
    "early_fence": 2,
    "predecessors_are_ignored": 9,
    "fences_are_ignored": 3,
    "forgotten_stops": 0,
    "the_same_claim_again": 3,
    "two_releases": 0,
    "errors_are_never_reset": 78,
    "bad_sites_do_not_rest": 18,
    "requeued_to_nowhere": 22,
    "finished_by_the_first": 7,
    "stops_are_not_pending": 5,
    "unrecorded_answers": 28,
    "effects_before_the_commit": 83,
    "stopped_is_gone": 57,
    "deadlines_may_be_missed": 58,
    "local_jobs_die_without_the_word": 82,
    "release_before_the_last_check_in": 5,
    "a_drained_site_is_asked": 40,
    "a_refusal_is_an_error": 2,
    "one_error_too_many": 3,
    "a_releasing_job_is_preempted": 734,
    "a_link_is_booked_twice": 14,
    "a_slot_without_a_guard": 51,
    "plans_that_are_believed": 51,
    "a_snapshot_without_the_timers": 0,
    "a_mark_that_is_not_read": 1,
    "answers_before_the_commit": 143,
    "passes_that_are_not_awaited": 26,
    "ends_that_are_never_acknowledged": 30,
    "inventories_that_are_half_taken": 0,
    "gone_before_the_local_manager_says_so": 2,
    "a_nonce_that_is_not_checked": 0,
    "spoilt_copies_that_are_kept": 35,
    "a_check_in_after_the_withdrawal": 0,
    "bindings_that_are_not_stored": 0,
    "ends_by_the_site_are_the_programs": 0,
    "a_lease_that_does_not_end": 33,
    "a_start_after_d": 3,
    "a_start_without_release": 0,
    "a_lease_from_the_answer": 54,
    "a_chain_that_is_not_checked": 58,
    "any_number_arms": 44,
    "a_hold_without_an_end": 24,
    "an_end_before_the_program_is_dead": 8,
    "a_program_that_stays_held": 91,
    "limits_of_groups_are_ignored": 1002,
    "what_is_held_until_a_stop_comes_is_free": 7,
    "tickets_outlive_a_move": 1045,
    "a_component_waits_at_one_site_more": 1021,
    "queues_of_owners_who_set_a_limit_are_filled": 1021,
    "a_second_ticket_is_kept": 1203,
    "tickets_outlive_the_start": 1025,
    "tickets_of_an_attempt_that_ended_stay": 1237,
    "holds_are_not_charged": 1016,
    "a_hold_is_never_given_back": 1035,
    "a_hold_that_was_given_back_stays": 1016,
    "tickets_are_fenced": 1254,
    "an_ended_ticket_stays_in_its_member": 1237,
    "a_ticket_has_a_grace_time": 1237,
    "gates_are_not_changed": 1041,
    "gates_that_do_not_hold": 1016,
    "jobs_give_way_below_their_least": 2063,
    "a_rest_is_smaller_than_its_bound": 2282,
    "a_split_that_needs_less": 2012,
    "sizes_that_are_not_recorded": 2001,
    "an_unanswered_share_that_stays": 2004,
    "bookings_outlive_their_attempt": 2028,
    "a_moved_booking_is_not_given_back": 2028,
    "sites_that_do_not_book_are_booked": 2002,
    "bookings_begin_before_their_instant": 2028,
}
FOUND_BY_FILES = {
    "a_start_after_d": 101,
    "a_lease_that_does_not_end": 381,
    "a_lease_from_the_answer": 661,
}
"""Seeds of starters that dial nobody (`focus.by_files`): late, lost and repeated files show the
same bugs."""
GUARDS: dict[str, Callable[[], None]] = {
    "a_release_of_another_arm": test_barrier.test_a_release_of_another_number_is_ignored,
    "a_check_in_that_is_a_start": (
        test_barrier.test_without_a_barrier_it_passes_when_the_daemon_answers_its_ping
    ),
    "pings_that_are_answered_and_not_noted": (
        test_leases.test_a_released_claim_is_fenced_when_silent_since_its_last_answer
    ),
    "a_resize_that_is_passed_on_again": (
        test_state_machine.test_a_resize_is_passed_on_once_and_only_if_it_is_newer
    ),
    "a_restarted_agent_forgets_resizes": (
        test_table_orders.test_the_newest_resize_is_kept_over_restarts_and_told_to_who_comes_back
    ),
    "ends_by_the_daemons_newest_clock": (
        test_state_machine.test_a_clock_of_the_daemon_that_was_set_changes_no_time_from_the_pass_on
    ),
    "a_refusal_after_silence_is_the_end": partial(
        test_table.test_a_refusal_after_a_submission_without_an_answer_is_confirmed_first,
        TableScript(),
    ),
    "a_restarted_agent_forgets_gates": partial(
        test_table_gates.test_the_gate_of_a_listed_claim_is_set_again_after_a_restart,
        TableScript(),
    ),
    "gates_that_failed_are_not_repeated": partial(
        test_table_gates.test_a_gate_that_failed_is_set_again_later_and_later, TableScript()
    ),
    "all_gates_open_after_a_cut": lambda: test_tickets.test_tickets_outlive_a_cut_and_a_restart(
        test_tickets.a_queued_pair(Script)
    ),
    "instants_of_bookings_are_lost_by_a_cut": (
        lambda: test_booked_claims.test_bookings_outlive_a_restart_with_their_instants(
            test_booked_claims.a_mixed_pair(Script)
        )
    ),
    "refused_bookings_are_asked_for_again_at_once": partial(
        test_booked_claims.test_all_sites_that_book_are_booked_for_one_instant_that_they_accept,
        Script,
    ),
    "a_hold_over_budget_is_kept": partial(
        test_tickets.test_a_hold_over_budget_is_given_back_at_once, Script, 1000.0
    ),
    "a_site_is_held_as_a_whole": partial(
        test_tickets.test_what_owners_allow_is_not_exceeded, Script
    ),
    "who_joins_passes_alone": lambda: test_resizing.test_all_that_join_are_released_together(
        test_resizing.running_job(Script)
    ),
    "a_failed_addition_ends_the_attempt": (
        lambda: test_resizing.test_a_failed_addition_does_not_hurt_the_job(
            test_resizing.running_job(Script), EndKind.REFUSED
        )
    ),
    "who_gives_way_has_failed": (
        lambda: test_resizing.test_a_waiting_job_makes_the_newest_component_give_way(
            test_resizing.grown_job(Script)
        )
    ),
    "nobody_is_made_to_give_way": (
        lambda: test_resizing.test_who_does_not_give_way_in_time_is_stopped(
            test_resizing.grown_job(Script)
        )
    ),
    "worlds_are_not_told_again": (
        lambda: test_resizing.test_a_site_that_comes_back_is_told_the_release_and_the_world(
            test_resizing.grown_job(Script)
        )
    ),
    "the_first_split_is_kept": lambda: (
        test_flexible.test_without_room_for_a_refused_share_the_whole_job_is_split_anew(Script())
    ),
    "a_rest_without_the_bound_of_components": lambda: (
        test_flexible.test_without_room_for_a_refused_share_the_whole_job_is_split_anew(Script())
    ),
    "a_ticket_of_another_attempt_holds": partial(
        test_tickets.test_a_ticket_of_an_earlier_attempt_holds_nothing, Script
    ),
}
"""Mutants that tests of starter, claim table, leases and tickets find.

- No run reaches the first without another bug: a Release leaves only when all have armed under its
  number, over ordered links, and no member arms again after that. The starter checks all the same,
  for a faulty daemon.
- The swarm finds the second by one seed in ten thousand, the third by one in a thousand: too rare
  for a named seed.
- No restart of an agent needs a kept resize while a daemon repeats it, and none repeats an old one.
- Tickets are short in the swarm and planned often: a wrong gate does not last, few agents crash
  between the store of a gate and its order, no budget is used up, few jobs hold at one site, and no
  ticket starts while its Stop is under way and the next attempt waits.
- Few jobs of the swarm grow, and hardly any by two components at once. What follows is seen as a
  setback, which is allowed after faults.
- A split that is kept is within its bounds; sites refuse what does not fit any more.
- A daemon's clock is set seldom while a program runs: no seed of 900 shows it.
- The swarm finds pings that are not noted as a run without end, which takes ten seconds (seed 43).
"""


LONG = (
    "answers_before_the_commit",
    "ends_that_are_never_acknowledged",
    "inventories_that_are_half_taken",
    "stops_are_not_pending",
)
"""Mutants that the swarm finds after two seconds. Tests of `daemon/loop`, `daemon/agents` and
`core/pipeline` find the first, the third and the fourth, too; nothing else finds the second."""
TRIED = [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in FOUND_BY]


def test_every_mutant_is_tried_somewhere() -> None:
    assert sorted((*FOUND_BY, *GUARDS)) == sorted(MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_the_swarm_finds(name: str) -> None:
    assert found_by(name, [FOUND_BY[name]]) is not None, f"{name} survives seed {FOUND_BY[name]}"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", FOUND_BY_FILES)
def test_the_swarm_finds_it_by_files_too(name: str) -> None:
    assert found_by(name, [FOUND_BY_FILES[name]]) is not None, f"{name} survives"


@pytest.mark.parametrize("name", GUARDS)
def test_a_test_of_its_own_finds(name: str) -> None:
    with MUTANTS[name](), pytest.raises(AssertionError):
        GUARDS[name]()
