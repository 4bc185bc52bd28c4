"""Bookings: claims that begin at a known instant, mixed with claims that wait in queues."""

from __future__ import annotations

from typing import Any

import pytest

from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.job import EndKind
from koala.core.model.values import SiteName, UserName
from koala.policies import chosen
from koala.policies.tickets.booking import MARGIN_S
from tests.core.conftest import Begin
from tests.core.pipeline.test_tickets import a_pair, opened, tell, told
from tests.harness.builders import a_site
from tests.harness.script import Script

HOUR = 3600.0
FULL = "all processors are booked then"
OPERATOR = UserName("operator")


def two_sites(begin: Begin, *, b_books: bool = False, gate: str = "", **parameters: Any) -> Script:
    """Two busy sites; `a` books, and has no gate unless said otherwise."""
    script = begin(chosen(tickets="book"), hold_s=900.0, **parameters)
    script.tell(a_site("a", 8, idle=0, gate=gate, books="oar"))
    script.tell(a_site("b", 8, idle=0, gate="hold", books="oar" if b_books else ""))
    tell(script, "a")
    tell(script, "b")
    return script.ignore(ClaimProcessors)


def begins(script: Script) -> dict[str, float]:
    """Bookings that have not begun: by claim, the time until each begins."""
    return {
        claim.id: round(claim.begins_at - script.now, 6)
        for claim in script.scheduler.ledger.values()
        if claim.begins_at and claim.phase.name == "asked"
    }


def refuse(script: Script, claim: str) -> None:
    script.gone(claim, EndKind.REFUSED, reason=FULL)


@pytest.fixture
def mixed(begin: Begin) -> Script:
    """A pair; `b`, which does not book, expects its part in two hours."""
    script = two_sites(begin).tell(a_pair())
    assert begins(script) == {}  # nobody knows yet when the other part comes up
    tell(script, "b", c1n1=2 * HOUR)
    return script


def test_a_site_is_booked_for_the_instant_at_which_the_other_part_is_expected(
    mixed: Script,
) -> None:
    assert begins(mixed) == {"j1/1/0/1": 2 * HOUR + MARGIN_S}
    assert opened(mixed) == ["j1/1/1/1", "j1/1/0/1"]
    wanted = mixed.scheduler.wanted(SiteName("a")).holds
    assert [(one.claim, one.waits, one.is_gated) for one in wanted] == [("j1/1/0/1", True, False)]
    assert wanted[0].begins_at == 2 * HOUR + MARGIN_S


def test_parts_that_book_and_parts_that_wait_start_together(mixed: Script) -> None:
    mixed.ignore(StopClaim).after(2 * HOUR)
    mixed.grant("j1/1/1/1").after(MARGIN_S + 44).grant("j1/1/0/1")
    assert mixed.phase("j1") == "Starting"
    mixed.released("j1")


def test_a_part_that_waits_is_opened_for_the_instant_that_is_booked(mixed: Script) -> None:
    """Its site refuses earlier ones."""
    refuse(mixed, "j1/1/0/1")
    refuse(mixed, "j1/1/0/2")
    refuse(mixed, "j1/1/0/3")
    assert begins(mixed) == {"j1/1/0/4": 2 * HOUR + 8 * MARGIN_S}
    mixed.after(2 * HOUR + 7 * MARGIN_S - 300)
    assert opened(mixed) == ["j1/1/0/4"]
    mixed.after(3 * MARGIN_S)
    assert opened(mixed) == ["j1/1/1/1", "j1/1/0/4"]


def test_all_sites_that_book_are_booked_for_one_instant_that_they_accept(begin: Begin) -> None:
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    assert begins(script) == {"j1/1/0/1": MARGIN_S, "j1/1/1/1": MARGIN_S}
    refuse(script, "j1/1/1/1")
    refuse(script, "j1/1/1/4")
    assert begins(script) == {"j1/1/0/4": 4 * MARGIN_S, "j1/1/1/5": 4 * MARGIN_S}
    assert FULL in told(script)


def test_a_site_that_refuses_for_days_is_waited_for_in_its_queue(begin: Begin) -> None:
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    tries = 0
    while refused := [name for name in begins(script) if name.split("/")[2] == "0"]:
        refuse(script, *refused)
        tries += 1
    assert tries == 12
    tell(script, "a", c0n2=HOUR)
    assert list(begins(script).values()) == [HOUR + MARGIN_S]
    assert list(begins(script))[0].startswith("j1/1/1/")
