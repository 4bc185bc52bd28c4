"""Queues, scans and placement tries (KOALA 3.1)."""

from __future__ import annotations

import pytest

from koala.common.protocol.messages import HeldFile
from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    PublishOutputs,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import ReplicaRemoved
from koala.core.model.values import FileName, SiteName
from koala.policies import chosen
from tests.core.conftest import Begin
from tests.harness.builders import HIGH, a_component, a_job, a_site
from tests.harness.script import Script

COPIES = (StartTransfer, CancelTransfer)


def order_of_claims(script: Script) -> list[str]:
    return [claim.claim.split("/")[0] for claim in script.take(ClaimProcessors)]


def test_a_job_that_fits_is_placed_and_claimed_at_once(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 4, 4))
    assert script.claimed("j1") == ["j1/1/0/1", "j1/1/1/1"]
    assert script.phase("j1") == "Claiming"


def test_high_priority_goes_first_when_processors_become_idle(script: Script) -> None:
    script.tell(a_site("delft", 8, idle=0), a_job("low", 8), a_job("high", 8, priority=HIGH))
    script.report("delft", 8)
    assert order_of_claims(script) == ["high"]
    assert script.phase("low") == "Placing"


def test_jobs_behind_one_that_does_not_fit_are_tried_too(script: Script) -> None:
    script.tell(a_site("delft", 8, idle=0), a_job("big", 8), a_job("small", 2))
    script.report("delft", 4)
    assert order_of_claims(script) == ["small"]


def test_the_papers_pace_is_one_scan_an_interval_in_the_cycle_high_high_low(begin: Begin) -> None:
    """S = 2: what became idle after the first scan is seen by the low queue at the third."""
    script = begin(scan="interval", scan_interval_s=240.0, ageing_s=float("inf"))
    script.tell(a_site("delft", 8, idle=0), a_job("low", 8))
    script.report("delft", 8).expect_nothing()
    script.at(720)
    script.expect(ClaimProcessors, at=720, claim="low/1/0/1")


def test_at_the_papers_pace_the_high_queue_is_scanned_first(begin: Begin) -> None:
    script = begin(scan="interval", scan_interval_s=240.0, ageing_s=float("inf"))
    script.tell(a_site("delft", 8, idle=0), a_job("high", 8, priority=HIGH))
    script.report("delft", 8).at(240)
    script.expect(ClaimProcessors, at=240, claim="high/1/0/1")


def test_at_the_papers_pace_a_submission_is_tried_at_once(begin: Begin) -> None:
    script = begin(scan="interval")
    script.tell(a_site("delft", 8), a_job("j1", 8))
    script.expect(ClaimProcessors, at=0)


def test_a_change_lets_scans_run_until_a_whole_cycle_places_nothing(script: Script) -> None:
    script.tell(a_site("delft", 8, idle=0), a_job("low", 4), a_job("high", 4, priority=HIGH))
    script.report("delft", 8)
    assert order_of_claims(script) == ["high", "low"]


def test_placement_tries_are_limited(begin: Begin) -> None:
    script = begin(placement_tries_max=3, scan="interval", scan_interval_s=10.0)
    script.tell(a_site("delft", 2), a_job("big", 8))
    script.at(200)
    assert script.phase("big") == "Failed"
    assert script.reason("big") == "not placed in 3 placement tries"
    assert script.job("big").placement_tries == 3


def test_without_a_limit_a_job_waits_for_ever(begin: Begin) -> None:
    script = begin(scan="interval", scan_interval_s=10.0)
    script.tell(a_site("delft", 2), a_job("big", 8)).at(5000)
    assert script.phase("big") == "Placing"


def test_a_submission_over_the_queue_limit_is_delayed_and_let_in_in_order(begin: Begin) -> None:
    script = begin(queue_jobs_max=2)
    script.tell(a_site("delft", 8, idle=0))
    script.tell(*(a_job(f"j{n}", 1) for n in range(1, 5)))
    assert [script.phase(f"j{n}") for n in range(1, 5)] == ["Placing"] * 2 + ["Delayed"] * 2
    assert not script.scheduler.has_room
    script.cancel("j1")
    assert (script.phase("j3"), script.phase("j4")) == ("Placing", "Delayed")
    script.report("delft", 8)
    assert order_of_claims(script) == ["j2", "j3", "j4"]


def test_a_delayed_high_priority_job_does_not_overtake(begin: Begin) -> None:
    script = begin(queue_jobs_max=1)
    script.tell(a_site("delft", 8, idle=0), a_job("j1", 1), a_job("j2", 1))
    script.tell(a_job("urgent", 1, priority=HIGH)).cancel("j1")
    assert (script.phase("j2"), script.phase("urgent")) == ("Placing", "Delayed")


def test_a_job_that_comes_back_does_not_count_as_over_the_limit(begin: Begin) -> None:
    script = begin(queue_jobs_max=1)
    script.tell(a_site("delft", 8), a_job("j1", 8))
    claims = script.claimed("j1")
    script.tell(a_job("j2", 8)).report("delft", 0).refuse(*claims)
    assert (script.phase("j1"), script.phase("j2")) == ("Placing", "Placing")
    assert script.scheduler.queues.order()[1] == ["j2", "j1"]


def test_placing_makes_room_for_delayed_jobs(begin: Begin) -> None:
    script = begin(queue_jobs_max=1)
    script.tell(a_site("delft", 8, idle=0), a_job("j1", 4), a_job("j2", 4))
    script.report("delft", 8)
    assert order_of_claims(script) == ["j1", "j2"]


# --- where ---


def test_a_fixed_component_goes_to_its_site_or_waits(script: Script) -> None:
    script.tell(a_site("delft", 8, idle=1), a_site("leiden", 8))
    script.tell(a_job("j1", a_component(4, "delft")))
    assert script.phase("j1") == "Placing"
    script.report("delft", 4)
    script.expect(ClaimProcessors, site="delft")


def test_a_semi_fixed_job_has_its_fixed_part_placed_first(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, a_component(1, "a")))
    script.expect(ClaimProcessors, claim="j1/1/0/1", site="b")
    script.expect(ClaimProcessors, claim="j1/1/1/1", site="a")


def test_components_of_a_job_may_share_a_site(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 3, 3, 2))
    assert len(script.claimed("j1")) == 3
    assert script.placed_on("j1") == ["delft"] * 3


def test_a_job_at_a_site_that_nobody_knows_waits(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", a_component(1, "atlantis"))).at(1000)
    assert script.phase("j1") == "Placing"


def test_worst_fit_is_chosen_by_name(begin: Begin) -> None:
    script = begin(chosen(placement="WF"), bandwidth_default_bps=10.0)
    script.tell(a_site("a", 4), a_site("b", 8)).replica("data", "a", 100)
    script.tell(a_job("j1", 2, file="data"))
    assert script.placed_on("j1") == ["b"]
    script.expect(StartTransfer, source="a", target="b")


def test_a_job_whose_file_is_nowhere_waits_for_it(script: Script) -> None:
    script.tell(a_site("delft", 8), a_job("j1", 1, file="data"))
    assert script.phase("j1") == "Placing"
    script.replica("data", "delft")
    claim = script.expect(ClaimProcessors)
    assert claim.files == (HeldFile(file="data"),)


def test_a_replica_that_is_gone_is_no_source(script: Script) -> None:
    script.tell(a_site("delft", 8)).replica("data", "delft")
    script.tell(ReplicaRemoved(file=FileName("data"), site=SiteName("delft")))
    script.tell(a_job("j1", 1, file="data"))
    assert script.phase("j1") == "Placing"


def test_jobs_placed_and_not_yet_claimed_are_not_subtracted(begin: Begin) -> None:
    """KOALA reserves nothing (2.7): the second job is placed on the same processors."""
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("delft", 8)).replica("data", "home")
    script.tell(a_job("j1", 8, file="data"), a_job("j2", 8, file="data"))
    assert (script.placed_on("j1"), script.placed_on("j2")) == (["delft"], ["delft"])


def test_count_placed_subtracts_them(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0, count_placed=True).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("delft", 8)).replica("data", "home")
    script.tell(a_job("j1", 8, file="data"), a_job("j2", 8, file="data"))
    assert script.phase("j2") == "Placing"
    script.at(75)
    script.expect(ClaimProcessors, claim="j1/1/0/1")


def test_with_count_placed_a_job_does_not_stand_in_its_own_way(begin: Begin) -> None:
    script = begin(count_placed=True)
    script.tell(a_site("delft", 8), a_job("j1", 8))
    script.expect(ClaimProcessors, claim="j1/1/0/1")


# --- ageing ---


def test_an_aged_job_goes_first_whatever_its_priority(begin: Begin) -> None:
    script = begin(ageing_s=100.0)
    script.tell(a_site("delft", 8, idle=0), a_job("old", 8)).at(100)
    script.tell(a_job("urgent", 8, priority=HIGH)).report("delft", 8)
    assert order_of_claims(script) == ["old"]


def test_aged_jobs_of_both_queues_go_in_the_order_of_their_waits(begin: Begin) -> None:
    script = begin(ageing_s=100.0)
    script.tell(a_site("delft", 8, idle=0), a_job("first", 2)).at(1)
    script.tell(a_job("second", 2, priority=HIGH)).at(2)
    script.tell(a_job("third", 2)).at(50)
    script.tell(a_job("young", 2, priority=HIGH)).at(102).report("delft", 8)
    assert order_of_claims(script) == ["first", "second", "third", "young"]


def test_an_aged_job_holds_the_door_and_lets_others_pass_in_every_second_half(
    begin: Begin,
) -> None:
    script = begin(ageing_s=100.0)
    script.tell(a_site("delft", 8, idle=0), a_job("big", 8)).at(110)
    script.tell(a_job("small", 1)).report("delft", 4)
    script.expect_nothing()
    assert script.phase("small") == "Placing"
    script.at(149).report("delft", 5).expect_nothing()
    script.at(151).report("delft", 6)
    assert order_of_claims(script) == ["small"]


def test_the_door_opens_without_any_change(begin: Begin) -> None:
    """Nothing may happen for hours, and the small job still gets its half of the time."""
    script = begin(ageing_s=100.0, scan_interval_s=10.0)
    script.tell(a_site("delft", 8, idle=4), a_job("big", 8)).at(110)
    script.tell(a_job("small", 1)).at(154)
    assert order_of_claims(script) == ["small"]


def test_an_aged_job_that_could_never_be_placed_holds_nobody_up(begin: Begin) -> None:
    script = begin(ageing_s=100.0)
    script.tell(a_site("delft", 8, idle=0), a_job("huge", 9)).at(110)
    script.tell(a_job("small", 1)).report("delft", 4)
    assert order_of_claims(script) == ["small"]


def test_processors_gather_for_an_aged_job(begin: Begin) -> None:
    script = begin(ageing_s=100.0).ignore(ArmClaim, StopClaim, PublishOutputs)
    script.tell(a_site("delft", 8, idle=0), a_job("big", 8)).at(110)
    script.tell(a_job("small", 1)).report("delft", 7).report("delft", 8)
    assert order_of_claims(script) == ["big"]


@pytest.mark.parametrize("scan", ["change", "interval"])
def test_a_second_submission_of_the_same_job_changes_nothing(begin: Begin, scan: str) -> None:
    script = begin(scan=scan)
    script.tell(a_site("delft", 8), a_job("j1", 8)).drop()
    script.unchanged_by(a_job("j1", 2))


def test_an_aged_job_whose_tries_are_used_up_holds_no_door(begin: Begin) -> None:
    script = begin(ageing_s=0.0, placement_tries_max=1)
    script.tell(a_site("delft", 8, idle=0), a_job("j1", 8))
    assert script.phase("j1") == "Failed"


def test_components_on_distinct_sites_share_none(script: Script) -> None:
    script.ignore(ClaimProcessors)
    script.tell(a_site("delft", 9), a_site("leiden", 4), a_site("vu", 4))
    script.tell(a_job("j1", 2, 2, 4, distinct=True))
    assert script.placed_on("j1") == ["leiden", "vu", "delft"]


def test_a_job_on_distinct_sites_waits_for_as_many_sites(script: Script) -> None:
    script.ignore(ClaimProcessors)
    script.tell(a_site("delft", 9), a_job("j1", 2, 2, distinct=True))
    assert script.phase("j1") == "Placing"
    script.tell(a_site("leiden", 2))
    assert script.placed_on("j1") == ["delft", "leiden"]


def test_a_blocked_component_moves_to_a_site_that_no_other_component_has(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(ClaimProcessors, *COPIES)
    script.replica("data", "d").tell(a_site("d", 1))
    script.tell(a_site("a", 9), a_site("b", 8), a_site("c", 2))
    script.tell(a_job("j1", 4, 2, file="data", distinct=True))
    assert script.placed_on("j1") == ["a", "b"]
    script.replica("data", "a").replica("data", "c").report("b", 0).at(75)
    assert script.placed_on("j1") == ["a", "c"]


def test_components_of_a_quorum_on_distinct_sites_share_none(script: Script) -> None:
    script.ignore(ClaimProcessors)
    script.tell(a_site("delft", 9), a_site("leiden", 4))
    script.tell(a_job("j1", 2, 2, 2, distinct=True, quorum=2))
    assert script.placed_on("j1") == ["delft", "leiden", None]
