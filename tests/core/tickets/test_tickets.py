"""Tickets: claims in the queues of busy sites, their gates, and what comes up too early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koala.core.model.actions import (
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    StartTransfer,
    StopClaim,
)
from koala.core.model.events import (
    ClaimGranted,
    DaemonStarted,
    SiteDrained,
    SiteReported,
    SiteResumed,
    TransferFailed,
    TransferFinished,
)
from koala.core.model.job import EndKind, Queued
from koala.core.model.job_spec import Deadline, InputFile, StartType
from koala.core.model.values import ClaimId, FileName, JobId, SiteName, TransferId, UserName
from koala.core.pipeline.claiming import BUDGET_IS_USED
from koala.core.pipeline.tickets.parts import SHARE_IS_USED
from koala.core.pipeline.tickets.plans import PAUSE_S
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

HOUR = 3600.0
OPERATOR = UserName("operator")
PAIR = ("j1/1/0/1", "j1/1/0/2", "j1/1/0/3"), ("j1/1/1/1", "j1/1/1/2", "j1/1/1/3")


def busy(script: Script, *sites: str, gate: str = "qhold", queued: int = 5) -> Script:
    """Sites of 8 processors that others use, with a queue in front of them."""
    for site in sites:
        script.tell(a_site(site, 8, idle=0, gate=gate))
        tell(script, site, queued=queued)
    return script


def tell(script: Script, site: str, *, queued: int = 5, **starts: float | None) -> None:
    """A report of a busy site, with expected starts by the number of the claim."""
    script.tell(
        SiteReported(
            site=SiteName(site),
            idle=0,
            through=script.scheduler.sites[SiteName(site)].asks,
            local=8,
            queued=queued,
            starts=tuple((ClaimId(f"j1/1/{name[1]}/{name[3]}"), s) for name, s in starts.items()),
        )
    )


def a_pair(wall_time_s: float = HOUR) -> Any:
    return a_job(
        "j1",
        a_component(4, site="a", wall_time_s=wall_time_s),
        a_component(4, site="b", wall_time_s=wall_time_s),
    )


def gates(script: Script) -> dict[str, bool]:
    """Gates of all tickets as the sites have to know them, by claim."""
    return {
        claim.id: claim.is_gated
        for claim in script.scheduler.ledger.values()
        if claim.is_ticket and claim.grant is None and claim.phase.name == "asked"
    }


def opened(script: Script) -> list[str]:
    return [claim for claim, is_gated in gates(script).items() if not is_gated]


def told(script: Script) -> str:
    """The words about the wait of the job."""
    return " ".join(why(script.scheduler, JobId("j1"), script.now))


@pytest.fixture
def queued(begin: Begin) -> Script:
    """A pair in the queues of two busy sites, told nothing of its starts yet."""
    return a_queued_pair(begin)


def a_queued_pair(begin: Begin) -> Script:
    script = begin(chosen(tickets="dodge"), hold_s=900.0)
    busy(script, "a", "b").tell(a_pair())
    holds = script.take(ClaimProcessors)
    assert [hold.claim for hold in holds] == [*PAIR[0], *PAIR[1]]
    assert all(hold.waits and hold.is_gated for hold in holds)
    script.ignore(ClaimProcessors)
    return script


def test_without_tickets_a_job_waits_for_idle_processors(begin: Begin) -> None:
    script = busy(begin(), "a", "b").tell(a_pair()).expect_nothing()
    assert script.phase("j1") == "Placing"


def test_behind_our_own_jobs_a_job_waits_in_our_queue(begin: Begin) -> None:
    script = begin(chosen(tickets="dodge")).tell(a_site("a", 8), a_job("j0", 8))
    script.running("j0")
    script.tell(a_job("j1", 4)).expect_nothing()
    assert script.phase("j1") == "Placing"


@pytest.mark.parametrize(
    "job",
    [
        a_job("j1", 4, deadline=Deadline(after_s=HOUR)),
        a_job("j1", 4, a_component(4, start_type=StartType.NONE)),
        a_job("j1", a_component(9)),
    ],
    ids=["deadline", "no barrier", "too large"],
)
def test_a_job_that_cannot_wait_there_gets_no_tickets(begin: Begin, job: Any) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b").tell(job)
    script.expect_nothing()
    is_too_large = job.spec.largest > 8
    assert ("it waits in no local queue: a " in told(script)) != is_too_large


def test_idle_processors_are_claimed_at_once(begin: Begin) -> None:
    script = begin(chosen(tickets="dodge")).tell(a_site("a", 8), a_site("b", 8)).tell(a_pair())
    assert not any(hold.waits for hold in script.take(ClaimProcessors))
    assert script.phase("j1") == "Claiming"


def test_only_the_slowest_part_is_open(queued: Script) -> None:
    tell(queued, "a", c0n1=2 * HOUR, c0n2=2 * HOUR, c0n3=2 * HOUR)
    assert opened(queued) == []  # the other site has told nothing
    tell(queued, "b", c1n1=HOUR, c1n2=HOUR, c1n3=HOUR)
    assert opened(queued) == ["j1/1/0/1"]


def test_parts_expected_together_are_open_together(queued: Script) -> None:
    tell(queued, "a", c0n1=2 * HOUR)
    tell(queued, "b", c1n1=2 * HOUR - 299)
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]


def test_the_other_part_is_opened_when_its_time_has_come(queued: Script) -> None:
    tell(queued, "a", c0n1=2 * HOUR)
    tell(queued, "b", c1n1=HOUR)
    queued.after(HOUR + 301)  # the expected start of the faster one has passed, and it cannot start
    assert opened(queued) == ["j1/1/0/1"]
    queued.after(HOUR - 600)
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]


def test_a_part_that_holds_opens_the_other(queued: Script) -> None:
    tell(queued, "a", c0n1=600.0)
    tell(queued, "b", c1n1=60.0)
    assert opened(queued) == ["j1/1/0/1"]
    queued.grant("j1/1/0/1")
    assert opened(queued) == ["j1/1/1/1"]
    assert "component a: holds 4 processors at a" in told(queued)
    queued.grant("j1/1/1/1")
    assert queued.phase("j1") == "Starting"
    withdrawn = [stop.claim for stop in queued.take(StopClaim)]
    assert sorted(withdrawn) == [*PAIR[0][1:], *PAIR[1][1:]]
    queued.released("j1")


def test_a_hold_ends_after_a_sixth_of_the_run(queued: Script) -> None:
    tell(queued, "a", c0n1=600.0)
    tell(queued, "b", c1n1=600.0)
    queued.grant("j1/1/0/1")
    queued.after(599)
    queued.expect_nothing().ignore(StopClaim).after(2)
    assert "gives back 4 processors at a" in queued.story("j1")
    assert opened(queued) == ["j1/1/1/1"]  # the next ticket was told no start yet
    tell(queued, "b", c1n1=600.0)
    tell(queued, "a", c0n2=600.0)
    assert opened(queued) == ["j1/1/0/2", "j1/1/1/1"]
    assert "j1/1/0/4" in gates(queued)  # as many as before


@pytest.mark.parametrize(("early_s", "is_open"), [(11.0, False), (9.0, True)])
def test_a_short_job_holds_for_a_third_of_its_run_and_is_opened_a_twelfth_early(
    begin: Begin, early_s: float, is_open: bool
) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b").ignore(ClaimProcessors)
    script.tell(a_pair(wall_time_s=120.0))
    tell(script, "a", c0n1=110.0)
    tell(script, "b", c1n1=110.0 - early_s)
    assert opened(script) == ["j1/1/0/1", "j1/1/1/1"][: 2 if is_open else 1]
    script.grant("j1/1/0/1").after(39).expect_nothing().after(2)
    script.expect(StopClaim, claim="j1/1/0/1")


def test_a_hold_ends_in_time_while_another_part_has_no_expected_start(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge"), tickets_max=1), "a", "b").ignore(ClaimProcessors)
    script.tell(a_pair())
    tell(script, "a", c0n1=600.0)
    tell(script, "b", c1n1=600.0)
    script.grant("j1/1/0/1").after(590)
    script.gone("j1/1/1/1", EndKind.VANISHED)
    assert opened(script) == ["j1/1/1/2"]  # whatever the site will tell of its start
    script.after(9).expect_nothing().after(2)
    script.expect(StopClaim, claim="j1/1/0/1")


def test_a_fault_of_the_site_costs_the_hold_and_no_other_place(queued: Script) -> None:
    queued.grant("j1/1/0/1")
    queued.gone("j1/1/0/1", EndKind.VANISHED)
    assert queued.phase("j1") == "Queued"
    assert "j1/1/0/4" in gates(queued)
    assert not queued.take(StopClaim)
    queued.ignore(StopClaim).grant("j1/1/0/2").grant("j1/1/1/1").released("j1")


def test_what_comes_up_far_too_early_is_given_back_soon(queued: Script) -> None:
    tell(queued, "a", c0n1=4 * HOUR)
    tell(queued, "b", c1n1=4 * HOUR)
    queued.grant("j1/1/0/1").after(9)
    queued.expect_nothing().after(2)
    queued.expect(StopClaim, claim="j1/1/0/1")


def test_components_take_turns_where_no_site_tells_its_starts(queued: Script) -> None:
    tell(queued, "a", c0n1=None)
    tell(queued, "b", c1n1=None)
    queued.after(31)
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]
    queued.ignore(StopClaim).grant("j1/1/0/1").after(301)
    assert opened(queued) == ["j1/1/1/1"]  # the one that gave back waits for the other
    queued.grant("j1/1/1/1")
    assert opened(queued) == ["j1/1/0/2"]


@pytest.mark.parametrize("budget_s", [1000.0, 1200.0])
def test_a_hold_over_budget_is_given_back_at_once(begin: Begin, budget_s: float) -> None:
    """The larger budget is enough for 300 s of 4 processors, and not for the arming after it."""
    script = begin(chosen(tickets="dodge"), hold_budget_user_s=budget_s).ignore(ClaimProcessors)
    busy(script, "a", "b").tell(a_pair())
    script.after(31)
    assert opened(script) == []
    script.grant("j1/1/0/1")
    script.expect(StopClaim, claim="j1/1/0/1")
    assert script.picture("j1")["phase"] == "Queued"


def test_a_budget_that_comes_back_opens_a_ticket_and_is_told_no_more(begin: Begin) -> None:
    script = begin(chosen(tickets="turns"), hold_budget_user_s=2000.0).ignore(ClaimProcessors)
    busy(script, "a", "b").tell(a_pair()).ignore(StopClaim)
    script.grant("j1/1/0/1").after(301).gone("j1/1/0/1")
    assert opened(script) == []
    assert BUDGET_IS_USED in told(script)
    script.after(25 * HOUR)
    assert opened(script) == ["j1/1/1/1"]
    assert BUDGET_IS_USED not in told(script)


def test_a_site_without_a_gate_has_one_open_ticket(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b", gate="").tell(a_pair())
    holds = script.take(ClaimProcessors)
    assert [(hold.claim, hold.is_gated) for hold in holds] == [
        ("j1/1/0/1", False),
        ("j1/1/1/1", False),
    ]


def test_a_refused_ticket_is_not_replaced(queued: Script) -> None:
    queued.gone("j1/1/0/3", EndKind.REFUSED, reason="MaxSubmitJobs")
    assert len(gates(queued)) == 5
    queued.after(HOUR)
    assert len(gates(queued)) == 5


def test_a_part_without_tickets_left_goes_back(queued: Script) -> None:
    queued.ignore(StopClaim)
    for ticket in PAIR[0]:
        queued.gone(ticket, EndKind.REFUSED, reason="no such account")
    assert queued.phase("j1") == "Placing"
    assert gates(queued) == {}


def test_a_hold_that_is_lost_gets_another_ticket(queued: Script) -> None:
    queued.grant("j1/1/0/1").gone("j1/1/0/1", EndKind.LEASE)
    assert queued.phase("j1") == "Queued"
    assert len(gates(queued)) == 6
    assert "component a has lost a: lease" in queued.story("j1")


def test_tickets_outlive_a_cut_and_a_restart(queued: Script) -> None:
    queued.disconnect("a").after(500)
    assert len(gates(queued)) == 6
    queued.tell(DaemonStarted(epoch=2)).ignore(StopClaim)
    busy(queued, "a", "b")
    wanted = queued.scheduler.wanted(SiteName("a"))
    assert [hold.claim for hold in wanted.holds] == [*PAIR[0]]
    assert [hold.is_gated for hold in wanted.holds] == [False, True, True]  # they take turns


def test_a_held_part_at_a_silent_site_is_given_up(queued: Script) -> None:
    queued.grant("j1/1/0/1").disconnect("a").after(80)
    queued.expect(StopClaim, claim="j1/1/0/1")
    assert queued.phase("j1") == "Queued"


def test_no_ticket_of_a_fixed_component_is_opened_at_a_drained_site(queued: Script) -> None:
    tell(queued, "a", c0n1=600.0)
    tell(queued, "b", c1n1=600.0)
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]
    queued.tell(SiteDrained(site=SiteName("a"), by=OPERATOR)).after(300)
    assert opened(queued) == ["j1/1/1/1"]
    assert "j1/1/0/1" in gates(queued)  # its place is kept for the day when the site comes back
    queued.tell(SiteResumed(site=SiteName("a"), by=OPERATOR)).after(300)
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]


def test_a_ticket_of_an_earlier_attempt_holds_nothing(begin: Begin) -> None:
    """It started while its Stop was on the way."""
    script = busy(begin(chosen(tickets="dodge"), tickets_max=1), "a", "b")
    script.ignore(ClaimProcessors).tell(a_job("j1", 5, 5)).ignore(StopClaim)
    script.tell(SiteDrained(site=SiteName("a"), by=OPERATOR)).after(300)
    script.tell(SiteResumed(site=SiteName("a"), by=OPERATOR)).after(300)
    assert sorted(gates(script)) == ["j1/2/0/1", "j1/2/1/1"]
    script.tell(ClaimGranted(claim=ClaimId("j1/1/0/1"), nonce="n"))
    assert sorted(gates(script)) == ["j1/2/0/1", "j1/2/1/1"]
    assert "holds" not in script.story("j1")


def test_a_user_has_so_many_tickets(begin: Begin) -> None:
    script = begin(chosen(tickets="dodge"), tickets_user_max=4).ignore(ClaimProcessors)
    busy(script, "a", "b").tell(a_pair())
    assert len(gates(script)) == 4
    script.tell(a_job("j2", 4, 4))
    assert script.phase("j2") == "Placing"


def test_spare_tickets_are_never_gated(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="spare")), "a", "b").tell(a_pair())
    assert [hold.is_gated for hold in script.take(ClaimProcessors)] == [False, False]
    script.ignore(ClaimProcessors)
    tell(script, "a", c0n1=HOUR)
    tell(script, "b", c1n1=4 * HOUR)
    script.after(700)  # the first comes up long before the other: one more behind it
    assert sorted(gates(script)) == ["j1/1/0/1", "j1/1/0/2", "j1/1/1/1"]


def test_a_spare_component_that_came_up_far_too_early_rests(begin: Begin) -> None:
    """Nothing is in its way: queued at once it would come up and go again and again. When the other
    is near it is queued sooner."""
    script = busy(begin(chosen(tickets="spare")), "a", "b", gate="").ignore(ClaimProcessors)
    script.tell(a_pair())
    tell(script, "b", c1n1=4 * HOUR)
    script.grant("j1/1/0/1").after(11)
    script.expect(StopClaim, claim="j1/1/0/1")
    script.gone("j1/1/0/1").after(3500)
    assert sorted(gates(script)) == ["j1/1/1/1"]
    script.after(400)
    assert sorted(gates(script)) == ["j1/1/0/2", "j1/1/1/1"]
    script.grant("j1/1/0/2").after(11)
    script.expect(StopClaim, claim="j1/1/0/2")
    script.gone("j1/1/0/2")
    tell(script, "b", c1n1=1000.0)
    script.after(301)
    assert sorted(gates(script)) == ["j1/1/0/3", "j1/1/1/1"]


@pytest.mark.parametrize("policy", ["dodge", "book", "turns", "spare"])
def test_a_component_that_comes_up_in_vain_rests_longer_each_time(
    begin: Begin, policy: str
) -> None:
    """Nothing is in its way, the other is, and it may hold for a second."""
    script = begin(chosen(tickets=policy), ticket_slack_s=0.0, hold_s=900.0)
    busy(script, "a", "b", gate="").ignore(ClaimProcessors, StopClaim)
    script.tell(replace(a_pair(), spec=replace(a_pair().spec, max_hold_s=1.0)))
    grants = []
    while script.now < 1200.0:
        for claim in [one for one in opened(script) if one.startswith("j1/1/0/")][:1]:
            script.grant(claim)
            grants.append(script.now)
        script.after(1.0)
    assert 8 <= len(grants) <= 15  # 2, 4, 8 ... 240 s
    assert grants[-1] - grants[-2] >= 240.0


def idle_now(script: Script, site: str, idle: int = 8) -> None:
    """A report of a site where nobody waits."""
    asks = script.scheduler.sites[SiteName(site)].asks
    report = SiteReported(site=SiteName(site), idle=idle, through=asks, local=8 - idle, queued=0)
    script.tell(report).after(0.0)


def test_a_queued_job_goes_where_it_can_run_now(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b").ignore(StopClaim)
    busy(script, "c", queued=50)
    script.tell(a_job("j1", a_component(5, site="a"), a_component(5)))
    waiting = [hold.claim for hold in script.take(ClaimProcessors)]
    assert len(waiting) == 6
    idle_now(script, "c")
    script.expect_nothing()  # the other component still waits for `a`
    script.ignore(ClaimProcessors)
    idle_now(script, "a")
    claims = (
        script.scheduler.wanted(SiteName("a")).holds + script.scheduler.wanted(SiteName("c")).holds
    )
    assert [(one.claim, one.site, one.waits) for one in claims] == [
        ("j1/2/0/1", "a", False),
        ("j1/2/1/1", "c", False),
    ]
    assert all(script.scheduler.ledger[name].phase.name == "stopping" for name in waiting)
    script.grant("j1/1/0/1")  # it started while its Stop was on the way
    script.gone("j1/1/0/1").ignore(ArmClaim).grant("j1/2/0/1", "j1/2/1/1")
    assert script.phase("j1") == "Starting"


def test_a_job_whose_own_sites_are_idle_has_its_tickets_opened(queued: Script) -> None:
    tell(queued, "a", c0n1=4 * HOUR)
    tell(queued, "b", c1n1=HOUR)
    assert opened(queued) == ["j1/1/0/1"]
    idle_now(queued, "b")
    assert opened(queued) == ["j1/1/0/1"]
    idle_now(queued, "a")
    assert opened(queued) == ["j1/1/0/1", "j1/1/1/1"]


def test_a_job_waits_where_the_queues_are_shortest(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b", queued=9).ignore(ClaimProcessors)
    busy(script, "c", "d", queued=2).tell(a_job("j1", 5, 5))
    assert script.placed_on("j1") == ["c", "d"]
    for site, start_s in (("a", 5 * HOUR), ("b", HOUR), ("c", 4 * HOUR), ("d", HOUR)):
        report = SiteReported(
            site=SiteName(site), idle=0, through=9, local=8, queued=9, outlook=((8, HOUR, start_s),)
        )
        script.tell(report)
    script.tell(a_job("j2", a_component(5, wall_time_s=60.0), a_component(5, wall_time_s=60.0)))
    assert sorted(map(str, script.placed_on("j2"))) == ["b", "d"]


def test_a_quorum_starts_when_it_holds(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge"), tickets_max=1), "a", "b", "c")
    script.ignore(ClaimProcessors).tell(a_job("j1", 5, 5, 5, quorum=2))
    tell(script, "a", c0n1=60.0, c1n1=60.0, c2n1=60.0)
    one, two, three = [claim.id for claim in script.scheduler.ledger.values()]
    tell(script, "a", c0n1=60.0, c1n1=120.0, c2n1=9 * HOUR)
    script.ignore(ArmClaim).grant(one).grant(two)
    assert script.phase("j1") == "Starting"
    script.expect(StopClaim, claim=three)


def redundant(begin: Begin, **parameters: Any) -> Script:
    """A component of 5 and one of 4 at `b`; the first waits at two sites of three."""
    script = busy(begin(chosen(tickets="dodge"), **parameters), "a", "b", "c", queued=100)
    busy(script, "c", queued=50).ignore(ClaimProcessors)
    components = a_component(5, wall_time_s=HOUR), a_component(4, site="b", wall_time_s=HOUR)
    script.tell(a_job("j1", *components, redundancy=2))
    return script


def places(script: Script) -> dict[str, list[str]]:
    """The numbers of the tickets of the first component that wait at each site."""
    found: dict[str, list[str]] = {}
    for claim in script.scheduler.ledger.values():
        if claim.is_ticket and claim.component == 0 and claim.phase.name == "asked":
            found.setdefault(claim.site, []).append(claim.id.rpartition("/")[2])
    return found


def test_a_component_waits_at_two_sites_and_is_kept_at_one(begin: Begin) -> None:
    script = redundant(begin, tickets_max=2)
    assert places(script) == {"c": ["1", "2"], "a": ["3", "4"]}
    tell(script, "c", c0n1=3 * HOUR)
    tell(script, "a", c0n3=HOUR)
    tell(script, "b", c1n1=2 * HOUR)
    assert opened(script) == ["j1/1/0/1", "j1/1/1/1"]  # it is expected in an hour, and gated there
    assert "; 1 further claim behind it; also queued at a" in told(script)
    script.grant("j1/1/1/1")
    assert opened(script) == ["j1/1/0/1", "j1/1/0/3"]
    script.ignore(StopClaim, ArmClaim).grant("j1/1/0/3")
    assert script.phase("j1") == "Starting"
    assert script.placed_on("j1") == ["a", "b"]
    assert places(script) == {}
    script.grant("j1/1/0/1")  # it started while its Stop was on the way
    assert script.scheduler.ledger[ClaimId("j1/1/0/1")].phase.name == "stopping"


def test_a_component_that_gives_back_keeps_its_places_at_both_sites(begin: Begin) -> None:
    script = redundant(begin, tickets_max=2).ignore(StopClaim)
    tell(script, "c", c0n1=60.0)
    tell(script, "a", c0n3=60.0)
    tell(script, "b", c1n1=60.0)
    script.grant("j1/1/0/3").after(601)
    assert places(script) == {"c": ["1", "2"], "a": ["4", "5"]}
    assert script.placed_on("j1") == ["a", "b"]


def test_a_site_that_refuses_one_of_two_is_left(begin: Begin) -> None:
    script = redundant(begin, tickets_max=1)
    script.gone("j1/1/0/1", EndKind.REFUSED, reason="no such account")
    assert places(script) == {"a": ["2"]}
    script.tell(SiteDrained(site=SiteName("a"), by=OPERATOR)).ignore(StopClaim).after(300)
    assert "a takes no claims now" in script.story("j1")


def test_redundant_claims_are_a_share_of_a_queue(begin: Begin) -> None:
    script = redundant(begin)
    for number in (2, 3, 4, 5):
        job = a_job(f"j{number}", a_component(5, wall_time_s=HOUR), redundancy=2)
        script.tell(job)
    here = [one for one in script.scheduler.ledger.values() if one.site == "a"]
    assert len(here) == 11  # a tenth of all that wait there


def test_what_owners_allow_is_not_exceeded(begin: Begin) -> None:
    script = begin(chosen(tickets="turns")).ignore(ClaimProcessors, StopClaim)
    for site, most, share in (("a", 1, None), ("b", None, 0.4)):
        script.tell(a_site(site, 8, idle=0, gate="qhold", tickets_max=most, held_share_max=share))
        tell(script, site)
    script.tell(a_job("j1", a_component(4, site="a"), a_component(3, site="b")))
    assert sorted(gates(script)) == ["j1/1/0/1", "j1/1/1/1", "j1/1/1/2", "j1/1/1/3"]
    script.tell(a_job("j2", 2, 2), a_job("j3", a_component(4, site="b")))
    assert script.phase("j2") == "Placing"  # `a` is full, and `b` lets no job hold 4
    assert script.phase("j3") == "Placing"
    script.tell(a_job("j4", a_component(1, site="b")))
    script.ignore(ArmClaim).grant("j4/1/0/1", "j1/1/1/1")
    assert script.phase("j4") == "Starting"
    assert f"component b may not hold at b: {SHARE_IS_USED}" in script.story("j1")


def test_jobs_that_hold_where_the_other_waits_start_one_after_the_other(begin: Begin) -> None:
    """Each site has a job that holds all that may be held. What comes up last starts its job."""
    script = begin(chosen(tickets="turns")).ignore(ClaimProcessors, StopClaim, ArmClaim)
    busy(script, "a", "b")
    parts = (a_component(3, site="a"), a_component(3, site="b"))
    script.tell(a_job("j1", *parts), a_job("j2", *parts))
    script.grant("j1/1/0/1", "j2/1/1/1")
    assert (script.phase("j1"), script.phase("j2")) == ("Queued", "Queued")
    script.grant("j2/1/0/1")
    assert script.phase("j2") == "Starting"
    script.grant("j1/1/1/1")
    assert script.phase("j1") == "Starting"
    script.tell(a_job("j3", *parts), a_job("j4", *parts))
    script.grant("j3/1/0/1", "j4/1/0/1")
    assert SHARE_IS_USED in script.story("j4")


def test_a_component_that_may_not_hold_is_looked_at_again_soon(begin: Begin) -> None:
    script = begin(chosen(tickets="turns")).ignore(ClaimProcessors, StopClaim, ArmClaim)
    for site, share in (("a", None), ("b", 0.4)):
        script.tell(a_site(site, 8, idle=0, gate="qhold", held_share_max=share))
        tell(script, site)
    parts = (a_component(3, site="b"), a_component(3, site="a"))
    script.tell(a_job("j1", *parts)).grant("j1/1/0/1")
    assert script.phase("j1") == "Queued"  # it holds 3 processors of `b`, and 3.2 are allowed
    script.tell(a_job("j2", *parts))
    phase = script.scheduler.jobs[JobId("j2")].phase
    assert isinstance(phase, Queued)
    assert phase.attempt.members[0].refusal == SHARE_IS_USED
    assert phase.plan_at <= script.now + PAUSE_S  # nothing tells when j1 holds no more


def test_purged_tickets_are_replaced_while_they_are_gated(begin: Begin) -> None:
    """A batch system that cancels what can never run takes a gate for a mistake."""
    script = busy(begin(chosen(tickets="dodge"), tickets_max=1), "a", "b").ignore(ClaimProcessors)
    script.tell(a_pair())
    assert gates(script) == {"j1/1/0/1": True, "j1/1/1/1": True}
    script.gone("j1/1/0/1", EndKind.SITE, reason="BadConstraints")
    assert sorted(gates(script)) == ["j1/1/0/2", "j1/1/1/1"]
    tell(script, "a", c0n2=60.0)
    tell(script, "b", c1n1=60.0)
    script.ignore(StopClaim).gone("j1/1/0/2", EndKind.SITE, reason="somebody cancelled it")
    assert script.phase("j1") == "Placing"


def reader(begin: Begin) -> Script:
    """As `redundant`, and the first component reads a file that is far away."""
    script = busy(begin(chosen(tickets="dodge"), bandwidth_default_bps=1.0), "a", "b", "c")
    script.tell(a_site("home", 1)).replica("data", "home", 7200)
    busy(script, "c", queued=3).ignore(StopClaim, ArmClaim)
    data = (InputFile(name=FileName("data")),)
    components = (
        a_component(5, wall_time_s=HOUR, inputs=data, sites=("a", "c")),
        a_component(4, site="b", wall_time_s=HOUR),
    )
    return script.tell(a_job("j1", *components))


def finished(transfer: TransferId) -> TransferFinished:
    return TransferFinished(transfer=transfer, size_bytes=7200, took_s=1500.0)


def test_a_component_with_files_waits_at_all_its_sites_and_they_get_the_files(
    begin: Begin,
) -> None:
    script = reader(begin)
    copies = {copy.target: copy for copy in script.take(StartTransfer)}
    assert sorted(copies) == ["a", "c"]
    assert sorted(places(script)) == ["a", "c"]
    for asked in script.take(ClaimProcessors):
        copy = copies.get(asked.site)
        assert asked.inputs == (() if copy is None else (copy.transfer,))
    script.ignore(ClaimProcessors)
    tell(script, "c", c0n1=60.0)
    tell(script, "a", c0n4=60.0)
    tell(script, "b", c1n1=60.0)
    assert opened(script) == []  # the file comes in two hours
    script.after(1500).tell(finished(copies[SiteName("a")].transfer))
    tell(script, "c", c0n1=60.0)
    tell(script, "a", c0n4=60.0)
    tell(script, "b", c1n1=60.0)
    script.after(301)
    assert sorted(opened(script)) == ["j1/1/0/4", "j1/1/1/1"]
    script.grant("j1/1/0/4", "j1/1/1/1")
    assert script.phase("j1") == "Starting"
    assert script.placed_on("j1") == ["a", "b"]
    assert script.expect(CancelTransfer).target == "c"


def test_a_site_that_gets_no_files_is_left_and_the_other_place_is_kept(begin: Begin) -> None:
    script = reader(begin)
    copies = {copy.target: copy for copy in script.take(StartTransfer)}
    script.take(ClaimProcessors)
    failed = TransferFailed(
        transfer=copies[SiteName("c")].transfer, reason="disk full", at=SiteName("c")
    )
    script.ignore(CancelTransfer, ClaimProcessors).tell(failed)
    assert places(script) == {"a": ["4", "5", "6"]}
    script.tell(replace(failed, transfer=copies[SiteName("a")].transfer))
    assert script.phase("j1") in ("Stopping", "Placing")


def test_a_component_waits_only_at_the_sites_that_it_names(begin: Begin) -> None:
    script = busy(begin(chosen(tickets="dodge")), "a", "b", "c").ignore(ClaimProcessors)
    script.tell(a_job("j1", a_component(5, sites=("b", "c")), a_component(4, site="a")))
    assert sorted(places(script)) == ["b", "c"]


def test_of_several_sites_one_that_tells_no_starts_waits_for_the_others_alone(
    begin: Begin,
) -> None:
    """The others are opened by their expected starts, and none takes turns."""
    script = redundant(begin, tickets_max=1)
    tell(script, "c", c0n1=2 * HOUR)
    tell(script, "b", c1n1=60.0)
    script.after(31)  # `a` tells nothing
    assert opened(script) == ["j1/1/0/1"]
    tell(script, "c", c0n1=60.0)
    script.after(301).grant("j1/1/1/1")
    assert opened(script) == ["j1/1/0/1", "j1/1/0/2"]
