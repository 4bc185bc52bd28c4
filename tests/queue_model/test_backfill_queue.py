"""The queue with a fast search finds what a search from its head finds."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from random import Random

import pytest

from koala.queue_model.backfill_queue import BackfillQueue
from koala.queue_model.queue import Waiting

Job = Waiting[int]


def plain_take(
    jobs: list[Job], *, idle: int, extra: int, now: float, shadow_at: float
) -> tuple[list[Job], int]:
    chosen = []
    for job in jobs:
        _, size, estimate_s = job
        is_short = now + estimate_s <= shadow_at
        if size <= idle and (is_short or size <= extra):
            extra -= 0 if is_short else size
            idle -= size
            chosen.append(job)
        if not idle:
            break
    for job in chosen:
        jobs.remove(job)
    return chosen, extra


@pytest.mark.parametrize("seed", range(4))
def test_a_line_is_a_list_whatever_comes_and_goes(seed: int) -> None:
    """Thousands come and go in waves, so that blocks are summed up, emptied, joined,
    become the last ones and are added to again."""
    random = Random(seed)
    line: BackfillQueue[int] = BackfillQueue()
    plain: list[Job] = []
    key = 0
    for step in range(900):
        for _ in range(random.choice([0, 0, 3, 40]) if step % 300 < 150 else 0):
            key += 1
            # Small and short ones are rare, so most blocks have none and are passed over.
            small = random.random() < 0.05
            size = random.randint(1, 4) if small else random.randint(20, 64)
            job = (key, size, random.choice([1, 50, 900]))
            if random.random() < 0.02:
                line.prepend(job)
                plain.insert(0, job)
            elif plain and random.random() < 0.1:
                place = random.randrange(len(plain))
                line.insert(job, plain[place])
                plain.insert(place, job)
            else:
                line.append(job)
                plain.append(job)
        for _ in range(random.choice([0, 0, 1, 5])):
            if plain:
                assert line.head == plain[0]
                idle = plain[0][1] + random.choice([-1, 0, 0, 40])
                fitting = bisect_right([*accumulate(job[1] for job in plain)], idle)
                assert line.take_from_head(idle) == plain[:fitting]
                del plain[:fitting]
        if plain and random.random() < 0.3:
            gone = plain.pop(random.randrange(len(plain)))
            line.remove(gone)
        given = {
            "idle": random.choice([1, 5, 30, 80]),
            "extra": random.choice([0, 0, 2, 60]),
            "now": step,
            "shadow_at": step + random.choice([0, 2, 60, 1_000]),
        }
        short = line.fitting(given["idle"])
        assert short is None or short == [job for job in plain if job[1] <= given["idle"]]
        if random.random() < 0.5:
            assert line.take(**given) == plain_take(plain, **given)
    while plain:
        assert line.head == plain[0]
        assert line.take_from_head(plain[0][1]) == [plain[0]]
        del plain[0]


def test_what_is_added_to_a_block_that_was_summed_up_is_found() -> None:
    """Blocks behind it vanish, so it is the last one again and takes new jobs; then it is in the
    middle, and its old sum would hide them."""
    line: BackfillQueue[int] = BackfillQueue()
    for key in range(256 * 3):
        line.append((key, 64, 1_000))
    assert line.take(idle=1, extra=0, now=0, shadow_at=0) == ([], 0)  # sums the middle up
    for key in range(256 * 2 - 1, 256 * 3):
        line.remove((key, 64, 1_000))
    line.append((1_000, 1, 1))
    for key in range(2_000, 2_200):
        line.append((key, 64, 1_000))
    found, _ = line.take(idle=1, extra=1, now=0, shadow_at=0)
    assert found == [(1_000, 1, 1)]
