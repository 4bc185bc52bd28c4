"""Objects that daemon and agent keep do not become more with the number of their past jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import koala.daemon.lifecycle
from koala.client import AsyncClient, AsyncJobHandle, Submission
from koala.core.model.hold_budget import PERIOD_S, WINDOW_S, Budget
from koala.core.model.values import ClaimId
from koala.daemon.assembly import Assembly, Foundation, assemble
from koala.daemon.loop.group_commit import Retention
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.memory.retained import retained
from tests.daemon.running import config_of, running
from tests.harness.moments import moment

pytestmark = pytest.mark.live

KEPT = 5
JOBS = 60
CHUNK = 20
NOTICES = 50
CLAIM_EVERY_S = 20.0
CONFIG = f"[journal]\nkeep_jobs = {KEPT}\nsnapshot_events = 200\n"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts of the daemon that is started next, which keeps little, in small lots."""
    found: list[Any] = []

    def noted(base: Foundation) -> Assembly:
        made = assemble(base)
        found.extend((base, made))
        return made

    monkeypatch.setattr(koala.daemon.lifecycle, "assemble", noted)
    monkeypatch.setattr("koala.daemon.assembly.Retention", partial(Retention, chunk=1))
    monkeypatch.setattr("koala.daemon.loop.event_feed.RECENT_MAX", NOTICES)
    return found


async def run_jobs(client: AsyncClient, parts: list[Any], first: int) -> Counter[str]:
    """Run so many jobs, and count what is retained when they are over."""
    for number in range(first, first + JOBS, CHUNK):
        keys = [f"k{number + n}" for n in range(CHUNK)]
        rsl = "&(executable=/bin/true)(count=1)"
        handles = await client.submit_many([Submission(rsl=rsl, key=key) for key in keys])
        names = [one.job for one in handles if isinstance(one, AsyncJobHandle)]
        assert set((await client.wait_all(names)).values()) == {"Finished"}
    scheduler = parts[0].scheduler
    have_left = False
    async with asyncio.timeout(90):
        while not have_left:
            have_left = not scheduler.ledger and len(scheduler.ended) <= KEPT
            await client.drain("delft")  # an event, with whose commit ended jobs leave, and
            await client.resume("delft")  # after which those of the commit before it are archived
            await moment()
    return retained(*parts)


async def test_ended_jobs_beyond_those_that_are_kept_leave_no_object(
    tmp_path: Path, parts: list[Any]
) -> None:
    """Three times as many jobs leave as much. A leak is one object a job at least; what differs by
    chance, such as a message that is on its way, is far less."""
    async with (
        running(config_of(tmp_path, CONFIG)) as daemon,
        asyncio.TaskGroup() as group,
        AsyncClient(daemon.address) as client,
    ):
        agent = FakeAgent(daemon.address, processors=100)
        staying = group.create_task(agent.stay())
        before, _, after = [await run_jobs(client, parts, n * JOBS) for n in range(3)]
        staying.cancel()
    assert before["Job"] == after["Job"] == KEPT
    grown = {kind: more for kind in after if (more := after[kind] - before[kind]) >= JOBS}
    assert grown == {}, f"of {before.total()} objects"


def test_what_was_held_is_kept_by_periods_and_forgotten_after_a_day() -> None:
    """Claims of a day and a half end in any order, up to a quarter of an hour later."""
    draws, budget = Random(1), Budget()
    charged: list[tuple[float, ClaimId]] = []
    for number in range(int(1.5 * WINDOW_S / CLAIM_EVERY_S)):
        now = number * CLAIM_EVERY_S
        claim = ClaimId(f"j{number}/1/0/1")
        budget.charge(claim, 900.0, now)
        charged.append((now + draws.uniform(0, 900), claim))
        for _, ended in (due := [one for one in charged if one[0] <= now]):
            budget.refund(ended, 10.0)
        charged = [one for one in charged if one not in due]
        allowed_s = 900.0 * len(charged) + 10.0 * (
            min(now, WINDOW_S + PERIOD_S) / CLAIM_EVERY_S + 1
        )
        assert budget.spent_s <= allowed_s
        assert budget.spent_s >= 10.0 * min(now, WINDOW_S) / CLAIM_EVERY_S
    for _, ended in charged:
        budget.refund(ended, 0.0)
    assert retained(budget)["tuple"] <= WINDOW_S / PERIOD_S + 5
    assert budget.allows(900.0, limit_s=900.0, now=2.5 * WINDOW_S + PERIOD_S)
    assert budget.spent_s == pytest.approx(0, abs=1e-3)
