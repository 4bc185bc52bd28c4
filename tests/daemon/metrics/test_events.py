"""The observer event by event: reasons of refusals, preemption, holds, copies, skew."""

from __future__ import annotations

from typing import Any

import pytest

from koala.common.metrics.declarations import Source
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import Readings
from koala.core.model import events as ev
from koala.core.model.actions import StartTransfer
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import ClaimId, SiteName, TransferId
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.daemon.metrics.observer import BatchObserver
from tests.common.metrics.scraping import rendered, samples, value
from tests.core.pipeline.test_claiming import high, preemptible
from tests.daemon.observed_script import Observe, ObservedScript
from tests.harness.builders import a_job, a_site


class MeteredScript(ObservedScript):
    """A script whose events are counted."""

    def __init__(self, policies: Policies | None = None, **parameters: Any) -> None:
        self.meter = Meter(Source.DAEMON, read=Readings)

        def make(scheduler: Scheduler) -> Observe:
            return BatchObserver(scheduler, self.meter).observe

        super().__init__(make, policies, **parameters)

    def value(self, name: str, **labels: str) -> float:
        """Return one sample."""
        return value(rendered(self.meter.registry), name, **labels)


def one_site(**facts: Any) -> MeteredScript:
    """Let 8 processors be asked of delft for j1, at 0."""
    script = MeteredScript()
    script.tell(a_site("delft", 8, grace_s=10.0, **facts), a_job("j1", 8))
    return script


@pytest.mark.parametrize(
    ("kind", "reason", "at", "counted"),
    [
        (EndKind.REFUSED, "", 9.9, "timeout"),
        (EndKind.REFUSED, "no account here", 1.0, "rejected"),
        (EndKind.REFUSED, "no account here", 9.0, "timeout"),
        (EndKind.STOPPED, "", 1.0, "stopped"),
        (EndKind.FAILED, "sbatch: error", 1.0, "failed"),
    ],
)
def test_a_claim_that_was_not_granted_counts_with_its_reason(
    kind: EndKind, reason: str, at: float, counted: str
) -> None:
    script = one_site()
    script.drop().at(at).tell(
        ev.ClaimGone(claim=ClaimId("j1/1/0/1"), end=ClaimEnd(kind=kind, reason=reason))
    )
    assert script.value("koala_claims_asked_total", site="delft") >= 1
    assert script.value("koala_claims_refused_total", site="delft", reason=counted) == 1
    assert script.value("koala_claim_answer_seconds_sum", answer="refused") == pytest.approx(at)
    faults = {k: n for k, n in samples(rendered(script.meter.registry)).items() if "faults" in k[0]}
    assert sum(faults.values()) == (kind is EndKind.FAILED)


def test_hold_run_and_wait_are_those_of_the_claims() -> None:
    script = one_site()
    script.running("j1")
    script.at(10.0)
    claim = script.scheduler.ledger[ClaimId("j1/1/0/1")]
    assert claim.grant is not None
    assert claim.passed_at is not None
    held_s, ran_s = claim.passed_at - claim.grant.at, 10.0 - claim.passed_at
    script.exits("j1/1/0/1", 0)
    assert script.value("koala_claim_hold_seconds_sum", outcome="started") == pytest.approx(held_s)
    run = script.value("koala_processor_seconds_total", site="delft", use="run")
    assert run == pytest.approx(8 * ran_s)
    wait_s = script.value("koala_job_wait_seconds_sum", priority="low")
    assert wait_s == pytest.approx(claim.passed_at)
    assert script.value("koala_claims_ended_total", site="delft", reason="exited") == 1
    assert script.value("koala_jobs_ended_total", outcome="finished") == 1
    assert script.value("koala_start_skew_seconds_count") == 0  # of one component there is none


def test_a_hold_in_vain_counts_as_lost() -> None:
    script = one_site()
    script.drop().at(1.0).grant("j1/1/0/1").drop()
    script.at(1.04).gone("j1/1/0/1", EndKind.VANISHED)
    assert script.value("koala_claim_hold_seconds_sum", outcome="lost") == pytest.approx(0.04)
    assert script.value("koala_site_faults_total", site="delft", reason="vanished") == 1
    assert script.value("koala_job_setbacks_total") == 1


def test_a_lease_that_ran_out_counts_once() -> None:
    script = one_site()
    script.running("j1")
    script.at(5.0).disconnect("delft").fence("j1/1/0/1")
    assert script.value("koala_leases_expired_total", site="delft") == 1
    assert script.value("koala_site_disconnects_total", site="delft") == 1
    assert script.value("koala_claims_ended_total", site="delft", reason="fenced") == 1


def test_a_preempted_attempt_counts() -> None:
    script = high(preemptible(MeteredScript), 8).at(0.75)
    assert isinstance(script, MeteredScript)
    assert script.value("koala_job_preemptions_total") == 1
    assert script.value("koala_job_setbacks_total") == 1
    assert script.value("koala_jobs_submitted_total", priority="high") == 1


def test_copies_count_at_their_target() -> None:
    script = MeteredScript()
    script.ignore(StartTransfer)
    script.tell(a_site("delft", 8), a_site("home", 1)).replica("data", "home", 1000)
    script.tell(a_job("j1", 8, file="data"))
    (transfer,) = script.scheduler.files.transfers
    script.at(2.0).drop().fetched(transfer, 1000, 1.5)
    assert script.value("koala_transfer_bytes_total", site="delft") == 1000
    assert script.value("koala_transfer_duration_seconds_sum") == 1.5
    assert script.value("koala_transfers_ended_total", site="delft", outcome="finished") == 1
    failed = ev.TransferFailed(transfer=TransferId(transfer), at=SiteName("home"), reason="gone")
    script.drop().tell(failed)  # it is over: nothing counts twice
    assert ("koala_transfers_ended_total", (("outcome", "failed"), ("site", "delft"))) not in (
        samples(rendered(script.meter.registry))
    )


def test_a_new_life_begins_with_what_is_open() -> None:
    script = one_site()
    script.running("j1")
    script.meter = Meter(Source.DAEMON, read=Readings)
    script.restart()
    script.at(10.0).exits("j1/1/0/1", 0)
    assert script.value("koala_claims_asked_total", site="delft") == 0
    assert script.value("koala_claims_ended_total", site="delft", reason="exited") == 1
    assert script.value("koala_jobs_ended_total", outcome="finished") == 1
    assert script.value("koala_job_wait_seconds_count", priority="low") == 0


def test_a_grant_that_is_told_again_counts_once() -> None:
    script = one_site().drop()
    script.grant("j1/1/0/1").drop().grant("j1/1/0/1").drop()
    assert isinstance(script, MeteredScript)
    assert script.value("koala_claims_granted_total", site="delft") == 1
    assert script.value("koala_claim_answer_seconds_count", answer="granted") == 1


def test_a_silent_claim_of_a_connected_site_ends_when_it_is_gone() -> None:
    script = one_site()
    script.running("j1")
    script.at(5.0).fence("j1/1/0/1").drop()
    assert script.value("koala_leases_expired_total", site="delft") == 1
    assert "koala_claims_ended_total{" not in rendered(script.meter.registry)
    script.at(9.0).drop().gone("j1/1/0/1", EndKind.STOPPED)
    assert script.value("koala_claims_ended_total", site="delft", reason="stopped") == 1
    assert script.value("koala_site_faults_total", site="delft", reason="fenced") == 1
