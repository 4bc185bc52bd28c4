"""Reports of sites as the core receives them: resources, by registrations and figures."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from koala.common.protocol.limits import ENDLESS_S
from koala.common.protocol.messages import (
    ClaimEnd,
    EndKind,
    Facts,
    Hole,
    Outlook,
    Register,
    Report,
    ReportState,
    SiteFigures,
    SiteResources,
)
from koala.common.protocol.names import SILENT, ClaimId
from koala.common.protocol.versions import PROTOCOL
from koala.core.model import events as ev
from koala.core.model.actions import Announce
from koala.core.model.claim import claim_charge
from koala.core.model.parameters import Parameters
from koala.core.model.values import JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents import reports
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.policies import chosen
from koala.views.documents import sites_document
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

DELFT = SiteName("delft")
HAS = SiteResources(gpus=4)


def told(
    scheduler: Scheduler, resources: SiteResources, trouble: str = "", gate: str = ""
) -> list[ev.Event]:
    """Hand the events of one report to the core; return them."""
    figures = SiteFigures(
        idle=0,
        through=0,
        processors=8,
        local_processors=0,
        queued_jobs=0,
        trouble=trouble,
        resources=resources,
        gate=gate,
    )
    events = []
    for event in reports.report_events(figures, DELFT, scheduler, rtt_s=0.0, now=2.0):
        scheduler.handle(event, 2.0)
        events.append(event)
    return events


def test_a_batch_system_that_does_not_answer_tells_nothing_of_gpus() -> None:
    """Neither at first, nor when its agent was started again meanwhile."""
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft"), 1.0)
    site = scheduler.sites[DELFT]
    (event,) = told(scheduler, SiteResources(), "the batch system gives no answer")
    assert isinstance(event, ev.SiteReported)
    assert not site.has_told_resources
    told(scheduler, HAS)
    assert (site.has_told_resources, site.facts.resources) == (True, HAS)
    told(scheduler, SiteResources(), "the batch system gives no answer")
    assert (site.has_told_resources, site.facts.resources) == (True, HAS)
    told(scheduler, SiteResources())
    assert site.facts.resources == SiteResources()


def test_a_gate_that_a_batch_system_is_asked_for_after_the_registration_is_known() -> None:
    """It stays known while the batch system is away, or its agent was started again."""
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft"), 1.0)
    site = scheduler.sites[DELFT]
    told(scheduler, HAS, gate="user hold")
    assert site.facts.gate == "user hold"
    assert [type(event) for event in told(scheduler, HAS, gate="user hold")] == [ev.SiteReported]
    told(scheduler, SiteResources(), "the batch system gives no answer")
    assert site.facts.gate == "user hold"
    registration = Register(
        protocol=PROTOCOL, site=DELFT, session="2", epoch_seen=1, facts=Facts(processors=8), idle=0
    )
    for event in reports.registration_events(registration, (), scheduler, ReplicaReports(), 3.0):
        scheduler.handle(event, 3.0)
    assert site.facts.gate == "user hold"
    told(scheduler, HAS)
    assert site.facts.gate == ""


def test_a_batch_system_that_falls_silent_or_answers_again_is_announced_once() -> None:
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft"), 1.0)
    found, states = [], []
    for trouble in ("", f"{SILENT} (squeue)", f"{SILENT} (sinfo)", "it refuses claims", ""):
        figures = SiteFigures(
            idle=0, through=0, processors=8, local_processors=0, queued_jobs=0, trouble=trouble
        )
        for event in reports.report_events(figures, DELFT, scheduler, rtt_s=0.0, now=2.0):
            actions = scheduler.handle(event, 2.0)
            found += [one.text for one in actions if isinstance(one, Announce)]
        states.append(sites_document(scheduler)[0].state)
    assert found == [f"unusable: {SILENT} (squeue)", "usable: its batch system answers"]
    assert states == ["usable", "unusable", "unusable", "usable", "usable"]


@pytest.mark.parametrize(("began_at", "held_from"), [(12.0, 12.0), (-5.0, 10.0), (99.0, 40.0)])
def test_a_claim_is_charged_from_the_start_of_its_starter(
    began_at: float, held_from: float
) -> None:
    """Also one that the daemon learned of when it was back; the rest of a report is not believed.
    Its fence rests on the daemon's clock."""
    script = Script().at(10.0).tell(a_site("delft"), a_job("j1", 1))
    claim = script.scheduler.ledger[ClaimId(script.claimed("j1")[0])]
    report = Report(claim=claim.id, state=ReportState.GRANTED, nonce="n", began_at=began_at)
    for event in reports.report_events(report, DELFT, script.scheduler, rtt_s=0.0, now=40.0):
        script.scheduler.handle(event, 40.0)
    assert claim.grant is not None
    assert (claim.grant.at, claim.grant.held_from) == (40.0, held_from)
    assert claim_charge(claim, None, 41.0).granted_at == held_from


def test_a_claim_that_came_and_went_while_the_daemon_was_away_is_charged() -> None:
    script = Script().at(10.0).tell(a_site("delft"), a_job("j1", 3))
    (claim,) = script.claimed("j1")
    end = ClaimEnd(kind=EndKind.LEASE, ended_at=32.0)
    report = Report(claim=ClaimId(claim), state=ReportState.GONE, end=end, began_at=12.0)
    for event in reports.report_events(report, DELFT, script.scheduler, rtt_s=0.0, now=40.0):
        script.scheduler.handle(event, 40.0)
    (charge,) = script.scheduler.jobs[JobId("j1")].charges
    assert (charge.granted_at, charge.ended_at, charge.end) == (12.0, 32.0, "lease")


def test_another_round_trip_changes_nothing_else_of_what_a_site_told() -> None:
    scheduler = Scheduler(Parameters(), chosen())
    scheduler.handle(a_site("delft"), 1.0)
    figures = SiteFigures(
        idle=2, through=0, processors=8, local_processors=6, queued_jobs=1, asleep=1, wake_s=60.0,
        holes=(Hole(processors=4, for_s=600.0), Hole(processors=3, for_s=ENDLESS_S)),
        outlook=(Outlook(processors=8, run_s=60.0, start_in_s=90.0),),
    )  # fmt: skip
    site = scheduler.sites[DELFT]
    for event in reports.report_events(figures, DELFT, scheduler, rtt_s=0.1, now=2.0):
        scheduler.handle(event, 2.0)
    before = replace(site, rtt_s=0.5)
    scheduler.handle(reports.with_round_trip(figures, site, 0.5, 9.0), 9.0)
    names = [one.name for one in fields(site)]
    assert {name: getattr(site, name) for name in names} == {
        name: getattr(before, name) for name in names
    }
