"""Reports of sites as the core receives them: resources, by registrations and figures."""

from __future__ import annotations

from koala.common.protocol.messages import Facts, Register, SiteFigures, SiteResources
from koala.core.model import events as ev
from koala.core.model.parameters import Parameters
from koala.core.model.values import SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents import reports
from koala.daemon.agents.replica_reports import ReplicaReports
from koala.policies import chosen
from tests.harness.builders import a_site

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
        protocol=1, site=DELFT, session="2", epoch_seen=1, facts=Facts(processors=8), idle=0
    )
    for event in reports.registration_events(registration, (), scheduler, ReplicaReports(), 3.0):
        scheduler.handle(event, 3.0)
    assert site.facts.gate == "user hold"
    told(scheduler, HAS)
    assert site.facts.gate == ""
