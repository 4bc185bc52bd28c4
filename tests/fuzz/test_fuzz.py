"""A short run of every target, the same cases each time. `make fuzz` runs campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
import structlog

from tests.fuzz.campaign import TARGETS, a_case, harm

CASES = (400, pytest.param(3_000, marks=pytest.mark.long))
"""Cases of a target of ordinary speed."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Refusals are what is expected here; a line for each says nothing."""
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_is_taken_or_refused(name: str, cases: int) -> None:
    numbers = range(int(cases * TARGETS[name].share))
    assert not "\n".join(islice(harm(name, 0, numbers), 2))


def test_a_case_is_a_function_of_its_number() -> None:
    """A campaign must be able to repeat what it found."""
    for target in TARGETS.values():
        for number in range(20):
            assert repr(a_case(target, 7, number)) == repr(a_case(target, 7, number))
