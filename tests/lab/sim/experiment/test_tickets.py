"""Tickets at a simulated site: they wait, obey their gates, and their starts are expected."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from koala.common.protocol.messages import Program
from koala.core.model.actions import ClaimProcessors, StopClaim
from koala.core.model.events import ClaimGone, ClaimGranted, Event, SiteReported
from koala.core.model.job import EndKind
from koala.core.model.values import ClaimId, SiteName, UserName
from koala.lab.sim.engine import Engine
from koala.lab.sim.experiment.programs import Programs
from koala.lab.sim.experiment.setting import LocalJob, NoFaults
from koala.lab.sim.experiment.sites import FORECAST_S, Order, Site
from koala.lab.sim.experiment.usage import Usage
from koala.queue_model import Discipline
from tests.lab.sim.experiment.small import local, site

DELFT = SiteName("delft")
OLD, YOUNG = ClaimId("j1/1/0/1"), ClaimId("j1/1/0/2")


def ticket(claim: ClaimId = OLD, *, is_gated: bool = False) -> ClaimProcessors:
    """A ticket for 4 processors: 40 s of hold, and a program of 5 s."""
    return ClaimProcessors(
        claim=claim,
        site=DELFT,
        processors=4,
        ask_number=1,
        port=20_000,
        hold_s=40.0,
        program=Program(executable="a", wall_time_s=5.0),
        owner=UserName("ada"),
        waits=True,
        is_gated=is_gated,
    )


def told_by(
    *users: LocalJob, orders: dict[float, Order], until: float, has_forecast: bool = True
) -> list[tuple[float, Event]]:
    """Events of a site of 8 processors under EASY, with their instants."""
    engine = Engine()
    told: list[tuple[float, Event]] = []
    setting = replace(
        site("delft", 8, *users), discipline=Discipline.EASY, has_forecast=has_forecast
    )
    place = Site(
        engine,
        setting,
        faults=NoFaults(),
        programs=Programs(engine),
        usage=Usage({DELFT: 8}, bin_s=60.0),
        emit=lambda event: told.append((engine.now, event)),
    )
    place.begin()
    for at, order in orders.items():
        engine.at(at, partial(place.receive, order))
    engine.run(until)
    return told


def grants(told: list[tuple[float, Event]]) -> dict[str, float]:
    return {str(event.claim): at for at, event in told if isinstance(event, ClaimGranted)}


def starts(told: list[tuple[float, Event]]) -> list[tuple[float, object]]:
    return [(at, e.starts) for at, e in told if isinstance(e, SiteReported) and e.starts]


def test_a_ticket_has_no_grace_time() -> None:
    told = told_by(local(0.0, 8, 5000.0), orders={10.0: ticket()}, until=5001.0)
    assert grants(told) == {OLD: 5000.0}
    assert not [event for _, event in told if isinstance(event, ClaimGone)]


def test_a_gated_ticket_lets_others_pass_and_goes_before_later_jobs_once_it_is_opened() -> None:
    """The job of 20 starts at 100 in its place; that of 150 has come later than the ticket."""
    users = (local(0.0, 8, 100.0), local(20.0, 8, 100.0), local(150.0, 8, 100.0))
    gate, free = ticket(is_gated=True), ticket()
    told = told_by(*users, orders={10.0: free, 30.0: gate, 160.0: free, 170.0: free}, until=400.0)
    assert grants(told) == {OLD: 200.0}


def test_a_gate_comes_too_late_for_a_ticket_that_has_started() -> None:
    told = told_by(orders={10.0: ticket(), 20.0: ticket(is_gated=True)}, until=100.0)
    assert grants(told) == {OLD: 10.0}
    ends = [(at, event.end.reason) for at, event in told if isinstance(event, ClaimGone)]
    assert ends == [(50.0, "its hold deadline came")]


def test_expected_starts_are_those_of_the_oldest_tickets_and_are_told_again() -> None:
    """The local job says 1,000 s and ends after 700. The younger ticket is told of once the other
    has gone."""
    users = (LocalJob(0.0, 8, 700.0, 1000.0),)
    orders: dict[float, Order] = {
        10.0: ticket(is_gated=True),
        20.0: ticket(YOUNG, is_gated=True),
        500.0: StopClaim(claim=OLD, site=DELFT),
    }
    told = told_by(*users, orders=orders, until=900.0)
    assert starts(told) == [
        (10.0, ((OLD, 990.0),)),
        (20.0, ((OLD, 980.0),)),
        (20.0 + FORECAST_S, ((OLD, 980.0 - FORECAST_S),)),
        (500.0, ((YOUNG, 500.0),)),
        (500.0 + FORECAST_S, ((YOUNG, 0.0),)),
    ]
    last = [event for at, event in told if at == 20.0 and isinstance(event, SiteReported)]
    assert (last[0].local, last[0].idle, last[0].queued) == (8, 0, 0)


def test_a_site_without_forecasts_says_once_that_it_knows_none() -> None:
    told = told_by(local(0.0, 8, 5000.0), orders={10.0: ticket()}, until=4000.0, has_forecast=False)
    assert starts(told) == [(10.0, ((OLD, None),))]


def booking(begins_at: float, claim: ClaimId = OLD) -> ClaimProcessors:
    return replace(ticket(claim), begins_at=begins_at)


def test_a_booked_claim_begins_at_its_instant_before_those_that_wait() -> None:
    """Its processors are taken until 100, and from then on by a job that waits; a booking from 120
    on takes it for 45 s."""
    users = (local(0.0, 8, 100.0), local(20.0, 8, 500.0))
    told = told_by(*users, orders={10.0: booking(99.0), 11.0: booking(120.0, YOUNG)}, until=700.0)
    ends = [(at, event.claim, event.end.kind) for at, event in told if isinstance(event, ClaimGone)]
    assert ends[0] == (10.0, OLD, EndKind.REFUSED)
    assert grants(told) == {YOUNG: 120.0}


def test_a_booking_that_is_given_back_leaves_its_processors() -> None:
    stop = StopClaim(claim=OLD, site=DELFT)
    told = told_by(
        orders={10.0: booking(120.0), 20.0: stop, 30.0: booking(121.0, YOUNG)}, until=130.0
    )
    assert grants(told) == {YOUNG: 121.0}
    assert [event.claim for _, event in told if isinstance(event, ClaimGone)] == [OLD]
