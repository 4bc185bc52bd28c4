"""Tickets of an agent over the emulated local manager: they wait as long as it takes, and gated."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.protocol.messages import EndKind, Report, ReportState
from koala.common.protocol.names import ClaimId
from koala_agent.claims.settings import Limits
from koala_agent.lrm.local_manager import Queued
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.fake_daemon import GRANTED, fake_daemon, hold
from tests.agent.site import Site, a_hold, a_site, own_claim

pytestmark = pytest.mark.live


async def test_a_ticket_outlasts_the_grace_time_that_others_have(tmp_path: Path) -> None:
    ticket, other = own_claim(0), own_claim(1)
    async with a_site(tmp_path, limits=Limits(grace_s=0.1)) as site:
        site.claims.order(a_hold(ticket, waits=True, is_gated=True, hold_s=0.1))
        site.claims.order(a_hold(other, is_gated=True))
        gone = await site.gone(other)
        assert gone.end is not None
        assert gone.end.kind is EndKind.REFUSED
        await site.granted(a_hold(ticket, waits=True))
        await site.gone(ticket)


async def test_a_gated_ticket_outlives_its_agent(tmp_path: Path) -> None:
    ticket = own_claim(0)
    async with a_site(tmp_path, processors=8) as site:
        site.claims.order(a_hold(ticket, processors=8, waits=True, is_gated=True, hold_s=0.1))
        await passed_by(site, own_claim(1))
        assert await site.manager.find(ticket) == Queued(claim=ticket)
    async with a_site(tmp_path, processors=8) as site:
        await site.claims.prepared()
        assert Report(claim=ClaimId(ticket), state=ReportState.ASKED) in site.claims.inventory()
        await passed_by(site, own_claim(2))
        await site.granted(a_hold(ticket, processors=8, waits=True))
        await site.gone(ticket)


async def passed_by(site: Site, claim: str) -> None:
    """Let another claim have the whole site for a moment."""
    await site.granted(a_hold(claim, processors=8, hold_s=0.1))
    await site.gone(claim)


@pytest.mark.slow
async def test_a_daemon_is_told_of_the_gate_and_of_waits(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    order = hold(claim, "-c", "true")
    order.hold.waits = order.hold.is_gated = True
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(order)
        assert session.register.facts.gate == "queue"
        site = await session.next("site", lambda report: len(report.waits) == 1)
        assert (site.idle, site.queued_jobs, site.foreign_queued) == (4, 1, 0)
        (wait,) = site.waits
        assert (wait.claim, wait.start_in_s, wait.source) == (claim, 0.0, "queue run forward")
        order.hold.is_gated = False
        session.say(hold=order.hold)
        await session.claim(claim, GRANTED)
        await session.next("site", lambda report: not report.waits)
