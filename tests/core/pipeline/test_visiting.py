"""The machine that says whose head to try: arrivals, rounds, disabled queues, and ageing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.core.model.values import FOREVER
from koala.core.model.visiting import Visiting, draw_of, is_draining_for_aged
from koala.policies.queueing.multiqueue import DISCIPLINES

A, B, C, ALL = "a", "b", "c", "*"


class Queues:
    """Named queues of numbers; a number is what its job must wait for until it fits."""

    def __init__(self, policy: str, ageing_s: float = FOREVER, **lengths: int) -> None:
        self.queues = {name: ["job"] * lengths.get(name, 0) for name in (A, B, C)}
        self.queues[ALL] = ["job"] * lengths.get("common", 0)
        self.waited = dict.fromkeys(self.queues, 0.0)
        discipline = DISCIPLINES[policy]
        self.visiting = Visiting(
            discipline,
            self.queues,
            local=(A, B, C) if discipline.has_local else (),
            common=(ALL,) if discipline.has_global else (),
            disabled={},
            waited_s=self.waited.__getitem__,
            ageing_s=ageing_s,
        )

    def arrives(self, key: str) -> bool:
        self.queues[key].append("job")
        return self.visiting.arrived(key)

    def departs(
        self, *, fits: Callable[[str], bool], released: tuple[str, ...] = (), draw: float = 0.0
    ) -> str:
        """List the queues whose head was tried, in order; in capitals where it did not fit."""
        visited = ""
        for key in self.visiting.departed(released, draw):
            if fits(key):
                self.queues[key].pop(0)
                visited += key
            else:
                self.visiting.disabled[key] = None
                visited += key.upper() if key != ALL else "!"
        return visited


def anything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


def test_an_arrival_is_tried_if_it_is_alone_in_an_enabled_queue() -> None:
    queues = Queues("LS-OR", b=1)
    assert queues.arrives(A)
    assert not queues.arrives(B)
    queues.queues[A].clear()
    queues.visiting.disabled[A] = None  # an arriving head disables its queue, too
    assert not queues.arrives(A)


@pytest.mark.parametrize(
    ("policy", "draw"), [("LP-LF", 0.0), ("LP-GF", 0.0), ("LP-RD", 0.0), ("LP-RD", 0.9)]
)
def test_lp_lets_the_global_queue_join_when_a_local_one_gets_empty(
    policy: str, draw: float
) -> None:
    queues = Queues(policy, a=2, b=1, c=2, common=2)
    assert queues.departs(fits=anything, draw=draw) == "abc*ac*"


@given(
    policy=st.sampled_from(sorted(DISCIPLINES)),
    lengths=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    stuck=st.sets(st.sampled_from([A, B, C, ALL])),
    draw=st.floats(0, 0.999),
)
def test_it_ends_when_nothing_that_is_permitted_fits(
    policy: str, lengths: list[int], stuck: set[str], draw: float
) -> None:
    names = dict(zip((A, B, C, "common"), lengths, strict=True))
    queues = Queues(policy, **names)
    queues.departs(fits=lambda key: key not in stuck, released=(B,), draw=draw)
    again = queues.visiting.departed((), draw)
    before = dict(queues.visiting.disabled)
    for key in again:
        assert key in stuck
        assert key not in before
        queues.visiting.disabled[key] = None


# --- ageing ---


def test_who_has_aged_is_visited_first_longest_first() -> None:
    queues = Queues("EQ-GF", 10.0, a=1, b=1, c=1, common=1)
    queues.waited |= {B: 10.0, C: 30.0, A: 9.9}
    assert queues.departs(fits=nothing) == "CB!A"


@pytest.mark.parametrize("policy", ["GP", "LQ"])
def test_who_has_aged_is_permitted_in_spite_of_the_rule(policy: str) -> None:
    queues = Queues(policy, 10.0, a=1, b=1, common=3)
    queues.waited[B] = 10.0
    assert queues.departs(fits=lambda key: key != ALL) == "b!"


def test_the_door_is_held_every_second_half_of_a_period() -> None:
    held = [is_draining_for_aged(waited_s, 10.0) for waited_s in (9, 10, 14, 15, 19, 20, 24, 25)]
    assert held == [False, True, True, False, False, True, True, False]


def test_draws_are_uniform_and_the_same_in_every_process() -> None:
    draws = [draw_of(n) for n in range(1, 20_001)]
    assert draws[0] == (0xE220A8397B1DCDAF >> 11) / 2**53  # the first output of splitmix64
    for tenth in range(10):
        share = sum(tenth <= 10 * draw < tenth + 1 for draw in draws) / len(draws)
        assert abs(share - 0.1) < 0.01
