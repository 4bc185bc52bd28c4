"""The emulated manager stores each change before anything rests on it, once for each turn."""

from __future__ import annotations

import asyncio

import pytest

from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.job_table import Starting, State, Waiting
from koala_agent.lrm.local_manager import EndCause, Placeholder
from tests.lrm.harness import Ask, Serve, cancel_as_site

pytestmark = pytest.mark.live
JOBS = 24


def stored(manager: EmulatedLocalManager) -> dict[str, State]:
    """The job table as the next agent would find it."""
    return {row.placeholder.claim: row.state for row in manager._table.load()}


async def test_a_submission_and_a_withdrawal_are_stored_when_they_return(
    serve: Serve, ask: Ask
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("all", "sleep", "1000", processors=8))
        await manager.submit(ask("waits", "true"))
        assert stored(manager)["waits"] == Waiting()
        cancelled = manager.submit(ask("again", "true"))
        cancelled.send(None)
        cancelled.close()
        await manager.submit(ask("again", "true"))
        assert stored(manager)["again"] == Waiting()
        await manager.withdraw("waits")
        assert str(stored(manager)["waits"]).startswith("Over(cause=<EndCause.WITHDRAWN")
        await witness.running("all")
        await cancel_as_site(manager, "all")
        assert "CANCELLED_BY_SITE" in str(stored(manager)["all"])
        await witness.ended("all")


async def test_no_process_is_started_before_its_start_is_stored(
    serve: Serve, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    async with serve() as (manager, witness):
        start = manager._runs._first.start

        def noted(placeholder: Placeholder) -> None:
            found.append(stored(manager).get(placeholder.claim))
            start(placeholder)

        monkeypatch.setattr(manager._runs._first, "start", noted)
        claims = [f"j{number}" for number in range(JOBS)]
        await asyncio.gather(*(manager.submit(ask(claim, "true")) for claim in claims))
        for claim in claims:
            assert (await witness.ended(claim)).cause is EndCause.EXITED
    assert found == [Starting()] * JOBS
