"""The claim table: holds, check-ins, and what the local manager says of batch jobs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koala.common.protocol.messages import ClaimEnd, EndKind, Ping, Pong, Report, ReportState
from koala_agent.claims.events import (
    Adopted,
    BatchFound,
    CheckedIn,
    Collect,
    Collected,
    SendToDaemon,
    SendToStarter,
    StarterEnded,
    StarterLost,
    StarterSaid,
    StoreClaim,
    Submit,
    SubmitFailed,
    Withdraw,
)
from koala_agent.claims.folder import StarterRecord
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.table import PAUSE_MAX_S
from koala_agent.lrm.local_manager import EndCause
from tests.agent.claims.table_script import (
    CLAIM,
    LOST,
    TELL_STOP,
    WELL,
    TableScript,
    a_hold,
    batch_ended,
    gone,
    reports,
    told,
)

# Hold and check in --------------------------------------------------------------------------------


def test_a_hold_is_written_down_and_then_submitted(script: TableScript) -> None:
    outputs = script.table.handle(a_hold(), 0.0)
    assert [type(output) for output in outputs] == [StoreClaim, Submit]


def test_a_check_in_is_written_before_it_is_told(script: TableScript) -> None:
    script.tell(a_hold())
    outputs = script.table.handle(CheckedIn(claim=CLAIM, nonce="n"), 1.0)
    assert [type(output) for output in outputs] == [StoreClaim, SendToDaemon, SendToStarter]
    (report,) = reports(outputs)
    assert (report.state, report.nonce) == (ReportState.GRANTED, "n")
    assert told(outputs) == [Adopted(leases=LeaseTimes())]


def test_a_claim_that_nobody_checks_in_for_is_refused_when_nothing_is_left(
    script: TableScript,
) -> None:
    script.tell(a_hold())
    assert script.table.wake_at == 5.0
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.WITHDRAWN))).kind is EndKind.REFUSED


def test_a_refusal_has_the_batch_systems_words_for_the_wait(script: TableScript) -> None:
    script.tell(a_hold())
    script.wake()
    over = replace(batch_ended(EndCause.WITHDRAWN), waited_for="no match found")
    assert gone(script.tell(over)).reason == "not started within 5 s: no match found"


def test_what_the_site_does_not_allow_is_refused_at_once() -> None:
    """Each refusal has the value, the key of the configuration, and what it allows."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"processors_max": 3}, "4 processors: site.largest_claim allows 3 here"),
        ({"hold_max_s": 59.0}, "a hold of 60 s: site.longest_hold_s allows 59 s here"),
        ({"users": ("ann",)}, "a claim of bob: accounts.user allows those of ann here"),
    ]
    for limits, reason in cases:
        end = gone(TableScript(**limits).tell(a_hold(owner="bob")))
        assert end == ClaimEnd(kind=EndKind.REFUSED, reason=reason)


def test_a_site_without_room_refuses_what_is_new_and_nothing_else(script: TableScript) -> None:
    full = replace(a_hold(), shortage="the agent's disk is nearly full")
    assert gone(script.tell(full)) == ClaimEnd(kind=EndKind.REFUSED, reason=full.shortage)
    granted = reports(script.tell(a_hold(), CheckedIn(claim=CLAIM, nonce="n")))
    assert reports(script.tell(full)) == granted, "what it has was taken before"


def test_the_users_whom_a_site_serves_are_named_a_few_at_a_time() -> None:
    limits: dict[str, Any] = {
        "users": tuple(f"u{i}" for i in range(7)),
        "users_key": "accounts.map",
    }
    assert gone(TableScript(**limits).tell(a_hold(owner=""))).reason == (
        "a claim of nobody: accounts.map allows those of u0, u1, u2, u3, u4 and 2 others here"
    )
    assert Submit in map(type, TableScript(**limits).tell(a_hold(owner="u6")))


def test_where_a_starter_checked_in_is_told_for_as_long_as_it_may_matter(
    script: TableScript,
) -> None:
    """The daemon puts the machines of an allocation into the bundles of all members."""
    hosts = (("n7", 2), ("n8", 1))
    first = CheckedIn(claim=CLAIM, nonce="n", address="10.0.0.7", hosts=hosts)
    found = reports(script.tell(a_hold(), first))
    # A connection that is made again comes from wherever it comes from.
    script.tell(replace(first, address="192.168.0.1", hosts=()))
    found += [said for said in script.table.inventory() if isinstance(said, Report)]
    assert [(said.address, said.hosts) for said in found] == [("10.0.0.7", hosts)] * 2


# Unknown claims -----------------------------------------------------------------------------------


# The local manager --------------------------------------------------------------------------------


def test_an_error_of_the_local_manager_fails_the_claim(script: TableScript) -> None:
    outputs = script.tell(
        a_hold(), SubmitFailed(claim=CLAIM, reason="sbatch: invalid account", is_transient=False)
    )
    end = gone(outputs)
    assert (end.kind, end.reason) == (EndKind.FAILED, "sbatch: invalid account")


def test_a_wish_that_the_local_manager_does_not_grant_is_no_error_of_the_site(
    script: TableScript,
) -> None:
    """A job may name a queue that is not there: others must not lose the site for it."""
    reason = "sbatch: Invalid partition name specified"
    failed = SubmitFailed(claim=CLAIM, reason=reason, is_transient=False, kind=EndKind.REFUSED)
    end = gone(script.tell(a_hold(), failed))
    assert (end.kind, end.reason) == (EndKind.REFUSED, reason)


@pytest.mark.parametrize("tries", [0, 2])
def test_what_no_site_would_take_is_the_job_s_own_end(script: TableScript, tries: int) -> None:
    script.tell(a_hold())
    for _ in range(tries):
        script.tell(SubmitFailed(claim=CLAIM, reason="still on their way", is_transient=True))
        script.wake()
    kind = EndKind.UNEXECUTABLE
    outputs = script.tell(SubmitFailed(claim=CLAIM, reason="no tar", is_transient=False, kind=kind))
    if tries:  # the local manager may have it
        outputs = script.tell(batch_ended(EndCause.WITHDRAWN))
    end = gone(outputs)
    assert (end.kind, end.reason) == (kind, "no tar")


def test_a_wish_with_which_a_job_never_starts_is_no_error_of_the_site(script: TableScript) -> None:
    end = gone(script.tell(a_hold(hosts=9), batch_ended(EndCause.WITHDRAWN)))
    assert end.kind is EndKind.REFUSED


def test_a_transient_error_is_tried_again_until_the_grace_time_ends(script: TableScript) -> None:
    script.tell(a_hold())
    failed = SubmitFailed(claim=CLAIM, reason="controller down", is_transient=True)
    tries = 0
    while True:
        script.tell(failed)
        (output,) = script.wake()
        if isinstance(output, Withdraw):
            break
        assert isinstance(output, Submit)
        tries += 1
    assert tries == 4
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert end.kind is EndKind.REFUSED
    assert "controller down" in end.reason


def test_a_refusal_after_a_submission_without_an_answer_is_confirmed_first(
    script: TableScript,
) -> None:
    """The first may have got through: then there is a batch job, whatever is said of the second."""
    script.tell(a_hold(), SubmitFailed(claim=CLAIM, reason="no answer", is_transient=True))
    assert isinstance(script.wake()[0], Submit)
    failed = SubmitFailed(claim=CLAIM, reason="limit reached", is_transient=False)
    assert script.tell(failed) == [Withdraw(claim=CLAIM)]
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert (end.kind, end.reason) == (EndKind.FAILED, "limit reached")


def test_a_batch_job_that_ends_before_the_check_in_fails_the_claim(script: TableScript) -> None:
    end = gone(script.tell(a_hold(), batch_ended(exit_status=127)))
    assert end.kind is EndKind.FAILED
    assert "127" in end.reason


def test_a_foreign_cancel_in_the_queue_is_the_sites(script: TableScript) -> None:
    end = gone(script.tell(a_hold(), batch_ended(EndCause.CANCELLED_BY_SITE)))
    assert end.kind is EndKind.SITE


def test_a_batch_job_that_was_over_before_its_starter_ran_could_not_begin(
    script: TableScript,
) -> None:
    end = gone(script.tell(a_hold(), batch_ended(EndCause.CANCELLED_BEGUN)))
    assert (end.kind, "prolog" in end.reason) == (EndKind.LAUNCH, True)


def test_a_program_that_its_site_cut_at_a_time_limit_brings_its_outputs_back(
    script: TableScript,
) -> None:
    """Its starter has only seen the signal, and says that the site ended it."""
    script.passed()
    script.tell(
        StarterEnded(claim=CLAIM, nonce="n", end=ClaimEnd(kind=EndKind.SITE, reason="TERM"))
    )
    outputs = script.tell(batch_ended(EndCause.TIME_LIMIT))
    assert any(isinstance(output, Collect) for output in outputs)
    end = gone(script.tell(Collected(claim=CLAIM)))
    assert end.kind is EndKind.WALL_TIME
    assert end.reason == "the time limit of its batch job; the job asked for none"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (EndCause.EXITED, EndKind.VANISHED),
        (EndCause.LOST, EndKind.VANISHED),
        (EndCause.CANCELLED_BY_SITE, EndKind.SITE),
        (EndCause.CANCELLED_BEGUN, EndKind.SITE),
        (EndCause.TIME_LIMIT, EndKind.WALL_TIME),
    ],
)
def test_a_batch_job_that_ends_without_a_word_of_its_starter(
    script: TableScript, cause: EndCause, kind: EndKind
) -> None:
    script.passed()
    outputs = script.tell(StarterLost(claim=CLAIM, nonce="n"), batch_ended(cause))
    assert gone(outputs).kind is kind
    assert reports(outputs)[0].passed_at == 100.0


def test_an_end_that_no_starter_told_has_the_instant_at_which_the_agent_learned_of_it(
    script: TableScript,
) -> None:
    """The daemon may be away meanwhile, and must not charge for its own absence."""
    script.passed()
    ping = Ping(claim=CLAIM, nonce="n", sent_at=0.0)
    script.tell(StarterSaid(nonce="n", message=ping))
    script.tell(Pong(claim=CLAIM, nonce="n", sent_at=0.0, now=200.0))
    script.at = 9.0
    script.tell(LOST, batch_ended())
    script.at = 500.0
    (report,) = script.table.inventory()
    assert isinstance(report, Report)
    assert report.end is not None
    assert report.end.ended_at == 209.0


def test_what_the_starter_wrote_down_says_how_it_ended(script: TableScript) -> None:
    """It passed and ended while the agent was away."""
    script.armed()
    record = StarterRecord(
        nonce="n", passed_at=100.0, end=ClaimEnd(kind=EndKind.EXITED, statuses=(4,))
    )
    outputs = script.tell(batch_ended(record=record))
    assert [type(output) for output in outputs if not isinstance(output, SendToStarter)] == [
        SendToDaemon,
        Collect,
    ]
    assert gone(script.tell(Collected(claim=CLAIM))).statuses == (4,)


def test_what_another_starter_wrote_down_says_nothing(script: TableScript) -> None:
    script.armed()
    script.tell(LOST)
    record = StarterRecord(nonce="other", passed_at=100.0, end=WELL)
    assert gone(script.tell(batch_ended(record=record))).kind is EndKind.VANISHED


def test_a_batch_job_that_nobody_knows_is_withdrawn(script: TableScript) -> None:
    assert script.tell(BatchFound(claim=CLAIM)) == [Withdraw(claim=CLAIM)]
    end = gone(script.tell(batch_ended(EndCause.WITHDRAWN)))
    assert (end.kind, end.reason) == (EndKind.STOPPED, "found in the local manager only")


# A batch system that counts as over what may live ------------------------------------------------


@pytest.mark.parametrize("cause", list(EndCause))
def test_a_connected_starter_lives_whatever_the_batch_system_says(
    script: TableScript, cause: EndCause
) -> None:
    """Slurm's steps outlive a slurmd that was killed: a Gone would let the next attempt begin
    beside them."""
    script.passed()
    assert script.tell(batch_ended(cause)) == [TELL_STOP]
    assert script.tell(batch_ended(cause)) == [TELL_STOP]
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=ClaimEnd(kind=EndKind.STOPPED)))
    assert gone(script.tell(batch_ended(cause))).kind is not EndKind.STOPPED or (
        cause is EndCause.WITHDRAWN
    )


def test_a_connection_that_goes_with_the_batch_job_was_the_last_of_it(script: TableScript) -> None:
    script.passed()
    assert script.tell(batch_ended(EndCause.CANCELLED_BY_SITE)) == [TELL_STOP]
    script.tell(LOST)
    assert script.wake() == [Withdraw(claim=CLAIM)]
    assert gone(script.tell(batch_ended(EndCause.CANCELLED_BY_SITE))).kind is EndKind.SITE


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_claim_on_a_machine_that_does_not_answer_is_gone_after_its_lease(
    script: TableScript, *, is_restarted: bool
) -> None:
    silent = batch_ended(EndCause.UNREACHABLE, reason="NODE_FAIL")
    script.passed()
    assert script.tell(LOST, silent) == []
    if is_restarted:
        script.restarted()
    while script.at < LeaseTimes().run_lease_s:
        assert script.wake() == [Withdraw(claim=CLAIM)]
        if script.at < LeaseTimes().run_lease_s:
            assert script.tell(silent) == []
    script.at += LeaseTimes().kill_s + PAUSE_MAX_S + 1.0
    end = gone(script.tell(silent))
    assert (end.kind, end.reason) == (EndKind.VANISHED, "NODE_FAIL")


def test_a_starter_that_comes_back_from_a_silent_machine_is_stopped(script: TableScript) -> None:
    silent = batch_ended(EndCause.UNREACHABLE, reason="NODE_FAIL")
    script.passed()
    script.tell(LOST, silent)
    outputs = script.tell(CheckedIn(claim=CLAIM, nonce="n", passed_at=100.0))
    assert outputs == [TELL_STOP]
    script.tell(StarterEnded(claim=CLAIM, nonce="n", end=ClaimEnd(kind=EndKind.STOPPED)))
    assert gone(script.tell(silent)).kind is EndKind.VANISHED


def test_a_hold_on_a_silent_machine_ends_with_its_shorter_lease(script: TableScript) -> None:
    script.held()
    script.tell(LOST, batch_ended(EndCause.UNREACHABLE))
    script.at += LeaseTimes().hold_lease_s + LeaseTimes().kill_s + PAUSE_MAX_S + 1.0
    assert gone(script.tell(batch_ended(EndCause.UNREACHABLE))).kind is EndKind.VANISHED
