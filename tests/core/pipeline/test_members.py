"""Members of a barrier: quorum, loose and no barrier."""

from __future__ import annotations

import pytest

from koala.core.model.actions import (
    ArmClaim,
    ClaimProcessors,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
)
from koala.core.model.job import EndKind
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import FREE, LOOSE, a_component, a_job, a_site
from tests.harness.script import Script


def test_a_quorum_starts_with_those_granted_at_the_judgement(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_site("c", 4), a_job("j1", 4, 4, 4, quorum=2))
    script.claimed("j1")
    script.grant("j1/1/0/1", "j1/1/2/1").expect_nothing()
    script.at(5)
    script.expect(StopClaim, claim="j1/1/1/1")
    arms = script.take(ArmClaim)
    assert [arm.claim for arm in arms] == ["j1/1/0/1", "j1/1/2/1"]
    assert [peer.component for peer in arms[0].peers] == [0, 2]


def test_a_quorum_does_not_start_with_fewer(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_site("c", 4), a_job("j1", 4, 4, 4, quorum=2))
    script.claimed("j1")
    script.grant("j1/1/0/1").refuse("j1/1/1/1").refuse("j1/1/2/1")
    script.expect(StopClaim, claim="j1/1/0/1")
    assert "not claimed by its start time" in script.story("j1")


def test_a_quorum_is_placed_though_not_all_fit(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4, 4, quorum=2))
    assert len(script.claimed("j1")) == 2
    assert sorted(str(site) for site in script.placed_on("j1")) == ["None", "a", "b"]


def test_a_quorum_is_not_placed_when_fewer_fit(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4, 4, 4, quorum=2)).expect_nothing()
    assert script.phase("j1") == "Placing"


def quorum_running(script: Script) -> Script:
    script.tell(a_site("a", 4), a_site("b", 4), a_site("c", 4), a_job("j1", 4, 4, 4, quorum=2))
    script.running("j1")
    return script


def test_a_program_of_a_quorum_may_fail(script: Script) -> None:
    quorum_running(script).exits("j1/1/0/1", 1).expect_nothing()
    assert script.phase("j1") == "Running"
    script.exits("j1/1/1/1", 1)
    script.expect(StopClaim, claim="j1/1/2/1")
    assert script.phase("j1") == "Failed"


def test_a_loose_component_that_is_not_granted_by_the_start_is_dropped(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4))
    script.tell(a_job("j1", 4, a_component(4, start_type=LOOSE))).claimed("j1")
    script.grant("j1/1/0/1").refuse("j1/1/1/1")
    assert [peer.component for peer in script.expect(ArmClaim).peers] == [0]
    assert "goes on without 1 at b" in script.story("j1")


def test_a_loose_component_that_is_granted_takes_part_in_the_barrier(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4))
    script.tell(a_job("j1", 4, a_component(4, start_type=LOOSE)))
    script.grant(*script.claimed("j1"))
    assert len(script.armings("j1")[1]) == 2


def test_a_strict_component_is_not_dropped_for_a_loose_one(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4))
    script.tell(a_job("j1", 4, a_component(4, start_type=LOOSE))).claimed("j1")
    script.refuse("j1/1/0/1").grant("j1/1/1/1")
    script.expect(StopClaim, claim="j1/1/1/1")


def test_a_loose_component_lost_while_arming_is_dropped_and_the_rest_armed_again(
    script: Script,
) -> None:
    script.tell(a_site("a", 4), a_site("b", 4))
    script.tell(a_job("j1", 4, a_component(4, start_type=LOOSE)))
    script.grant(*script.claimed("j1"))
    number, _ = script.armings("j1")
    script.gone("j1/1/1/1", EndKind.VANISHED)
    second, claims = script.armings("j1")
    assert (second.counter, claims) == (number.counter + 1, ["j1/1/0/1"])


def test_a_component_without_barrier_runs_from_its_check_in(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", 4, a_component(4, start_type=FREE))).claimed("j1")
    script.grant("j1/1/1/1").passed("j1/1/1/1").expect_nothing()
    script.grant("j1/1/0/1")
    assert [arm.claim for arm in script.take(ArmClaim)] == ["j1/1/0/1"]
    assert script.scheduler.ledger  # both live


def test_the_bundle_counts_only_those_that_meet_at_the_barrier(script: Script) -> None:
    """The first to come must not be the master of a world that it knows nothing of."""
    script.tell(a_site("a", 4), a_job("j1", a_component(1, start_type=FREE), 1, 1))
    script.grant(*script.claimed("j1"))
    arms = script.take(ArmClaim)
    assert [[peer.component for peer in arm.peers] for arm in arms] == [[1, 2], [1, 2]]


def test_a_component_without_barrier_ends_with_the_attempt(script: Script) -> None:
    script.tell(a_site("a", 8), a_job("j1", 4, a_component(4, start_type=FREE)))
    claims = script.claimed("j1")
    script.grant(*claims)
    script.released("j1")
    script.passed(*claims).exits("j1/1/0/1")
    script.expect(StopClaim, claim="j1/1/1/1")
    assert script.phase("j1") == "Running"
    script.gone("j1/1/1/1", EndKind.STOPPED)
    script.expect(PublishOutputs)
    assert script.phase("j1") == "Finished"
    (told,) = why(script.scheduler, script.job("j1").id, script.now)
    assert told == "finished: every other component ended well; component 1: stopped"


def test_of_a_finished_job_is_said_which_component_never_started(script: Script) -> None:
    script.tell(a_site("a", 4), a_site("b", 4))
    script.tell(a_job("j1", 4, a_component(4, start_type=LOOSE)))
    script.claimed("j1")
    script.grant("j1/1/0/1").refuse("j1/1/1/1")
    script.released("j1")
    script.passed("j1/1/0/1").exits("j1/1/0/1")
    script.expect(PublishOutputs)
    (told,) = why(script.scheduler, script.job("j1").id, script.now)
    assert told == "finished: every other component ended well; component 1: never started"


def test_of_a_job_all_of_which_ended_well_nothing_else_is_said(script: Script) -> None:
    script.tell(a_site("a", 4), a_job("j1", 4))
    claims = script.claimed("j1")
    script.grant(*claims)
    script.released("j1")
    script.passed(*claims).exits("j1/1/0/1")
    script.expect(PublishOutputs)
    (told,) = why(script.scheduler, script.job("j1").id, script.now)
    assert told == "finished: every component ended well"


@pytest.mark.parametrize("kind", [EndKind.VANISHED, EndKind.EXITED, EndKind.FENCED])
def test_however_it_ends_the_job_whose_barrier_members_ended_well_is_finished(
    script: Script, kind: EndKind
) -> None:
    script.tell(a_site("a", 8), a_job("j1", 4, a_component(4, start_type=FREE)))
    claims = script.claimed("j1")
    script.grant(*claims)
    script.released("j1")
    script.passed(*claims).exits("j1/1/0/1")
    script.expect(StopClaim, claim="j1/1/1/1")
    script.gone("j1/1/1/1", kind, statuses=(-15,))
    script.expect(PublishOutputs)
    assert script.phase("j1") == "Finished"


def test_a_job_of_components_without_barrier_runs_when_all_are_granted(script: Script) -> None:
    free = a_component(4, start_type=FREE)
    script.tell(a_site("a", 8), a_job("j1", free, free))
    claims = script.claimed("j1")
    script.grant(claims[0]).passed(claims[0])
    assert script.phase("j1") == "Claiming"
    script.grant(claims[1]).passed(claims[1]).expect_nothing()
    assert script.phase("j1") == "Running"
    script.exits(claims[0])
    assert script.phase("j1") == "Running"
    script.exits(claims[1])
    script.expect(PublishOutputs)


def test_a_component_without_barrier_may_have_run_so_the_fence_counts(script: Script) -> None:
    """It runs from check-in on, which the daemon may not have heard of."""
    script.tell(a_site("a", 8), a_job("j1", 4, a_component(4, start_type=FREE))).claimed("j1")
    script.gone("j1/1/0/1", EndKind.FAILED)
    script.expect(StopClaim, claim="j1/1/1/1")
    assert script.phase("j1") == "Stopping"
    script.at(100).expect_nothing()
    script.gone("j1/1/1/1", EndKind.STOPPED)
    assert script.phase("j1") == "Claiming"
    script.take(ClaimProcessors)


@pytest.mark.parametrize("is_last", [False, True])
def test_nobody_waits_for_the_file_of_a_program_that_is_over(begin: Begin, is_last: bool) -> None:
    """Its copy ended with its claim, so that it never comes."""
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4), a_site("b", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, a_component(4, start_type=FREE), file="data")).at(75)
    script.grant(*script.claimed("j1")).passed("j1/1/1/1")
    attempt = script.job("j1").attempt
    assert attempt is not None
    strict, free = (str(member.transfer) for member in attempt.members)
    assert strict != free
    if is_last:
        script.fetched(strict).at(150).expect_nothing().exits("j1/1/1/1", 0)
    else:
        script.exits("j1/1/1/1", 0).at(150).expect_nothing().fetched(strict)
    assert script.armings("j1")[1] == ["j1/1/0/1"]


def test_no_barrier_opens_before_all_files_are_there(begin: Begin) -> None:
    script = begin(bandwidth_default_bps=10.0).ignore(StartTransfer)
    script.tell(a_site("home", 1), a_site("a", 4), a_site("b", 4)).replica("data", "home")
    script.tell(a_job("j1", 4, 4, file="data")).at(75).grant(*script.claimed("j1"))
    script.fetched("j1/1/t1").at(150).expect_nothing()
    script.fetched("j1/1/t2")
    assert len(script.armings("j1")[1]) == 2
    assert not script.take(ReleaseClaim)
