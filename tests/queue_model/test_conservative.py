"""Conservative backfilling by hand: reservations, compression, overruns, wake-ups."""

from __future__ import annotations

import math

import pytest

from koala.queue_model import Discipline, local_queue
from koala.queue_model.conservative import ConservativeQueue
from tests.lrm.reference_queues import TraceJob, start_times


def starts(*jobs: TraceJob, discipline: Discipline = Discipline.CONSERVATIVE) -> list[float]:
    return start_times(local_queue(processors=8, discipline=discipline), list(jobs))


def test_no_reservation_is_delayed_where_easy_protects_only_the_head() -> None:
    jobs = (
        TraceJob(0, 5, 10, 10),
        TraceJob(0, 6, 5, 5),  # from 10 to 15; 2 are left beside it
        TraceJob(0, 4, 10, 10),  # from 15 to 25
        TraceJob(0, 3, 99, 99),  # 3 are idle now, but not from 10 on: at 15, too
        TraceJob(0, 2, 20, 20),  # beside the head, but it would leave 2 of the 3 at 15
    )
    assert starts(*jobs) == [0, 10, 15, 15, 25]
    assert starts(*jobs, discipline=Discipline.EASY) == [0, 10, 15, 20, 0]


def test_an_early_end_never_puts_a_reservation_off() -> None:
    """Made again in queue order, the reservation of the third job would go to the second."""
    jobs = (
        TraceJob(0, 4, 60, 60),
        TraceJob(0, 4, 1, 100),  # ends at 1
        TraceJob(0, 8, 10, 10),  # 100; still after the next one's 60 to 90, so 90
        TraceJob(0, 4, 30, 30),  # 60; becomes 1
    )
    assert starts(*jobs) == [0, 0, 90, 1]


def test_a_job_starts_at_its_reservation_though_nothing_happens_then() -> None:
    """As above: from 60 on the site is empty, and the compression at 1 had found 90."""
    queue: ConservativeQueue[str] = ConservativeQueue(processors=8)
    for key, processors, estimate_s in (
        ("long", 4, 60), ("early", 4, 100), ("whole", 8, 10), ("half", 4, 30),
    ):  # fmt: skip
        queue.submit(key, processors=processors, estimate_s=estimate_s)
    assert queue.advance(0) == ["long", "early"]
    assert queue.reservations == {"whole": 100, "half": 60}
    queue.end("early")
    assert queue.advance(1) == ["half"]
    assert queue.wake_at == 90
    queue.end("half")
    assert queue.advance(31) == []
    queue.end("long")
    assert queue.advance(60) == []
    assert queue.advance(queue.wake_at) == ["whole"]
    assert queue.wake_at == math.inf


def test_a_job_that_overruns_is_expected_to_leave_at_once() -> None:
    jobs = (
        TraceJob(0, 6, 20, 10),  # expected at 10, leaves at 20
        TraceJob(0, 8, 5, 5),  # reserved for 10; at 12 for 12; starts at 20
        TraceJob(12, 2, 30, 30),  # behind the second, which is expected to leave at 17
    )
    assert starts(*jobs) == [0, 20, 25]


def test_a_job_for_which_processors_are_out_of_order_waits_until_they_are_back() -> None:
    queue: ConservativeQueue[str] = ConservativeQueue(processors=8)
    queue.lose(4)
    queue.submit("large", processors=5, estimate_s=10)
    queue.submit("small", processors=4, estimate_s=1_000)
    assert queue.advance(0) == ["small"]
    assert queue.reservations == {"large": math.inf}
    queue.regain(2)
    assert queue.advance(5) == []
    assert queue.wake_at == 1_000
    queue.regain(2)
    assert queue.advance(6) == []
    queue.end("small")
    assert queue.advance(7) == ["large"]


@pytest.mark.parametrize(
    ("estimate_s", "expected"), [(10, 3), (11, 1), (15, 1), (math.inf, 1)]
)  # fmt: skip
def test_startable_counts_what_no_reservation_needs(estimate_s: float, expected: int) -> None:
    queue: ConservativeQueue[str] = ConservativeQueue(processors=8)
    queue.submit("running", processors=5, estimate_s=10)
    queue.submit("reserved", processors=7, estimate_s=1)
    assert queue.advance(0) == ["running"]
    assert queue.startable(0, estimate_s) == expected
