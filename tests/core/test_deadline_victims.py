"""Room for a job with a required start: local jobs that may be killed for it, and which are."""

from __future__ import annotations

from koala.core.model.actions import ClaimProcessors
from koala.core.model.events import Woken
from koala.core.model.grid import Assignment, GridView, Replica, SiteView
from koala.core.model.values import FileName, Priority, SiteName, UserName
from koala.core.policy_api import ClaimQuestion, PendingPart, ReclaimableSite
from koala.policies.claiming.repeated import make_room, repeated
from koala.policies.placement.worst_fit import worst_fit
from tests.core.conftest import Begin
from tests.core.deadlines import LONG_WAIT, D
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

# --- the last try ---


def kill(begin: Begin) -> Script:
    return begin(at_deadline="kill")


def test_local_jobs_are_killed_at_the_last_try_where_their_site_allows_it(begin: Begin) -> None:
    script = kill(begin)
    script.tell(a_site("a", idle=0), a_site("b", idle=0, may_kill_local=True))
    script.report("a", 0, local=8).report("b", 0, local=6)
    script.tell(a_job("j", 4, deadline=D)).at(97.9).expect_nothing()
    claim = script.at(98).expect(ClaimProcessors)
    assert (claim.site, claim.may_kill) == ("b", True)
    assert "component 0 may have local jobs of b killed" in script.story("j")


def test_local_jobs_are_killed_also_when_the_tries_before_were_used_up(begin: Begin) -> None:
    """Mp = 0: one try at 49; GP waits for the deadline all the same."""
    script = begin(at_deadline="kill", deadline_tries_max=0, **LONG_WAIT)
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=8)
    script.tell(a_job("j", 4, deadline=D)).at(97.9).expect_nothing()
    assert script.at(98).expect(ClaimProcessors).may_kill


def test_nobody_is_killed_for_a_job_that_is_too_late(begin: Begin) -> None:
    """The daemon stood still for a while: timers ring late, those of tries first."""
    script = kill(begin)
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=8)
    script.tell(a_job("j", 4, deadline=D)).at(90)
    script.now = 103.0
    script.tell(Woken())
    assert "deadline missed by more than 2 s" in script.reason("j")


def test_idle_processors_are_taken_before_anybody_is_killed(begin: Begin) -> None:
    """At the last try, too; and a claim that needs no room asks for none."""
    script = kill(begin)
    script.tell(a_site("a", idle=0, may_kill_local=True), a_site("b", idle=0))
    script.report("a", 0, local=8).tell(a_job("j", 4, deadline=D)).at(95).report("b", 8)
    claim = script.at(98).expect(ClaimProcessors)
    assert (claim.site, claim.may_kill) == ("b", False)


def test_nobody_is_killed_unless_all_components_get_room(begin: Begin) -> None:
    script = kill(begin)
    script.tell(a_site("a", idle=0, may_kill_local=True), a_site("b", idle=0))
    script.report("a", 0, local=8).report("b", 0, local=8)
    script.tell(a_job("j", 4, 8, deadline=D)).at(98)
    assert "not claimed in 2 tries before its deadline" in script.reason("j")


def test_claims_of_other_jobs_are_no_room(begin: Begin) -> None:
    """Leave 3 of 8 processors: 5 are held for another job, whoever else runs there."""
    script = kill(begin)
    script.tell(a_site("a", may_kill_local=True), a_job("other", 5)).running("other")
    script.report("a", 0, local=3).tell(a_job("j", 4, deadline=D)).at(98)
    assert script.phase("j") == "Failed"
    script = kill(begin)
    script.tell(a_site("a", may_kill_local=True), a_job("other", 5)).running("other")
    script.report("a", 0, local=3).tell(a_job("j", 3, deadline=D)).at(98)
    assert script.expect(ClaimProcessors).may_kill


def test_processors_that_local_jobs_wait_for_are_idle_for_the_last_try(begin: Begin) -> None:
    """A queue that blocks on its head reports nothing startable, though 5 run nothing."""
    script = kill(begin)
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=3)
    script.tell(a_job("j", 8, deadline=D)).at(98)
    assert script.expect(ClaimProcessors).may_kill


def test_without_the_word_nobody_is_killed(script: Script) -> None:
    """`at_deadline = fail` is the default, whatever sites allow."""
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=8)
    script.tell(a_job("j", 4, deadline=D)).at(98)
    assert script.phase("j") == "Failed"


def test_ordinary_jobs_have_nobody_killed(begin: Begin) -> None:
    script = kill(begin)
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=8)
    script.tell(a_job("j", 4, priority=Priority.HIGH)).at(300).expect_nothing()


def test_a_budget_that_does_not_suffice_for_all_saves_everybody(begin: Begin) -> None:
    """Two claims of 4 x 60 s, and a budget for one of them."""
    script = begin(at_deadline="kill", hold_budget_user_s=300.0)
    script.tell(a_site("a", idle=0, may_kill_local=True)).report("a", 0, local=8)
    script.tell(a_job("j", 4, 4, deadline=D, max_hold_s=60.0)).at(98).expect_nothing()
    assert script.phase("j") == "Failed"


# --- the plan ---


def question(
    *pending: PendingPart, reclaimable: tuple[ReclaimableSite, ...], **more: object
) -> ClaimQuestion:
    fields: dict[str, object] = {
        "components": len(pending),
        "held": 0,
        "user": UserName(""),
        "priority": Priority.LOW,
        "remaining_s": 2.0,
        "threshold": 0.0,
        "preempt": "none",
        **more,
    }
    return ClaimQuestion(pending=pending, reclaimable=reclaimable, **fields)  # type: ignore[arg-type]


def part(component: int, processors: int, fixed: str | None = None) -> PendingPart:
    return PendingPart(
        component=component,
        processors=processors,
        site=None,
        fixed=None if fixed is None else SiteName(fixed),
        size_bytes=0,
    )


def a_view(**idle: int) -> GridView:
    sites = [SiteView(name=SiteName(name), processors=8, idle=n) for name, n in idle.items()]
    return GridView(sites, replicas={}, bandwidth={}, bandwidth_default=1.0)


def a_reclaimable_site(site: str, idle: int, local: int) -> ReclaimableSite:
    return ReclaimableSite(site=SiteName(site), idle=idle, local=local)


def test_room_is_made_where_most_are_idle() -> None:
    """Site b has 2 idle and 4 local, a has 1 and 7: 4 go to b first, then 5 to a."""
    plan = repeated(
        question(
            part(0, 4),
            part(1, 5),
            reclaimable=(a_reclaimable_site("a", 1, 7), a_reclaimable_site("b", 2, 4)),
        ),
        a_view(a=1, b=2),
        worst_fit,
    )
    assert [(a.component, a.site) for a in plan.forced] == [(1, "b"), (0, "a")]


def test_a_component_with_a_site_gets_its_room_there() -> None:
    plan = repeated(
        question(
            part(0, 6),
            part(1, 4, "a"),
            reclaimable=(a_reclaimable_site("a", 0, 8), a_reclaimable_site("b", 0, 8)),
        ),
        a_view(a=0, b=0),
        worst_fit,
    )
    assert [(a.component, a.site) for a in plan.forced] == [(1, "a"), (0, "b")]


def test_room_is_made_where_the_file_is_or_can_be() -> None:
    name = FileName("f")
    view = GridView(
        a_view(a=0, b=0).sites,
        replicas={name: Replica(size_bytes=100, sites=(SiteName("b"),))},
        bandwidth={},
        bandwidth_default=1.0,
    )
    pending = PendingPart(
        component=0, processors=4, site=None, fixed=None, size_bytes=100, file=name
    )
    reclaimable = (a_reclaimable_site("a", 4, 4), a_reclaimable_site("b", 0, 8))
    plan = repeated(question(pending, reclaimable=reclaimable), view, worst_fit)
    assert plan.forced == (Assignment(component=0, site=SiteName("b")),)


def test_victims_are_the_youngest_and_no_more_than_needed() -> None:
    """One site: idle 1; local jobs of 2, 1, 4 processors, the youngest first."""
    room = make_room([(3, range(1)), (1, range(1))], [1], [(2, 1, 4)])
    assert room is not None
    assert (room.sites, room.victims) == ((0, 0), (2,))
    assert make_room([(9, range(1))], [1], [(2, 1, 4)]) is None


def test_what_one_component_leaves_over_serves_the_next() -> None:
    """The job of 4 dies for 2; the other 2 take the next component, and nobody else dies."""
    room = make_room([(2, range(2)), (2, range(2))], [0, 0], [(4,), (4,)])
    assert room is not None
    assert (room.sites, room.victims) == ((0, 0), (1, 0))
