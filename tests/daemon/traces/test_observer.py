"""The observer of traces event by event: refusals, earlier attempts, ends in each phase."""

from __future__ import annotations

from typing import Any

import pytest

from koala.core.model import events as ev
from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    StartTransfer,
    StopClaim,
)
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.values import ClaimId, JobId, UserName
from koala.core.scheduler import Scheduler
from koala.daemon.traces.observer import TraceObserver
from koala.views.spans import Span
from tests.daemon.observed_script import Observe, ObservedScript
from tests.harness.builders import a_job, a_site


class TracedScript(ObservedScript):
    """A script whose jobs leave traces."""

    def __init__(self, **parameters: Any) -> None:
        self.traces: list[list[Span]] = []

        def make(scheduler: Scheduler) -> Observe:
            return TraceObserver(scheduler, lambda spans: self.traces.append([*spans])).observe

        super().__init__(make, **parameters)

    def rows(self) -> list[tuple[str, float, float, str]]:
        """Return name, bounds and error of each span of the only trace."""
        (spans,) = self.traces
        return [(span.name.value, span.since, span.until, span.error) for span in spans]


CANCEL = ev.JobCancelRequested(job=JobId("j1"), by=UserName("ada"))


def gone(claim: str, kind: EndKind) -> ev.ClaimGone:
    return ev.ClaimGone(claim=ClaimId(claim), end=ClaimEnd(kind=kind))


def granted(claim: str) -> ev.ClaimGranted:
    return ev.ClaimGranted(claim=ClaimId(claim), nonce="n")


def asked() -> TracedScript:
    """Let 8 processors be asked of delft for j1, at 0."""
    script = TracedScript()
    script.ignore(ClaimProcessors, ArmClaim, StopClaim)
    script.tell(a_site("delft", 8, grace_s=10.0), a_job("j1", 8))
    return script


def test_a_job_that_was_never_placed_has_its_time_in_the_queue() -> None:
    script = TracedScript()
    script.tell(a_job("j1", 8)).at(5.0).tell(CANCEL)
    assert script.rows() == [
        ("job", 0.0, 5.0, ""),
        ("submit", 0.0, 0.0, ""),
        ("placement", 0.0, 5.0, ""),
    ]


def test_refused_claims_are_in_the_trace() -> None:
    script = asked()
    script.at(2.0).tell(gone("j1/1/0/1", EndKind.REFUSED))
    script.at(3.0).tell(CANCEL)
    rows = script.rows()
    assert ("claim", 0.0, 2.0, "not granted") in rows
    (spans,) = script.traces
    placements = [span for span in spans if span.name == "placement"]
    assert [span.attributes["koala.attempt"] for span in placements] == [1, 2]
    assert (placements[1].since, placements[1].until) == (2.0, 3.0)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_claim_that_is_being_stopped_ends_with_its_job(*, is_restarted: bool) -> None:
    script = asked()
    script.at(1.0).tell(granted("j1/1/0/1"))
    if is_restarted:
        script.restart()
    script.at(4.0).tell(CANCEL)
    (spans,) = script.traces
    assert script.rows()[2:] == [
        ("placement", 0.0, 0.0, ""),
        ("claim", 0.0, 1.0, ""),
        ("barrier", 1.0, 4.0, "not started"),
    ]
    assert spans[-1].attributes["koala.claim.end"] == "stopping"
    assert spans[-1].attributes["koala.site"] == "delft"
    script.at(6.0).tell(gone("j1/1/0/1", EndKind.STOPPED))
    assert len(script.traces) == 1


def test_a_fault_of_a_site_is_an_error() -> None:
    script = asked()
    script.at(1.0).tell(granted("j1/1/0/1"))
    script.at(2.0).tell(gone("j1/1/0/1", EndKind.VANISHED))
    script.at(3.0).tell(CANCEL)
    assert ("barrier", 1.0, 2.0, "vanished") in script.rows()


def test_copies_of_input_files_are_in_the_trace() -> None:
    script = TracedScript()
    script.ignore(ClaimProcessors, StartTransfer, StopClaim, CancelTransfer)
    script.tell(a_site("delft", 8), a_site("home", 1)).replica("data", "home", 1000)
    script.tell(a_job("j1", 8, file="data"))
    (transfer,) = script.scheduler.files.transfers
    script.at(2.0).fetched(transfer, 1000, 1.5)
    script.at(3.0).tell(CANCEL)
    (spans,) = script.traces
    (copy,) = [span for span in spans if span.name == "transfer"]
    assert (copy.since, copy.until) == (0.0, 2.0)
    assert copy.attributes["koala.source"] == "home"
    assert copy.attributes["koala.site"] == "delft"
    assert copy.attributes["koala.bytes"] == 1000
