"""Bookings: claims that begin at a known instant, mixed with claims that wait in queues."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.events import DaemonStarted, SiteDrained, SiteReported, SiteResumed
from koala.core.model.job import EndKind
from koala.core.model.values import ClaimId, SiteName, UserName
from koala.core.pipeline.claiming import BUDGET_IS_USED
from koala.policies import chosen
from koala.policies.tickets.booking import MARGIN_S
from tests.core.conftest import Begin
from tests.core.tickets.test_tickets import a_pair, gates, idle_now, opened, tell, told
from tests.harness.builders import a_component, a_job, a_site
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
    return a_mixed_pair(begin)


def a_mixed_pair(begin: Begin) -> Script:
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
    mixed.after(4 * MARGIN_S)
    assert opened(mixed) == ["j1/1/1/1", "j1/1/0/4"]


def test_all_sites_that_book_are_booked_for_one_instant_that_they_accept(begin: Begin) -> None:
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    assert begins(script) == {"j1/1/0/1": MARGIN_S, "j1/1/1/1": MARGIN_S}
    refuse(script, "j1/1/1/1")
    refuse(script, "j1/1/1/4")
    assert begins(script) == {"j1/1/0/4": 4 * MARGIN_S, "j1/1/1/5": 4 * MARGIN_S}
    assert FULL in told(script)


def test_a_booking_does_not_move_for_seconds(begin: Begin) -> None:
    """Its site has refused the earlier instants; each plan would ask for one a little earlier."""
    script = two_sites(begin, b_books=True, gate="hold", ticket_plan_s=2.0)
    script.ignore(StopClaim).tell(a_pair(180.0))
    refuse(script, "j1/1/1/1")
    refuse(script, "j1/1/1/4")
    assert begins(script) == {"j1/1/0/4": 90.0, "j1/1/1/5": 90.0}
    script.after(10.0)
    assert begins(script) == {"j1/1/0/4": 80.0, "j1/1/1/5": 80.0}


def test_a_site_that_refuses_for_days_is_waited_for_in_its_queue(begin: Begin) -> None:
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    tries = 0
    while refused := [name for name in begins(script) if name.split("/")[2] == "0"]:
        refuse(script, *refused)
        tries += 1
    assert tries == 12
    tell(script, "a", c0n2=HOUR)
    assert list(begins(script).values()) == [HOUR + MARGIN_S]
    assert next(iter(begins(script))).startswith("j1/1/1/")


@pytest.mark.parametrize("is_told", [False, True])
def test_a_site_that_refused_while_it_was_emptied_is_booked_anew(
    begin: Begin, *, is_told: bool
) -> None:
    """Its batch system still knew of what had just ended; then nobody is there but the job."""
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    for number in (1, 4, 5, 6):
        refuse(script, f"j1/1/1/{number}")
    assert set(begins(script).values()) == {16 * MARGIN_S}
    for site in "ab":
        empty(script, site, local=0 if is_told else 8)
    assert set(begins(script).values()) == {16 * MARGIN_S}  # it was refused just now
    script.after(3.0)
    if not is_told:
        assert set(begins(script).values()) == {16 * MARGIN_S - 3}
        for site in "ab":
            empty(script, site)
    assert set(begins(script).values()) <= {MARGIN_S - 1, MARGIN_S}


def test_a_refusal_is_believed_for_twice_as_long_each_time(begin: Begin) -> None:
    """Something is in the way that no figure shows."""
    script = two_sites(begin, b_books=True, gate="hold").ignore(StopClaim).tell(a_pair())
    for site in "ab":
        empty(script, site)
    asked_at = []
    for _ in range(200):
        if MARGIN_S in begins(script).values():
            asked_at.append(script.now)
        while early := [name for name, in_s in begins(script).items() if in_s < 15 * MARGIN_S]:
            refuse(script, max(early))
        script.after(1.0)
    assert [later - sooner for sooner, later in itertools.pairwise(asked_at)] == [
        2, 4, 8, 16, 32, 64
    ]  # fmt: skip


def empty(script: Script, site: str, *, local: int = 0) -> None:
    """A report of a site where nobody waits, without idle processors: they are booked."""
    asks = script.scheduler.sites[SiteName(site)].asks
    report = SiteReported(site=SiteName(site), idle=0, through=asks, local=local, queued=0)
    script.tell(report)


def test_a_booking_is_moved_when_the_other_part_comes_up_too_late_for_it(mixed: Script) -> None:
    tell(mixed, "b", c1n1=2 * HOUR + 500)
    mixed.after(300.0)
    assert list(begins(mixed)) == ["j1/1/0/1"]  # it holds for 600 s
    tell(mixed, "b", c1n1=4 * HOUR)
    mixed.ignore(StopClaim).after(300.0)
    assert begins(mixed) == {"j1/1/0/2": 4 * HOUR - 300 + MARGIN_S}
    assert mixed.scheduler.ledger[ClaimId("j1/1/0/1")].phase.name == "stopping"
    tell(mixed, "b", c1n1=HOUR)
    mixed.after(300.0)
    assert begins(mixed) == {"j1/1/0/3": HOUR - 300 + MARGIN_S}


def test_a_part_that_holds_has_the_others_booked_as_soon_as_they_can(mixed: Script) -> None:
    mixed.ignore(StopClaim).after(HOUR).grant("j1/1/1/1")
    assert begins(mixed) == {"j1/1/0/2": MARGIN_S}
    mixed.after(599).expect_nothing()
    assert mixed.scheduler.ledger[ClaimId("j1/1/1/1")].phase.name == "granted"
    mixed.after(2)
    assert "gives back 4 processors at b" in mixed.story("j1")


def test_a_booking_moves_if_the_hold_of_the_others_would_end_just_before_it(mixed: Script) -> None:
    mixed.ignore(StopClaim).after(2 * HOUR + MARGIN_S - 630).grant("j1/1/1/1")
    assert begins(mixed) == {"j1/1/0/2": MARGIN_S}
    refuse(mixed, "j1/1/0/2")
    refuse(mixed, *begins(mixed))
    assert begins(mixed) == {"j1/1/0/4": 4 * MARGIN_S}


def test_what_is_booked_is_given_back_when_its_hold_is_over(mixed: Script) -> None:
    tell(mixed, "b", c1n1=2 * HOUR + 500)
    mixed.after(2 * HOUR + MARGIN_S + 44).grant("j1/1/0/1")
    mixed.after(599).expect_nothing().after(2)
    mixed.expect(StopClaim, claim="j1/1/0/1")
    assert mixed.phase("j1") == "Queued"


@pytest.mark.parametrize("gate", ["", "hold"])
@pytest.mark.parametrize("late_s", [0.0, 44.0, 64.0])
def test_two_parts_of_which_a_site_books_only_one_at_a_time_start_together_even_if_late(
    begin: Begin, gate: str, late_s: float
) -> None:
    """Neither is given back before the other begins, although their job is short."""
    script = begin(chosen(tickets="book"), hold_s=900.0)
    script.tell(a_site("a", 8, idle=0, gate=gate, books="oar", tickets_max=1))
    tell(script, "a")
    part = a_component(4, site="a", wall_time_s=180.0)
    script.ignore(ClaimProcessors).tell(a_job("j1", part, part))
    for _ in range(2):
        ((claim, begins_s),) = begins(script).items()
        script.after(begins_s + late_s).grant(claim)
    script.released("j1")


@pytest.mark.parametrize("kind", [EndKind.SITE, EndKind.FAILED, EndKind.VANISHED])
def test_a_booking_that_is_revoked_or_lost_ends_as_a_ticket_and_is_made_again(
    mixed: Script, kind: EndKind
) -> None:
    mixed.gone("j1/1/0/1", kind, reason="the node is down")
    is_lost = kind is EndKind.VANISHED  # its site may have the processors all the same
    assert begins(mixed) == {"j1/1/0/2": 2 * HOUR + MARGIN_S * (1 if is_lost else 2)}
    assert mixed.phase("j1") == "Queued"
    assert "has no booking at a" in mixed.story("j1")


def test_a_booking_that_does_not_begin_is_made_again(mixed: Script) -> None:
    mixed.ignore(StopClaim).after(2 * HOUR + MARGIN_S + 590)
    assert list(begins(mixed)) == ["j1/1/0/1"]
    mixed.after(320)
    assert list(begins(mixed)) == ["j1/1/0/2"]


def test_no_booking_is_left_when_a_job_ends(mixed: Script) -> None:
    mixed.cancel("j1")
    assert "j1/1/0/1" in [stop.claim for stop in mixed.take(StopClaim)]


def test_bookings_outlive_a_restart_with_their_instants(mixed: Script) -> None:
    mixed.tell(DaemonStarted(epoch=2))
    (wanted,) = mixed.scheduler.wanted(SiteName("a")).holds
    assert (wanted.claim, wanted.begins_at) == ("j1/1/0/1", 2 * HOUR + MARGIN_S)


def test_bookings_count_as_tickets_of_their_user(begin: Begin) -> None:
    script = two_sites(begin, gate="hold", tickets_user_max=3).tell(a_pair())
    tell(script, "b", c1n1=2 * HOUR)
    assert sorted(gates(script)) == ["j1/1/0/1", "j1/1/0/2", "j1/1/1/1"]
    assert begins(script) == {}


def test_nothing_is_booked_that_could_not_hold(begin: Begin) -> None:
    script = two_sites(begin, hold_budget_user_s=1000.0).tell(a_pair())
    tell(script, "b", c1n1=2 * HOUR)
    assert begins(script) == {}
    assert BUDGET_IS_USED in told(script)


def test_what_begins_when_the_budget_is_used_up_is_given_back_at_once(mixed: Script) -> None:
    mixed.change(hold_budget_user_s=1000.0).after(2 * HOUR + MARGIN_S)
    mixed.grant("j1/1/0/1")
    mixed.expect(StopClaim, claim="j1/1/0/1")


def test_nothing_is_booked_without_an_end(begin: Begin) -> None:
    script = two_sites(begin)
    script.tell(a_job("j1", a_component(4, site="a"), a_component(4, site="b")))
    tell(script, "b", c1n1=2 * HOUR)
    assert begins(script) == {}


def test_a_drained_site_is_not_booked(begin: Begin) -> None:
    script = two_sites(begin).tell(a_pair(), SiteDrained(site=SiteName("a"), by=OPERATOR))
    tell(script, "b", c1n1=2 * HOUR)
    assert begins(script) == {}
    assert opened(script) == []  # nor counted on
    script.tell(SiteResumed(site=SiteName("a"), by=OPERATOR)).after(300.0)
    assert begins(script) == {"j1/1/0/1": 2 * HOUR - 300 + MARGIN_S}


def test_a_job_with_bookings_alone_goes_where_processors_are_idle_now(begin: Begin) -> None:
    script = two_sites(begin).ignore(StopClaim)
    short = a_component(4, site="a", wall_time_s=HOUR)
    script.tell(a_job("j1", short, short))
    assert set(begins(script).values()) == {MARGIN_S}
    idle_now(script, "a")
    assert begins(script) == {}
    assert script.phase("j1") == "Claiming"


def test_what_is_booked_is_told_with_its_instant(mixed: Script) -> None:
    assert "component a: asks a for a booking, begins in 2.0 h" in told(mixed)
    assert "estimated start in 2.0 h: component a is last" in told(mixed)


def test_where_an_earlier_instant_is_refused_the_one_before_is_booked_again(mixed: Script) -> None:
    mixed.ignore(StopClaim)
    tell(mixed, "b", c1n1=HOUR)
    mixed.after(300.0)
    assert begins(mixed) == {"j1/1/0/2": HOUR - 300 + MARGIN_S}
    refuse(mixed, "j1/1/0/2")
    assert begins(mixed) == {"j1/1/0/3": HOUR - 300 + 2 * MARGIN_S}
    for number in range(3, 8):
        refuse(mixed, f"j1/1/0/{number}")
    assert begins(mixed) == {"j1/1/0/8": 2 * HOUR - 300 + MARGIN_S}
    refuse(mixed, "j1/1/0/8")
    assert begins(mixed)["j1/1/0/9"] > 2.5 * HOUR
