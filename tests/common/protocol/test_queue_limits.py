"""Limits of queues: what a batch job asks for, and how long its claim may hold."""

from __future__ import annotations

import math

import pytest

from koala.common.protocol.messages import Queue, Resources
from koala.common.protocol.queue_limits import (
    NO_LIMITS,
    Times,
    hold_room_s,
    limit_of,
    times_of,
)

HOUR = 3600.0
QUEUES = (
    Queue(name="batch", is_default=True, longest_s=HOUR, usual_s=600.0),
    Queue(name="long", longest_s=24 * HOUR),
    Queue(name="free"),
)
HONOURS = ("queue", "project", "qos")


@pytest.mark.parametrize(
    ("wishes", "times"),
    [
        (Resources(), Times(longest_s=HOUR, usual_s=600.0)),
        (Resources(queue="long"), Times(longest_s=24 * HOUR, usual_s=24 * HOUR)),
        (Resources(queue="batch,long"), Times(longest_s=24 * HOUR, usual_s=24 * HOUR)),
        (Resources(queue="free"), NO_LIMITS),
        (Resources(queue="gone"), NO_LIMITS),
        (Resources(project="mine"), NO_LIMITS),  # whose limits are others
    ],
)
def test_the_times_of_a_job_are_those_of_its_queues(wishes: Resources, times: Times) -> None:
    assert times_of(wishes, QUEUES, honours=HONOURS) == times


@pytest.mark.parametrize(
    ("hold_s", "wall_s", "times", "limit_s"),
    [
        (900.0, None, NO_LIMITS, math.inf),
        (900.0, 600.0, NO_LIMITS, 1505.0),
        (900.0, None, Times(longest_s=HOUR, usual_s=HOUR), math.inf),  # the usual one is enough
        (900.0, None, Times(longest_s=HOUR, usual_s=600.0), 1505.0),
        (900.0, None, Times(longest_s=1000.0, usual_s=600.0), 1000.0),
        (900.0, 2700.0, Times(longest_s=HOUR, usual_s=600.0), HOUR),
        (900.0, 300.0, Times(room_s=400.0), 400.0),  # before a maintenance
        (900.0, 300.0, Times(room_s=350.0), 1205.0),  # after it
        (900.0, None, Times(usual_s=HOUR, room_s=1000.0), 1000.0),
    ],
)
def test_a_batch_job_asks_for_what_its_claim_needs_and_the_site_allows(
    hold_s: float, wall_s: float | None, times: Times, limit_s: float
) -> None:
    assert limit_of(hold_s, wall_s, 5.0, times) == limit_s


@pytest.mark.parametrize(
    ("wall_s", "times", "room_s"),
    [
        (600.0, NO_LIMITS, math.inf),
        (600.0, Times(longest_s=HOUR), 2995.0),
        (HOUR, Times(longest_s=HOUR), 60.0),
        (None, Times(longest_s=600.0), 535.0),
        (300.0, Times(longest_s=HOUR, room_s=400.0), 95.0),
    ],
)
def test_a_hold_leaves_the_program_its_time(
    wall_s: float | None, times: Times, room_s: float
) -> None:
    assert hold_room_s(wall_s, times, 5.0) == room_s
