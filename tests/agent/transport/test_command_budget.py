"""The budget of commands: how many ask in a minute, and how soon."""

from __future__ import annotations

import asyncio

import pytest

from koala_agent.transport.command_budget import CommandBudget

SITE = object()


class Time:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(asyncio, "sleep", time.sleep)
    return time


async def asked_at(budget: CommandBudget, time: Time, *, for_s: float) -> list[float]:
    """The instants at which somebody asks who would ask always, from the first on."""
    start, found = time.now, []
    while time.now < start + for_s:
        await budget.take()
        found.append(time.now - start)
    return found


@pytest.mark.parametrize(("state", "most"), [("starting", 12), ("busy", 12), ("idle", 6)])
async def test_no_minute_has_more_than_the_budget(time: Time, state: str, most: int) -> None:
    """A site that starts waits for nothing until it has used up all."""
    budget = CommandBudget(12, clock=time)
    budget.set_busy(SITE, is_busy=state == "busy")
    budget.starting |= {SITE} if state == "starting" else set()
    found = await asked_at(budget, time, for_s=600.0)
    assert max(sum(at <= other < at + 60.0 for other in found) for at in found) <= most
    assert len(found) > 0.6 * 10 * most, "it is used"
    assert found.count(0.0) == (12 if state == "starting" else most // 2 + 1)


async def test_acts_are_counted_and_take_nothing_from_the_budget(time: Time) -> None:
    budget = CommandBudget(12, clock=time)
    for _ in range(100):
        budget.count_act()
    await budget.take()
    assert time.now == 1000.0
    counts = budget.counts
    assert (counts.asked, counts.allowed, counts.acted) == (1, 6, 100)
    time.now += 61.0
    counts = budget.counts
    assert (counts.asked, counts.acted, counts.asks_total, counts.acts_total) == (0, 0, 1, 100)
