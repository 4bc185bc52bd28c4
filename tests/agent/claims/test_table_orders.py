"""The claim table: arm, release and stop, tests of paths, and shares of the processor."""

from __future__ import annotations

from koala.common.protocol.messages import (
    ClaimEnd,
    EndKind,
    Pace,
    PathsReport,
    Progress,
    Resize,
    TryPaths,
)
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import (
    Adopted,
    CheckedIn,
    Collect,
    Collected,
    EndNoted,
    SendToDaemon,
    SendToStarter,
    StarterArmed,
    StarterEnded,
    StarterLost,
    StarterSaid,
    StoreClaim,
    Withdraw,
)
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes
from koala_agent.lrm.local_manager import EndCause
from tests.agent.claims.table_script import (
    CLAIM,
    NUMBER,
    RELEASE,
    STOP,
    WELL,
    TableScript,
    a_hold,
    an_arm,
    batch_ended,
    gone,
    reports,
    told,
)

# The barrier --------------------------------------------------------------------------------------


def test_arm_and_release_are_passed_on_and_armed_is_written_first(script: TableScript) -> None:
    script.held()
    assert told(script.tell(an_arm())) == [an_arm()]
    outputs = script.table.handle(StarterArmed(claim=CLAIM, nonce="n", number=NUMBER), 1.0)
    assert [type(output) for output in outputs] == [StoreClaim, SendToDaemon]
    assert reports(outputs)[0].armed == NUMBER
    assert told(script.tell(RELEASE)) == [RELEASE]


def test_a_release_waits_here_for_a_starter_that_is_away(script: TableScript) -> None:
    script.armed()
    script.tell(StarterLost(claim=CLAIM, nonce="n"), RELEASE)
    script.restarted()
    back = CheckedIn(claim=CLAIM, nonce="n", armed=NUMBER)
    assert told(script.tell(back)) == [Adopted(leases=LeaseTimes()), RELEASE]


# Stop ---------------------------------------------------------------------------------------------


def test_a_stop_is_told_to_the_starter_and_gone_waits_for_the_local_manager(
    script: TableScript,
) -> None:
    script.passed()
    assert told(script.tell(STOP)) == [STOP]
    stopped = ClaimEnd(kind=EndKind.STOPPED, statuses=(-15,))
    outputs = script.tell(StarterEnded(claim=CLAIM, nonce="n", end=stopped))
    assert reports(outputs) == []
    assert told(outputs) == [EndNoted()]
    end = gone(script.tell(batch_ended()))
    assert (end.kind, end.statuses) == (EndKind.STOPPED, (-15,))


def test_a_stop_for_a_starter_that_is_away_goes_through_the_local_manager(
    script: TableScript,
) -> None:
    """Its starter then tells the signal of the site, which is none: it was ours."""
    script.passed()
    outputs = script.tell(StarterLost(claim=CLAIM, nonce="n"), STOP)
    assert Withdraw(claim=CLAIM) in outputs
    script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=100.0, end=ClaimEnd(kind=EndKind.SITE)))
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.STOPPED


def test_a_starter_that_does_not_obey_a_stop_is_withdrawn(script: TableScript) -> None:
    script.passed()
    script.tell(STOP)
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert script.at == 10.0


def test_a_program_that_ended_by_itself_before_the_stop_keeps_its_end(script: TableScript) -> None:
    script.passed()
    script.tell(STOP, StarterEnded(claim=CLAIM, nonce="n", end=WELL))
    (collect,) = script.tell(batch_ended())
    assert isinstance(collect, Collect)
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_what_a_starter_wrote_down_before_the_stop_came_counts(script: TableScript) -> None:
    script.armed()
    script.tell(StarterLost(claim=CLAIM, nonce="n"), STOP)
    record = StarterRecord(nonce="n", passed_at=100.0, end=WELL)
    outputs = script.tell(batch_ended(EndCause.WITHDRAWN, record=record))
    assert [type(output) for output in outputs if isinstance(output, Collect)] == [Collect]
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_a_program_that_the_sites_cancel_killed_did_not_fail(script: TableScript) -> None:
    script.passed()
    killed = ClaimEnd(kind=EndKind.EXITED, statuses=(-15, 0))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=killed))
    assert gone(script.tell(batch_ended(EndCause.CANCELLED_BY_SITE))).kind is EndKind.SITE


def test_a_program_that_our_withdrawal_killed_did_not_fail(script: TableScript) -> None:
    script.passed()
    killed = ClaimEnd(kind=EndKind.EXITED, statuses=(-15,))
    script.tell(STOP, StarterEnded(claim=CLAIM, nonce="n", end=killed))
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.STOPPED


# Paths --------------------------------------------------------------------------------------------

PATHS = TryPaths(claim=CLAIM, label="a1", address="here", listens=(29500,), targets=(), limit_s=5.0)
TELL_PATHS = SendToStarter(claim=CLAIM, nonce="n", message=PATHS)


def test_paths_are_for_the_starter_and_its_answer_for_the_daemon() -> None:
    script = TableScript()
    script.held()
    assert script.tell(PATHS) == [TELL_PATHS]
    assert script.tell(PATHS) == [TELL_PATHS]  # said again until it is answered
    answer = StarterSaid(
        nonce="n", message=PathsReport(claim=CLAIM, problem="a1 -> b1:29500 refused")
    )
    report = PathsReport(claim=CLAIM, problem="a1 -> b1:29500 refused")
    assert script.tell(answer) == [SendToDaemon(message=report)]
    stranger = StarterSaid(nonce="other", message=PathsReport(claim=CLAIM, problem=""))
    assert script.tell(stranger) == []


def test_a_starter_that_reconnects_hears_of_its_paths_until_it_is_armed() -> None:
    script = TableScript()
    script.held()
    script.tell(PATHS, StarterLost(claim=CLAIM, nonce="n"))
    assert TELL_PATHS in script.tell(CheckedIn(claim=CLAIM, nonce="n"))
    script.tell(an_arm(), StarterArmed(claim=CLAIM, nonce="n", number=NUMBER))
    assert TELL_PATHS not in script.tell(CheckedIn(claim=CLAIM, nonce="n", armed=NUMBER))
    assert script.tell(PATHS) == []


def test_paths_of_a_claim_that_is_over_are_answered_with_its_end() -> None:
    script = TableScript()
    script.held()
    script.tell(batch_ended())
    assert script.tell(PATHS) == script.tell(STOP)
    unknown = TryPaths(
        claim=ClaimId("j9/1/0/1"), label="", address="", listens=(), targets=(), limit_s=1.0
    )
    (told,) = reports(script.tell(unknown))
    assert told.end == ClaimEnd(kind=EndKind.UNKNOWN)


# Progress -----------------------------------------------------------------------------------------


def test_progress_is_told_and_not_kept_and_a_share_is_said_again_to_who_comes_back() -> None:
    script = TableScript()
    script.held()
    report = Progress(claim=CLAIM, cycle=3, work=1.5, is_told=False, can_pace=True)
    assert script.tell(StarterSaid(nonce="n", message=report)) == [SendToDaemon(message=report)]
    assert not any(isinstance(said, Progress) for said in script.table.inventory())
    pace = Pace(claim=CLAIM, share=0.5)
    told = SendToStarter(claim=CLAIM, nonce="n", message=pace)
    assert script.tell(pace) == [told]
    assert told in script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=1.0))


# Resizes ------------------------------------------------------------------------------------------


def a_resize(number: int, leave_s: float | None = None) -> Resize:
    return Resize(claim=CLAIM, number=number, peers=an_arm().peers, leave_s=leave_s)


def test_the_newest_resize_is_kept_over_restarts_and_told_to_who_comes_back() -> None:
    script = TableScript()
    script.tell(a_hold())
    assert script.tell(a_resize(1)) == []  # nobody is there yet
    assert told(script.tell(CheckedIn(claim=CLAIM, nonce="n")))[-1] == a_resize(1)
    assert told(script.tell(a_resize(3))) == [a_resize(3)]
    assert script.tell(a_resize(2)) == []
    assert told(script.tell(a_resize(3, leave_s=5.0))) == [a_resize(3, leave_s=5.0)]
    script.restarted()
    back = script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=1.0))
    assert told(back)[-1] == a_resize(3, leave_s=5.0)
    script.tell(STOP)
    assert script.tell(a_resize(4)) == []
