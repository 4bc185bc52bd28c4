"""The claim table: ends of claims, their outputs, restarts, pings and values."""

from __future__ import annotations

from koala.common.protocol.messages import (
    ClaimEnd,
    EndKind,
    KvAnswer,
    KvGet,
    KvPut,
    Ping,
    Pong,
)
from koala_agent.claims.events import (
    Adopted,
    BatchEnded,
    BatchUnlisted,
    CheckedIn,
    Collected,
    Event,
    LeasesSet,
    SendToDaemon,
    SendToStarter,
    StarterArmed,
    StarterEnded,
    StarterPassed,
    StarterSaid,
    Withdraw,
    Woken,
)
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.pending_requests import REQUESTS_MAX
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
    batch_ended,
    gone,
    reports,
    told,
)

# The end ------------------------------------------------------------------------------------------


def test_an_output_that_is_missing_is_the_end_of_a_program_that_ended_well(
    script: TableScript,
) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    end = gone(script.tell(Collected(claim=CLAIM, reason="missing: a")))
    assert (end.kind, end.reason, end.statuses) == (EndKind.OUTPUT, "missing: a", (0,))


def test_an_output_that_is_missing_does_not_hide_a_failure(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.EXITED, statuses=(1,))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed), batch_ended())
    assert gone(script.tell(Collected(claim=CLAIM, reason="missing: a"))) == failed


def test_outputs_are_not_waited_for_for_ever(script: TableScript) -> None:
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    script.at = 300.0
    assert gone(script.tell(Woken())).kind is EndKind.OUTPUT
    assert script.tell(Collected(claim=CLAIM)) == []


def test_while_outputs_are_on_their_way_the_agent_pings_for_the_claim(script: TableScript) -> None:
    """Nobody else is there who could, and to the daemon silence past the lease is the end."""
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    for at in (60.0, 120.0, 180.0):
        ping = Ping(claim=CLAIM, nonce="n", sent_at=at)
        assert script.wake() == [SendToDaemon(message=ping)]
        assert script.at == at
    script.at = 190.0
    script.tell(LeasesSet(leases=LeaseTimes(run_lease_s=40.0)))  # a new session, of a new daemon
    assert [type(output) for output in script.wake()] == [SendToDaemon]
    assert script.at == 190.0
    script.wake()
    assert script.at == 195.0
    script.tell(Collected(claim=CLAIM))
    assert script.table.wake_at == 200.0  # the end is told again; there is nothing to ping for


def test_nobody_pings_for_what_failed_or_is_forgotten(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.LEASE)
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed))
    assert script.table.wake_at == 30.0


def test_outputs_of_what_ended_well_are_brought_back_after_a_stop(script: TableScript) -> None:
    """A user who stops a job may find that it was done."""
    script.passed()
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=WELL), batch_ended())
    assert reports(script.tell(STOP)) == []
    assert gone(script.tell(Collected(claim=CLAIM))) == WELL


def test_outputs_of_what_failed_are_not_brought_back_after_a_stop(script: TableScript) -> None:
    script.passed()
    failed = ClaimEnd(kind=EndKind.EXITED, statuses=(3,))
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=failed), batch_ended())
    assert gone(script.tell(STOP)) == failed


def test_a_claim_whose_starter_is_over_is_not_submitted_again_after_a_restart(
    script: TableScript,
) -> None:
    script.tell(a_hold())
    script.restarted()
    end = ClaimEnd(kind=EndKind.LEASE, reason="nobody answered")
    record = StarterRecord(nonce="n", end=end)
    outputs = script.tell(BatchUnlisted(claim=CLAIM, record=record))
    assert outputs == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))) == ClaimEnd(
        kind=EndKind.FAILED, reason="the starter ended before it checked in: nobody answered"
    )


def test_what_a_starter_had_while_nobody_was_there_is_told_with_its_times(
    script: TableScript,
) -> None:
    """It began and ended while the agent was away, so no check-in is known."""
    script.tell(a_hold())
    end = ClaimEnd(kind=EndKind.LEASE, reason="nobody answered", ended_at=120.0)
    record = StarterRecord(nonce="n", began_at=100.0, end=end)
    (report,) = reports(script.tell(batch_ended(record=record)))
    assert report.end is not None
    assert (report.began_at, report.end.kind, report.end.ended_at) == (
        100.0,
        EndKind.FAILED,
        120.0,
    )


# Pings and values ---------------------------------------------------------------------------------


def test_starters_get_what_answered_pings_measured_here_whatever_they_say_of_their_clock(
    script: TableScript,
) -> None:
    script.held()
    lie = 1e6
    script.at = 2.0
    script.tell(StarterSaid(nonce="n", message=Ping(claim=CLAIM, nonce="n", sent_at=lie)))
    script.at = 4.0
    script.tell(Pong(claim=CLAIM, nonce="n", sent_at=lie, now=103.0))
    sent = script.tell(CheckedIn(claim=CLAIM, nonce="n"))
    (adopted,) = [one.message for one in sent if isinstance(one, SendToStarter)]
    assert isinstance(adopted, Adopted)
    assert adopted.clock == (4.0, 1.0, 100.0)


def test_an_answer_goes_back_under_the_starters_own_number(script: TableScript) -> None:
    script.held()
    script.tell(StarterSaid(nonce="n", message=KvPut(claim=CLAIM, request=9, name="a", value="x")))
    answer = KvAnswer(claim=CLAIM, request=1, ok=True)
    (told_back,) = told(script.tell(answer))
    assert told_back == KvAnswer(claim=CLAIM, request=9, ok=True)
    assert script.tell(answer) == []


def test_questions_are_asked_again_in_the_next_session(script: TableScript) -> None:
    script.held()
    (asked,) = script.tell(
        StarterSaid(nonce="n", message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    )
    assert asked == SendToDaemon(message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    assert script.tell(LeasesSet(leases=LeaseTimes())) == [asked]


def test_a_question_that_a_starter_repeats_is_asked_and_counted_once(script: TableScript) -> None:
    """It does after each loss of its line; a few losses must not use up what a claim may ask."""
    script.held()
    get = StarterSaid(nonce="n", message=KvGet(claim=CLAIM, request=1, name="a", wait_s=5.0))
    (asked,) = script.tell(get)
    assert [script.tell(get) for _ in range(REQUESTS_MAX)] == [[]] * REQUESTS_MAX
    assert script.tell(LeasesSet(leases=LeaseTimes())) == [asked]
    script.tell(KvAnswer(claim=CLAIM, request=1, ok=True))
    assert len(script.tell(get)) == 1, "the answer may have been lost"


def test_a_value_that_was_refused_is_not_said_again(script: TableScript) -> None:
    script.held()
    script.tell(StarterSaid(nonce="n", message=KvPut(claim=CLAIM, request=1, name="a", value="x")))
    script.tell(KvAnswer(claim=CLAIM, request=1, ok=False, error="has another value"))
    assert not any(isinstance(said, KvPut) for said in script.table.inventory())


def test_every_state_survives_the_way_to_disk() -> None:
    story: list[Event] = [
        a_hold(output_files=("a",), wall_time_s=60.0),
        CheckedIn(claim=CLAIM, nonce="n"),
        StarterArmed(claim=CLAIM, nonce="n", number=NUMBER),
        RELEASE,
        StarterPassed(claim=CLAIM, nonce="n", passed_at=100.0),
        StarterEnded(claim=CLAIM, nonce="n", end=WELL),
        batch_ended(),
        Collected(claim=CLAIM, reason="missing: a"),
    ]
    script = TableScript()
    for event in story:
        script.tell(event)
        before = script.table.inventory()
        assert before
        script.restarted()
        assert script.table.inventory() == before
        if isinstance(event, BatchEnded):
            script.tell(batch_ended())  # collecting begins again
