"""The page of busy clusters is what the scheduler does: its picture, and what `koala why` says."""

from __future__ import annotations

import re

from koala.common.protocol.messages import Outlook, Wait
from koala.core.model.actions import ArmClaim, ClaimProcessors, StopClaim
from koala.core.model.events import SiteReported
from koala.core.model.values import ClaimId, JobId, SiteName
from koala.policies import chosen
from koala.views.explain import why
from koala.views.waiting import SiteQueue
from tests.documents.blocks import blocks
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "concepts" / "busy-clusters.md"
SITES = {"ocean": "delft", "air": "vu"}
ARROW = re.compile(r"(?:K->>[DV]|[DV]->>K): (\d\d:\d\d .*)")
ASKED_MIN = 180
"""Minute at which the page asks why."""
GRANTS = {297: "j1/1/1/1", 328: "j1/1/1/2", 330: "j1/1/0/1"}
"""The queues start these tickets, by the minute."""


def test_the_page_shows_what_happens() -> None:
    shown = {block.language: block.text for block in reversed([*blocks(PAGE)])}  # the first ones
    told, picture = scene()
    assert shown["text"].splitlines() == told
    assert ARROW.findall(shown["mermaid"]) == picture


def scene() -> tuple[list[str], list[str]]:
    """Return what `koala why` says at some time, and what happens to all tickets."""
    script = Script(chosen(tickets="dodge")).ignore(ClaimProcessors, StopClaim, ArmClaim)
    for site in SITES.values():
        script.tell(a_site(site, 64, idle=0, gate="user hold"))
    tell(script, 0)
    ocean = a_component(16, site="delft", label="ocean", wall_time_s=7200.0)
    air = a_component(8, site="vu", label="air", wall_time_s=7200.0)
    script.tell(a_job("j1", ocean, air))
    told: list[str] = []
    picture: list[str] = []
    before: dict[ClaimId, str] = {}
    for minute in range(max(GRANTS) + 1):
        script.at(minute * 60.0)
        if minute in GRANTS:
            script.grant(GRANTS[minute])
        tell(script, minute)
        now = tickets(script)
        picture += news(before, now, minute)
        before = now
        if minute == ASKED_MIN:
            told = why(script.scheduler, JobId("j1"), script.now, local_queue)
    assert script.phase("j1") == "Starting"
    return told, picture


def tell(script: Script, minute: int) -> None:
    """Reports of both sites; others that come in between delay one by half an hour."""
    turns = {"delft": 300 if minute < 295 else 330, "vu": 120}
    for component, site in enumerate(SITES.values()):
        start_s = max(turns[site] - minute, 1) * 60.0
        state = script.scheduler
        mine = [name for name in state.ledger if name.startswith(f"j1/1/{component}/")]
        through = state.sites[SiteName(site)].asks
        starts = tuple((name, start_s) for name in mine)
        script.tell(
            SiteReported(
                site=SiteName(site), idle=0, through=through, local=64, queued=5, starts=starts
            )
        )


def local_queue(site: SiteName) -> SiteQueue:
    """The words of both sites for the claims that wait there."""
    first = {"delft": ("j1/1/0/", 4711), "vu": ("j1/1/1/", 815)}[site]
    reason = "Resources" if site == "delft" else ""
    numbers = {ClaimId(f"{first[0]}{n}"): str(first[1] + n - 1) for n in (1, 2, 3)}
    waits = {
        claim: Wait(claim=claim, number=number, reason=reason, source="queue run forward")
        for claim, number in numbers.items()
    }
    outlook = Outlook(processors=4, run_s=1e8, start_in_s=1200.0)
    return SiteQueue(system="Slurm", waits=waits, outlook=(outlook,))


def tickets(script: Script) -> dict[ClaimId, str]:
    """Tickets that wait or hold: gated, open or held."""
    return {
        claim.id: ("gated" if claim.is_gated else "open") if claim.grant is None else "held"
        for claim in script.scheduler.ledger.values()
        if claim.phase.name in ("asked", "granted")
    }


def news(before: dict[ClaimId, str], now: dict[ClaimId, str], minute: int) -> list[str]:
    """The arrows of the picture for what has changed within a minute."""
    lines = []
    for component, name in enumerate(SITES):
        mine = [claim for claim in {**before, **now} if claim.startswith(f"j1/1/{component}/")]
        if not before:
            told = {claim: now[claim] for claim in mine}
            lines.append(f"{name}: {queued(told)}")
            continue
        for claim in mine:
            number = claim.rpartition("/")[2]
            match before.get(claim), now.get(claim):
                case "gated", "open":
                    lines.append(f"{name}: open ticket {number}")
                case "open", "gated":
                    lines.append(f"{name}: gate ticket {number}")
                case "open" | "gated", "held":
                    lines.append(f"{name}: ticket {number} holds")
                case "held", None:
                    lines.append(f"{name}: give back ticket {number}")
                case None, "gated":
                    lines.append(f"{name}: queue ticket {number}, gated")
                case _:
                    pass
    return [f"{minute // 60:02}:{minute % 60:02} {line}" for line in lines]


def queued(told: dict[ClaimId, str]) -> str:
    """The first tickets of a component, all gated or the oldest open."""
    oldest, *others = told.values()
    assert others == ["gated", "gated"]
    return "tickets 1, 2 and 3 gated" if oldest == "gated" else "ticket 1 open, 2 and 3 gated"
