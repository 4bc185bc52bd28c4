"""Queues of sites whose jobs start in the order of a function of each."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from koala.common.protocol.ordering import ORDERS, QueuedJob, fair_share, shortest_first
from koala.queue_model import LocalQueue, local_queue
from koala_agent.lrm.emulated.emulated_settings import live_scheduler
from tests.lrm.reference_queues import PlainOrderedQueue, expected_start


def test_the_first_in_the_order_that_does_not_fit_ends_the_pass() -> None:
    queue: LocalQueue[str] = local_queue(processors=4, discipline=shortest_first)
    for key, processors, estimate_s in (("a", 1, 30.0), ("b", 2, 10.0), ("c", 3, 20.0)):
        queue.submit(key, processors=processors, estimate_s=estimate_s)
    assert queue.advance(0.0) == ["b"]
    assert queue.startable(0.0) == 0
    queue.end("b")
    assert queue.advance(5.0) == ["c", "a"]


def test_users_take_turns_by_what_they_hold() -> None:
    queue: LocalQueue[str] = local_queue(processors=4, discipline=fair_share)
    for key, user in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob"), ("b2", "bob")):
        queue.submit(key, processors=1, estimate_s=1.0, user=user)
    assert queue.advance(0.0) == ["a1", "b1", "a2", "b2"]
    queue.end("b1")
    queue.submit("b3", processors=1, estimate_s=1.0, user="bob")
    assert queue.advance(1.0) == ["b3"]
    queue.end("a1")
    queue.withdraw("a3")
    queue.submit("b4", processors=1, estimate_s=1.0, user="bob")
    assert queue.advance(2.0) == ["b4"]


def test_an_order_sees_how_long_jobs_have_waited() -> None:
    seen: list[float] = []

    def watched(job: QueuedJob) -> float:
        seen.append(job.waited_s)
        return 0.0

    queue: LocalQueue[str] = local_queue(processors=1, discipline=watched)
    for key in "ab":
        queue.submit(key, processors=1, estimate_s=9.0)
    assert queue.advance(3.0) == ["a"]
    queue.end("a")
    queue.advance(8.0)
    assert seen[-1] == 5.0


def test_a_live_site_goes_on_in_order_of_arrival_when_an_order_errs() -> None:
    order = live_scheduler(f"{__name__}:errs")
    queue: LocalQueue[str] = local_queue(processors=2, discipline=order)
    for key, estimate_s in (("a", 9.0), ("b", 1.0)):
        queue.submit(key, processors=1, estimate_s=estimate_s)
    assert queue.advance(0.0) == ["a", "b"]


def errs(job: QueuedJob) -> str:
    """Answer no number."""
    return f"{job.estimate_s}"


@pytest.mark.parametrize("name", ORDERS)
def test_jobs_that_are_alike_start_as_if_each_had_been_asked_about(name: str) -> None:
    """Random arrivals, ends, withdrawals and returns to the head, under an order that is known to
    look at one field, and under the same function as an unknown one."""
    draws = Random(7)
    known: LocalQueue[int] = local_queue(processors=9, discipline=ORDERS[name])
    unknown: LocalQueue[int] = local_queue(processors=9, discipline=partial(ORDERS[name]))
    running: list[tuple[int, int, float]] = []
    waiting: dict[int, tuple[int, float]] = {}
    for key in range(600):
        job = (draws.randint(1, 9), float(draws.randint(1, 3)))
        user, priority, number = draws.choice("abc"), draws.randint(0, 2), draws.random()
        withdrawn = draws.choice([*waiting]) if waiting and number < 0.2 else None
        ended = running.pop(draws.randrange(len(running))) if running and number > 0.3 else None
        for queue in (known, unknown):
            queue.submit(key, processors=job[0], estimate_s=job[1], user=user, priority=priority)
            if withdrawn is not None:
                queue.withdraw(withdrawn)
            if ended is not None:
                queue.end(ended[0])
                if number > 0.8:
                    queue.put_back(ended[0], processors=ended[1], estimate_s=ended[2])
        waiting[key] = job
        if withdrawn is not None:
            del waiting[withdrawn]
        if ended is not None and number > 0.8:
            waiting[ended[0]] = ended[1:]
        started = known.advance(float(key))
        assert unknown.advance(float(key)) == started
        running += [(one, *waiting.pop(one)) for one in started]
    assert len(waiting) > 50


@pytest.mark.parametrize("name", ORDERS)
def test_gated_jobs_keep_their_age_and_their_place(name: str) -> None:
    """Random arrivals, ends, withdrawals and gates, against a sort of all jobs at each start."""
    draws = Random(3)
    queue: LocalQueue[int] = local_queue(processors=9, discipline=ORDERS[name])
    plain = PlainOrderedQueue(ORDERS[name], 9)
    opened = 0
    for key in range(400):
        job = (draws.randint(1, 9), float(draws.randint(1, 3)), draws.choice("abc"))
        priority = draws.randint(0, 2)
        queue.submit(key, processors=job[0], estimate_s=job[1], user=job[2], priority=priority)
        plain.waiting[key] = (*job, priority)
        if draws.random() < 0.5:
            queue.gate(gated := draws.choice([*plain.waiting]))
            plain.gated.add(gated)
        if plain.gated and draws.random() < 0.4:
            queue.open(chosen := draws.choice(sorted(plain.gated)))
            plain.open(chosen)
            opened += 1
        if draws.random() < 0.2:
            queue.withdraw(gone := draws.choice([*plain.waiting]))
            del plain.waiting[gone]
            plain.since.pop(gone, None)
            plain.gated.discard(gone)
        if plain.running and draws.random() < 0.7:
            queue.end(ended := draws.choice([*plain.running]))
            plain.end(ended)
        assert queue.advance(float(key)) == plain.advance(float(key))
        assert [*queue.order()] == [*plain.waiting]
        if key % 40 == 0:
            asked = draws.sample([*plain.waiting], min(5, len(plain.waiting)))
            starts = {each: expected_start(plain, each, float(key)) for each in asked}
            assert queue.forecast(asked, float(key)) == starts
    assert opened > 100
