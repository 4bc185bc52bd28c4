"""Group commit: one order of events, nothing leaves before its commit, and a kill loses nothing."""

import asyncio
from pathlib import Path

import pytest

from koala.core.digest import digest
from koala.core.model.parameters import Parameters
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import BatchContext, GroupCommit
from koala.daemon.storage.folder import FILE
from koala.daemon.storage.journal import Journal
from koala.errors import JournalError, UnreachableError
from koala.policies import chosen
from tests.daemon.loop.bench import REGISTERED, SlowClock, bench, kinds, register, submit


async def test_what_came_is_handled_before_woken_of_the_same_instant(tmp_path: Path) -> None:
    """Both submissions wait when the scan that the first one asks for is due."""
    async with bench(tmp_path) as the, asyncio.TaskGroup() as group:
        group.create_task(the.event_loop.ask(submit))
        group.create_task(the.event_loop.ask(submit))
    assert kinds(tmp_path)[:3] == ["JobSubmitted", "JobSubmitted", "Woken"]


def test_a_timer_waits_for_what_came_before_it_was_due(tmp_path: Path) -> None:
    """Two submissions have come, and a busy machine handles one of them in a turn."""
    journal = Journal.open(tmp_path)
    clock = SlowClock()
    group = GroupCommit(Scheduler(Parameters(), chosen()), journal, clock, digest=digest, jobs=0)
    for _ in range(2):
        group.post(submit)
    clock.step_s = 1.0
    told = []
    for _ in range(3):
        group.handle_batch()
        batch = group.prepare_commit()
        told.append([] if batch is None else [type(r.event).__name__ for r in batch.records])
    assert told[:2] == [["JobSubmitted"], ["JobSubmitted", "Woken"]]
    journal.close()


async def test_a_failed_commit_ends_the_event_loop_before_any_answer_or_action(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as the:
        the.event_loop.post(register)
        await the.event_loop.ask(lambda turn: None)
        (tmp_path / FILE).unlink()
        answers: list[str] = []

        async def ask() -> None:
            with pytest.raises(
                UnreachableError, match="the daemon has failed, and its log says why"
            ):
                answers.append(await the.event_loop.ask(submit))

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            with pytest.raises(JournalError, match="cannot be written"):
                await the.running
        await ask()  # nor does one who comes later wait for ever
        assert not answers
        assert not the.received.actions
        assert not the.event_loop.can_renew_leases(0.0)


async def test_who_asks_after_an_end_in_order_hears_of_no_failure(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        await the.event_loop.ask(submit)
    with pytest.raises(UnreachableError, match=r"^the daemon is shutting down$"):
        await the.event_loop.ask(submit)


async def test_a_tripped_assertion_is_not_in_the_journal_to_trip_it_again(tmp_path: Path) -> None:
    def trip(turn: BatchContext) -> None:
        turn.emit(REGISTERED)
        raise AssertionError("a bug")

    async with bench(tmp_path) as the:
        the.event_loop.post(trip)
        with pytest.raises(AssertionError, match="a bug"):
            await the.running
    assert kinds(tmp_path) == []


async def test_a_digest_is_written_every_thousand_events(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        for _ in range(3):
            await the.event_loop.ask(lambda turn: [submit(turn) for _ in range(500)])
        seq, found = the.journal.last_digest() or (0, "")
        assert seq >= 1000
    journal = Journal.open(tmp_path)
    scheduler = Scheduler(Parameters(), chosen())
    for record in journal.records():
        scheduler.replay(record.event, record.at, record.answers)
        if record.seq == seq:
            assert digest(scheduler) == found
    assert len(scheduler.jobs) == 1500
    journal.close()
