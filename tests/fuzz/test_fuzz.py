"""A short run of every target: the same cases each time, and some that hypothesis draws, which it
makes small when one does harm. `make fuzz` runs campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.campaign import TARGETS, Lot, run

CASES = (400, pytest.param(3_000, marks=pytest.mark.long))
"""Cases of a target of ordinary speed."""
DRAWN = 25


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Refusals are what is expected here; a line for each says nothing."""
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_is_taken_or_refused(name: str, cases: int) -> None:
    count = int(cases * TARGETS[name].share)
    lot = run(Lot(target=name, seed=0, first=0, count=count))
    assert not lot.harm, "\n".join(story for _, story in lot.harm[:2])


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_is_drawn_is_taken_or_refused(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=min(DRAWN, int(CASES[0] * target.share)))
    @given(random=st.randoms(use_true_random=False))
    def check(random: Random) -> None:
        target.check(target.make(random))

    check()


def test_a_case_is_a_function_of_its_number() -> None:
    """A campaign must be able to repeat what it found."""
    for target in TARGETS.values():
        for number in range(20):
            once, again = (target.make(Random(f"x {number}")) for _ in range(2))
            assert repr(once) == repr(again)
