"""Bookings of the queue model: processors that are free when a job with a known start begins."""

from __future__ import annotations

import math
import random

import pytest

from koala.common.protocol.ordering import shortest_first
from koala.queue_model import Discipline, LocalQueue, local_queue

PROCESSORS = 16
DISCIPLINES = [*Discipline, shortest_first]
ORDERED = pytest.mark.parametrize("discipline", DISCIPLINES, ids=str)


def a_queue(discipline: object = Discipline.EASY, processors: int = 8) -> LocalQueue[str]:
    return local_queue(processors=processors, discipline=discipline)  # type: ignore[arg-type]


@ORDERED
def test_a_booking_begins_in_time_whatever_waits(discipline: object) -> None:
    """Jobs that keep their estimates delay no booking, and start by themselves once it is over."""
    for seed in range(40):
        draw = random.Random(seed)
        queue = a_queue(discipline, PROCESSORS)
        begins: dict[str, float] = {}
        ends: dict[str, float] = {}
        sizes: dict[str, int] = {}
        arrivals = {draw.randrange(60): f"a{n}" for n in range(30)}
        now, left = 0.0, set(arrivals.values())
        while now < 2_000 and (left or ends or begins):
            for key in [key for key, end in ends.items() if end <= now]:
                queue.end(key)
                del ends[key]
            if (name := arrivals.pop(int(now), "")) and now < 60:
                sizes[name], run_s = draw.randint(1, PROCESSORS), draw.randint(1, 30)
                if draw.random() < 0.3:
                    begin = now + draw.randint(1, 40)
                    if queue.book(
                        name, processors=sizes[name], begin=begin, end=begin + run_s, now=now
                    ):
                        begins[name] = begin
                    else:
                        left.discard(name)
                else:
                    queue.submit(name, processors=sizes[name], estimate_s=run_s)
            for key in queue.advance(now):
                assert begins.pop(key, now) == now, (seed, key)
                ends[key] = queue._running[key][0]
                left.discard(key)
            assert sum(sizes[key] for key in ends) == PROCESSORS - queue.idle >= 0
            assert queue.wake_at > now
            coming = [*ends.values(), queue.wake_at, *([int(now) + 1] if now < 60 else [])]
            now = min(coming)
        assert not left, (seed, left)


@ORDERED
def test_a_job_that_would_run_into_a_booking_waits_and_a_short_one_starts(
    discipline: object,
) -> None:
    queue = a_queue(discipline)
    assert queue.book("b", processors=6, begin=10, end=30, now=0)
    queue.submit("short", processors=8, estimate_s=10)
    assert queue.advance(0) == ["short"]
    queue.end("short")
    queue.submit("long", processors=4, estimate_s=11)
    assert queue.advance(0) == []
    assert queue.wake_at == 10
    assert queue.forecast(["long", "b"], 0) == {"long": 30, "b": 10}
    assert queue.advance(10) == ["b"]
    queue.end("b")
    assert queue.advance(20) == ["long"]


def test_what_is_startable_beside_a_booking_ends_before_it_or_leaves_it_room() -> None:
    queue = a_queue()
    queue.book("b", processors=6, begin=10, end=30, now=0)
    queue.advance(0)
    assert [queue.startable(0, s) for s in (10, 11, math.inf)] == [8, 2, 2]
    assert queue.idle == 8


def test_processors_are_booked_once_and_can_be_given_back() -> None:
    queue = a_queue()
    queue.occupy("long", processors=2, until=math.inf)
    queue.occupy("short", processors=6, until=10)
    assert not queue.book("b", processors=6, begin=9, end=12, now=0)
    assert queue.book("b", processors=6, begin=10, end=12, now=0)
    assert not queue.book("c", processors=1, begin=11, end=20, now=0)
    assert [*queue.booked] == ["b"]
    queue.withdraw("b")
    assert queue.book("c", processors=1, begin=11, end=20, now=0)
    assert not queue.is_settled()


def test_a_booking_is_late_only_as_long_as_a_job_overruns_its_estimate() -> None:
    queue = a_queue()
    queue.occupy("long", processors=8, until=10)
    queue.book("b", processors=6, begin=10, end=30, now=0)
    queue.submit("next", processors=1, estimate_s=5)
    assert queue.advance(12) == []
    queue.end("long")
    assert queue.advance(13) == ["b", "next"]
