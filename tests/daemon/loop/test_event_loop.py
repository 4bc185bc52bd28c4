"""The event loop: errors and cancellations of those who ask, and limits that hold."""

import asyncio
from pathlib import Path

import pytest

from koala.common.runtime.clock import Clock
from koala.daemon.loop.group_commit import BatchContext
from koala.daemon.storage.records import Batch
from koala.errors import RejectedError
from tests.daemon.loop.bench import bench, submit


async def test_an_error_of_ours_goes_to_who_asked_and_to_nobody_else(tmp_path: Path) -> None:
    def refuse(turn: BatchContext) -> None:
        raise RejectedError(f"not at {turn.now:.0f}")

    async with bench(tmp_path) as the:
        with pytest.raises(RejectedError, match="not at"):
            await the.event_loop.ask(refuse)
        assert await the.event_loop.ask(submit) == "j1"


async def test_a_full_inbox_makes_askers_wait_and_loses_none(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        the.event_loop.inbox_max = 3
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(the.event_loop.ask(submit)) for _ in range(50)]
            await asyncio.sleep(0)
            assert the.event_loop.inbox_size <= 3
        assert sorted(task.result() for task in asked) == sorted(f"j{n}" for n in range(1, 51))


async def test_a_hanging_commit_renews_no_leases(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        blocking = asyncio.Event()
        commit = the.journal.commit

        async def slow(batch: Batch) -> None:
            blocking.set()
            await released.wait()
            await commit(batch)

        released = asyncio.Event()
        the.journal.commit = slow  # type: ignore[method-assign]
        clock = Clock()
        async with asyncio.TaskGroup() as group:
            group.create_task(the.event_loop.ask(submit))
            await blocking.wait()
            assert the.event_loop.can_renew_leases(clock.now())
            assert not the.event_loop.can_renew_leases(clock.now() + 11.0)
            released.set()
        the.journal.commit = commit  # type: ignore[method-assign]
        assert the.event_loop.can_renew_leases(clock.now() + 11.0)
