"""Placement queues in the order of a function of each job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.common.protocol.ordering import ORDERS, QueuedJob, in_order
from koala.core.model.actions import ClaimProcessors
from koala.core.model.values import JobId, UserName
from koala.core.pipeline import ordered_scan
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import HIGH, a_component, a_job, a_site
from tests.harness.script import Script

QUEUED = {
    "long": QueuedJob(user="ann", processors=1, estimate_s=100.0, waited_s=30.0),
    "short": QueuedJob(user="ann", processors=4, estimate_s=10.0, waited_s=20.0),
    "urgent": QueuedJob(user="ann", processors=1, estimate_s=50.0, waited_s=10.0, priority=1),
    "other": QueuedJob(user="bob", processors=1, estimate_s=50.0, waited_s=0.0, held=3),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sjf", ["short", "urgent", "other", "long"]),
        ("priorities", ["urgent", "long", "short", "other"]),
        ("fair-share", ["long", "short", "other", "urgent"]),
    ],
)
def test_jobs_go_in_the_order_of_their_keys(name: str, expected: list[str]) -> None:
    """A job that goes first is held by its user: after 5 of ann's, bob's 3 are fewer."""
    assert list(in_order(QUEUED, ORDERS[name])) == expected


def test_users_with_and_without_a_group_are_in_one_order() -> None:
    alone = QueuedJob(user="ann", processors=1, estimate_s=9.0, waited_s=3.0, held=2)
    jobs = {
        "alone": alone,
        "group": replace(alone, user="bob", group="physics", group_held=1, held=1),
        "large": replace(alone, user="eve", group="physics", group_held=3, held=0),
    }
    assert list(in_order(jobs, ORDERS["fair-share"])) == ["group", "alone", "large"]


def begin_ordered(begin: Begin, name: str, **parameters: object) -> Script:
    script = begin(policies=chosen(queueing=name), **parameters)
    return script.tell(a_site("delft", 8, idle=0))


def claimed_in_turn(script: Script) -> list[str]:
    script.report("delft", 8)
    return [claim.claim.split("/")[0] for claim in script.take(ClaimProcessors)]


def test_the_shortest_job_is_placed_first(begin: Begin) -> None:
    script = begin_ordered(begin, "sjf")
    script.tell(a_job("none", 4), *(a_job(f"s{s}", a_component(4, wall_time_s=s)) for s in (9, 5)))
    assert claimed_in_turn(script) == ["s5", "s9"]
    text = why(script.scheduler, JobId("none"), script.now)[0]
    assert text == "one of 1 in the queue, which is ordered by sjf"


def test_the_user_who_holds_the_fewest_processors_goes_first(begin: Begin) -> None:
    script = begin_ordered(begin, "fair-share")
    ann, bob = UserName("ann"), UserName("bob")
    script.tell(*(a_job(f"a{n}", 3, owner=ann) for n in range(2)), a_job("b", 3, owner=bob))
    assert claimed_in_turn(script) == ["a0", "b"]


def test_high_priority_goes_first_where_the_order_says_so(begin: Begin) -> None:
    script = begin_ordered(begin, "priorities")
    script.tell(a_job("low", 6), a_job("high", 6, priority=HIGH))
    assert claimed_in_turn(script) == ["high"]


def test_a_job_that_has_waited_too_long_goes_first(begin: Begin) -> None:
    script = begin_ordered(begin, "sjf", ageing_s=60.0)
    script.tell(a_job("long", a_component(8, wall_time_s=90.0)))
    script.at(61).tell(a_job("short", a_component(8, wall_time_s=1.0)))
    assert claimed_in_turn(script) == ["long"]


def test_a_scan_visits_the_first_jobs_of_a_long_queue(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_scan, "VISITED_MAX", 2)
    script = begin_ordered(begin, "sjf")
    sizes = {1: 99, 2: 2, 3: 99, 4: 2, 5: 99, 6: 2}
    script.tell(*(a_job(f"s{s}", a_component(n, wall_time_s=s)) for s, n in sizes.items()))
    tries = [script.job(f"s{s}").placement_tries for s in sizes]
    assert claimed_in_turn(script) == ["s2"], "the second scan visits 1 and 3 only"
    now = [script.job(f"s{s}").placement_tries for s in sizes]
    assert [b - a for a, b in zip(tries, now, strict=True)] == [2, 1, 1, 0, 0, 0]
