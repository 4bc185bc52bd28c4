"""Words and records of claims that wait in local queues, and of what is expected of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from koala.cli.render.documents import report_text
from koala.common.protocol.messages import Outlook, SiteFigures, Wait
from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.events import ClaimGranted, SiteReported
from koala.core.model.job_spec import Deadline, Split
from koala.core.model.values import ClaimId, JobId, SiteName
from koala.policies import chosen
from koala.views.accounting import By, Period, ReportBuilder
from koala.views.documents import listed, whole_document
from koala.views.expected import expected_of_spec, missed_deadline
from koala.views.explain import why
from koala.views.records.base import Moment
from koala.views.records.jobs import QueueWait
from koala.views.waiting import BOOKED, NO_QUEUE, SiteQueue, describe_wait
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

HOUR = 3600.0
OCEAN, AIR = ClaimId("j1/1/0/1"), ClaimId("j1/1/1/1")
SOURCE = "queue run forward"
PLACES = (("ocean", "a"), ("air", "b"))


@pytest.fixture
def grid() -> Iterator[Script]:
    """Two sites of 8 processors that others use."""
    script = Script(chosen(tickets="dodge")).ignore(ClaimProcessors, StopClaim)
    script.tell(a_site("a", 8, idle=0, gate="qhold"), a_site("b", 8, idle=0, gate="qhold"))
    report(script, "a")
    report(script, "b")
    yield script
    script.drop().close()


def report(script: Script, site: str, *, idle: int = 0, **starts: float) -> None:
    claims = {"ocean": OCEAN, "air": AIR}
    known = script.scheduler.sites[SiteName(site)]
    told = tuple((claims[name], start_s) for name, start_s in starts.items())
    script.tell(
        SiteReported(
            site=SiteName(site), idle=idle, through=known.asks, local=8, queued=5, starts=told
        )
    ).drop()


def a_pair(script: Script) -> Script:
    """A job of two components in the queues of both sites; that of b is held back."""
    ocean = a_component(6, label="ocean", site="a", wall_time_s=HOUR)
    air = a_component(4, label="air", site="b", wall_time_s=HOUR)
    script.tell(a_job("j1", ocean, air)).drop()
    report(script, "a", ocean=2 * HOUR)
    report(script, "b", air=60.0)
    return script


def queue(*waits: Wait, outlook: tuple[tuple[int, float, float], ...] = ()) -> SiteQueue:
    figures = SiteFigures(
        idle=0,
        through=0,
        processors=8,
        local_processors=8,
        queued_jobs=1,
        waits=waits,
        outlook=tuple(
            Outlook(processors=size, run_s=run_s, start_in_s=start_s)
            for size, run_s, start_s in outlook
        ),
    )
    return SiteQueue.of(figures, system="Slurm")


def slurm(site: SiteName) -> SiteQueue:
    """Queue of a site: the first claims of both are jobs 13 and 14."""
    number, claim = ("13", OCEAN) if site == "a" else ("14", AIR)
    wait = Wait(claim=claim, number=number, reason="Resources", source=SOURCE, start_in_s=1.0)
    return queue(wait, outlook=((2, HOUR, 60.0), (8, 600.0, 120.0), (8, HOUR, 2 * HOUR)))


def short_reason(script: Script) -> str:
    (found,) = listed(script.scheduler, [script.job("j1")], slurm, script.now)
    return found.reason


def said(script: Script) -> str:
    return "\n".join(why(script.scheduler, JobId("j1"), script.now, slurm))


def test_a_waiting_claim_is_told_with_its_job_reason_wait_and_expected_start(grid: Script) -> None:
    a_pair(grid).after(12.0)
    text = said(grid)
    ocean = "component ocean: queued at a as Slurm job 13 (Resources) for 12 s, estimated start in"
    assert ocean in text
    assert f"; {SOURCE})" in text
    assert (
        "component air: queued at b as Slurm job 14 (Resources) for 12 s, gated, with its" in text
    )
    details = whole_document(grid.scheduler, JobId("j1"), grid.now, slurm)
    assert details.parts[0].wait in text
    assert [wait.batch_job for wait in details.parts[0].waits] == ["13", "", ""]
    short = short_reason(grid)
    assert short == "a: start about 02:00 UTC, Slurm job 13 (Resources); 1 more wait"
    assert details.reason == short


def test_the_slow_component_its_cost_and_what_would_be_sooner_are_told(grid: Script) -> None:
    a_pair(grid)
    found = whole_document(grid.scheduler, JobId("j1"), grid.now, slurm).expected
    assert found is not None
    assert (found.component, found.site, found.is_place_kept) == ("ocean", "a", True)
    assert found.start_at is not None
    assert float(found.start_at) == 2 * HOUR
    assert found.sooner == (
        "component ocean with 2 processors, in 60 s",
        "component ocean with a wall time of 10 min, in 2 min",
    )
    assert "waits with its place kept" in said(grid)
    assert all(words in said(grid) for words in found.words)


def test_what_is_held_meanwhile_is_told_and_until_when(grid: Script) -> None:
    a_pair(grid)
    report(grid, "b", air=0.0)
    grid.after(HOUR)
    grid.tell(ClaimGranted(claim=AIR, nonce="n")).drop()
    grid.after(5.0)
    assert "component air: holds 4 processors at b for 5 s, given back in " in said(grid)
    reason = short_reason(grid)
    assert reason.endswith("; b holds 4")
    expected = whole_document(grid.scheduler, JobId("j1"), grid.now, slurm).expected
    assert expected is not None
    assert expected.held_s == pytest.approx(20.0)


def test_a_start_that_lies_in_its_interval_is_counted(grid: Script) -> None:
    a_pair(grid)
    report(grid, "a", ocean=2 * HOUR)  # now it is open
    grid.after(2 * HOUR)
    grid.tell(ClaimGranted(claim=OCEAN, nonce="n")).drop()
    found = ReportBuilder(grid.scheduler, By.SITE, Period(), grid.now).report()
    assert [(row.site, row.starts_stated, row.starts_met) for row in found.rows] == [("a", 1, 1)]
    assert "a: of 1 stated start 100 % lay within their intervals" in report_text(found)


def test_a_description_has_an_expected_start_and_a_deadline_that_is_too_early(
    grid: Script,
) -> None:
    state, spec = grid.scheduler, a_job("j9", 6, deadline=Deadline(after_s=HOUR)).spec
    assert expected_of_spec(state, spec, lambda _: NO_QUEUE, 0.0) == (
        "its start is unknown: no site tells when component 0 could start"
    )
    expected = expected_of_spec(state, spec, slurm, 0.0)
    assert expected == "its start is unknown: no site tells when component 0 could start"

    def endless(_: SiteName) -> SiteQueue:
        return queue(outlook=((8, 1e8, 3 * HOUR),))

    assert "estimated start in 3.0 h, about 03:00 UTC" in expected_of_spec(state, spec, endless, 0)
    assert "the deadline, in 60 min, is too early" in missed_deadline(
        state, spec, HOUR, endless, 0.0
    )
    assert not missed_deadline(state, spec, 4 * HOUR, endless, 0.0)
    report(grid, "b", idle=8)
    assert expected_of_spec(state, spec, endless, 0.0) == "it could start now"
    split = Split(total=12, least=12, part_max=12, parts_max=12)
    total = dataclasses.replace(spec, split=split)
    told = expected_of_spec(state, total, endless, 0.0)  # larger than each site
    assert told.endswith(": component 0 at a is last")
    report(grid, "a", idle=4)
    assert expected_of_spec(state, total, endless, 0.0) == "it could start now"


def test_a_site_that_tells_no_start_is_judged_by_past_waits() -> None:
    at = Moment.of(0.0)
    wait = QueueWait(claim=OCEAN, site="a", asked_at=at, batch_job="13", system="HTCondor")
    assert describe_wait(wait, 60.0) == "queued at a as HTCondor job 13 for 60 s"
    usual = replace(wait, earliest_at=Moment.of(90.0), latest_at=Moment.of(660.0))
    assert describe_wait(usual, 60.0).endswith(
        ", start unknown, in 30 s to 10 min if it waits as claims did before"
    )


def test_a_booked_claim_is_told_with_its_begin() -> None:
    at, begin = Moment.of(0.0), Moment.of(7260.0)
    wait = QueueWait(
        claim=OCEAN, site="a", asked_at=at, system="OAR", start_at=begin, source=BOOKED
    )
    assert describe_wait(wait, 60.0) == "asks a for a booking, begins in 2.0 h"
    made = replace(wait, batch_job="12")
    assert describe_wait(made, 60.0) == "booked at a as OAR job 12, begins in 2.0 h"


def test_a_list_says_in_short_why_jobs_are_not_placed(grid: Script) -> None:
    grid.tell(a_job("j1", 6, deadline=Deadline(after_s=HOUR))).drop()
    assert short_reason(grid) == "is to start at 01:00 UTC"
    script = Script()
    script.tell(a_site("a", 8, idle=2), a_job("j1", 4)).drop()
    assert short_reason(script) == "a: 2 of 4 processors idle"
    script.disconnect("a").drop()
    assert short_reason(script) == "no site can be used now"


def test_a_claim_whose_site_is_full_by_then_is_told_with_its_end_and_what_is_held() -> None:
    script = Script(chosen(tickets="none")).ignore(ClaimProcessors, StopClaim)
    sites = (a_site(name, 8, idle=8, grace_s=60.0) for name in ("a", "b"))
    ocean, air = (a_component(6, label=label, site=site) for label, site in PLACES)
    script.tell(*sites, a_job("j1", ocean, air)).drop()
    script.after(2.0).tell(ClaimGranted(claim=AIR, nonce="n")).drop()
    script.after(10.0)
    text = said(script)
    assert "component ocean: queued at a as Slurm job 13 (Resources) for 12 s, " in text
    assert ", withdrawn in 48 s" in text
    assert "component air: holds 6 processors at b for 10 s, given back in " in text
    assert short_reason(script) == "a: Slurm job 13 (Resources); b holds 6"
