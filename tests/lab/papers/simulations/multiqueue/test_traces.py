"""Every discipline on streams of a few jobs, computed by hand from the paper's words."""

from __future__ import annotations

import pytest

from koala.policies.queueing.multiqueue import DISCIPLINES
from tests.lab.papers.simulations.multiqueue.streams import a_stream, coins, simulated, starts

ONE = a_stream(
    (0, (4, 4), 10, 0),
    (1, (3,), 5, 0),
    (2, (2, 2), 4, 1),
    (3, (2,), 3, 1),
    (4, (4, 3), 2, 0),
    (5, (1,), 6, 0),
)
"""Two sites of 4. The first job takes all until 10, when every queue has jobs. Coins .7, .2, ..."""

ONE_STARTS = {
    # The head of the queue alone: j2 at 10 leaves (1, 4), too little for j3 until 15.
    "GS": [0, 10, 15, 15, 19, 19],
    # First j2; j3 does not fit beside it. At 15 the first queue's j5 takes nearly all.
    "LS-OR": [0, 10, 17, 17, 15, 17],
    # .7: the second queue first, j3 and j4. Coins at 13, 14: .2, .7. j2 at 14.
    "LS-RD": [0, 14, 10, 10, 19, 21],
    # j2's own site is released at 15: its queue first, as with LS-OR.
    "LS-RO": [0, 10, 17, 17, 15, 17],
    # At 10 both queues have j3 and then j5 disabled: at 15 j3 is first.
    "LS-DO": [0, 10, 15, 15, 19, 21],
    # Global jobs alone until none waits: j3, j5 at 14; then all local ones.
    "GP": [0, 16, 10, 16, 14, 16],
    # No local queue is empty at 10: j2, j4; now one is, but j3 does not fit beside j2.
    "LP-LF": [0, 10, 15, 10, 19, 10],
    "LP-GF": [0, 10, 15, 10, 19, 10],
    "LP-RD": [0, 10, 15, 10, 19, 10],
    # j2, j4, then j3 does not fit; j6.
    "EQ-LF": [0, 10, 15, 10, 19, 10],
    # j3 first, which leaves no room for j2; j4.
    "EQ-GF": [0, 16, 10, 10, 14, 16],
    "EQ-RD": [0, 10, 15, 10, 19, 10],  # .7: local first
    # 2 global against 2 and 1: local, j2. Now global is longest, and j3 does not fit: nobody.
    "LQ": [0, 10, 15, 15, 19, 15],
}

TWO = a_stream(
    (0, (4, 4, 2), 10, 0),
    (1, (3,), 5, 0),
    (2, (2, 2), 4.25, 1),
    (3, (2,), 3.5, 1),
    (4, (4, 3), 2, 2),
    (5, (1,), 6, 0),
    (6, (3,), 2.125, 2),
    (6.5, (3,), 3, 1),
    (7, (2, 1), 1, 0),
)
"""Three sites of 4, a queue of each has jobs when the first departs. Coins .4, .8, .1, ..."""

TWO_STARTS = {
    "GS": [0, 10, 10, 10, 14.25, 14.25, 15, 16.25, 16.25],
    "LS-OR": [0, 10, 10, 10, 15, 10, 17, 14.5, 13.5],
    "LS-RD": [0, 14.25, 10, 10, 17.25, 14.25, 19.25, 14.25, 14.25],
    "LS-RO": [0, 10, 10, 10, 15, 10, 17, 14.5, 13.5],
    "LS-DO": [0, 10, 10, 10, 14.5, 10, 16.5, 16.5, 13.5],
    # j3; j5 does not fit until 14.25, where j9 does, too; then the local ones.
    "GP": [0, 16.25, 10, 16.25, 14.25, 16.25, 15.25, 19.75, 14.25],
    # At 16.375 all is idle: j8, then j5 beside it, or j5 and j9 and then no room for j8.
    "LP-LF": [0, 10, 12.125, 10, 16.375, 10, 10, 16.375, 18.375],
    "LP-GF": [0, 10, 12.125, 10, 16.375, 10, 10, 18.375, 16.375],
    "LP-RD": [0, 10, 12.125, 10, 16.375, 10, 10, 18.375, 16.375],
    "EQ-LF": [0, 10, 12.125, 10, 16.375, 10, 10, 16.375, 18.375],
    "EQ-GF": [0, 16.25, 10, 10, 14.25, 16.25, 10, 16.25, 14.25],
    "EQ-RD": [0, 16.25, 10, 10, 14.25, 16.25, 10, 16.25, 14.25],
    "LQ": [0, 14.25, 10, 10, 14.25, 14.25, 10, 16.25, 16.25],
}

THREE = a_stream((0, (3,), 10, 0), (0.5, (4,), 8, 1), (1, (4, 1), 2, 0), (2, (2,), 3, 1))
"""Two sites of 4. At 8.5 the second site is released; either j3 takes it, with the idle processor
of the first, or j4, which is in its own queue."""

J3_FIRST, J4_FIRST = [0, 0.5, 8.5, 10.5], [0, 0.5, 10, 8.5]
THREE_STARTS = {
    "GS": [0, 0.5, 8.5, 10],  # j4 goes to the first site at 10
    "LS-OR": J3_FIRST,
    "LS-RD": J4_FIRST,  # .7
    "LS-RO": J4_FIRST,
    "LS-DO": J3_FIRST,  # its queue was disabled first
    "GP": J3_FIRST,
    "LP-LF": J4_FIRST,
    "LP-GF": J3_FIRST,  # the first local queue is empty
    "LP-RD": J4_FIRST,
    "EQ-LF": J4_FIRST,
    "EQ-GF": J3_FIRST,
    "EQ-RD": J4_FIRST,
    "LQ": J4_FIRST,  # 1 is not longer than 1
}


@pytest.mark.parametrize("policy", DISCIPLINES)
def test_jobs_start_when_the_paper_says(policy: str) -> None:
    one = simulated(policy, ONE, sites=(4, 4), coin=coins(0.7, 0.2))
    assert starts(one) == ONE_STARTS[policy]
    two = simulated(policy, TWO, sites=(4, 4, 4), coin=coins(0.4, 0.8, 0.1))
    assert starts(two) == TWO_STARTS[policy]
    three = simulated(policy, THREE, sites=(4, 4), coin=coins(0.7))
    assert starts(three) == THREE_STARTS[policy]


def test_components_go_to_distinct_sites_the_largest_to_the_emptiest() -> None:
    stream = a_stream((0, (3,), 10, 1), (1, (2, 4, 1), 1, 0))
    placed = simulated("LS-OR", stream, sites=(4, 6, 5), coin=coins(0.5))[1]
    assert list(placed.sites) == [2, 0, 1]  # idle were 4, 3 and 5


def test_an_aged_global_job_is_started_though_no_local_queue_is_empty() -> None:
    """With LP it would wait for the last local job."""
    stream = a_stream(
        (0, (4,), 2, 0),
        (0, (4,), 2, 1),
        (0.1, (1, 1), 1, 0),
        *((0.2 + n, (4,), 2, site) for n in range(12) for site in (0, 1)),
    )
    plain = simulated("LP-LF", stream, sites=(4, 4), coin=coins(0.5))
    assert starts(plain)[2] > 20
    aged = simulated("LP-LF", stream, sites=(4, 4), coin=coins(0.5), ageing=3.0)
    assert starts(aged)[2] == 4


def test_who_has_aged_and_does_not_fit_lets_nobody_pass_for_a_while() -> None:
    """Small jobs that overlap would keep both sites from ever being idle together."""
    small = [(1.0 * n, (2,), 1.9, site) for n in range(60) for site in (0, 1)]
    stream = a_stream(*sorted([*small, (0.5, (4, 4), 1, 0)]))
    large = next(n for n, job in enumerate(stream) if job.sizes == (4, 4))
    plain = simulated("EQ-GF", stream, sites=(4, 4), coin=coins(0.5))
    assert starts(plain)[large] > 60
    aged = simulated("EQ-GF", stream, sites=(4, 4), coin=coins(0.5), ageing=5.0)
    assert 5.5 <= starts(aged)[large] < 10
