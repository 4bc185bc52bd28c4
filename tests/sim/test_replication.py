"""Runs in many processes give what they give in one, in the order of the items."""

import os
import signal
from functools import partial

import pytest

from koala.sim.replication import replicate


def _square(item: int) -> int:
    return item * item


def _fail(item: int) -> int:
    raise ValueError(item)


def _interrupt_parent(parent: int, item: int) -> int:
    if item == 1:
        os.kill(parent, signal.SIGINT)
        signal.pause()
    return item


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    told: list[int] = []
    found = replicate(_square, range(7), workers=workers, progress=told.append)
    assert found.results == (0, 1, 4, 9, 16, 25, 36)
    assert found.finished[3] == (3, 9)
    assert not found.is_interrupted
    assert told == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_a_run_is_raised_here(workers: int) -> None:
    with pytest.raises(ValueError, match="3"):
        replicate(_fail, [3, 3], workers=workers)


def test_an_interrupt_keeps_what_is_finished() -> None:
    """Item 1 waits for ever and interrupts: 0 was handed out before it and is finished."""
    found = replicate(partial(_interrupt_parent, os.getpid()), [0, 1, 2, 3], workers=2)
    assert found.is_interrupted
    assert 1 not in found.results
    assert len(found.results) < 4
