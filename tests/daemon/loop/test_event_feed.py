"""Watchers: every notice once, in order, from memory or from the journal; the slow are cut."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from koala.daemon.loop import event_feed as notices_module
from koala.daemon.loop.event_feed import CutError, EventFeed
from koala.daemon.storage import journal as journal_module
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Notice
from koala.errors import RejectedError, SpecError


@asynccontextmanager
async def hub(folder: Path, *, past: int = 0) -> AsyncIterator[tuple[EventFeed, Journal]]:
    """A hub over a journal that has so many notices from earlier lives."""
    journal = Journal.open(folder)
    assert list(journal.records()) == []
    if past:
        journal.append(Batch(records=[], notices=[notice(n) for n in range(1, past + 1)]))
    yield EventFeed(journal), journal
    journal.close()


def notice(number: int) -> Notice:
    return Notice(number=number, at=float(number), job=f"j{number}")


def publish(the: EventFeed, journal: Journal, first: int, last: int) -> None:
    batch = [notice(number) for number in range(first, last + 1)]
    journal.append(Batch(records=[], notices=batch))
    the.publish(batch)


async def take(the: EventFeed, after: int, count: int) -> list[int]:
    numbers: list[int] = []
    async with asyncio.timeout(90), aclosing(the.since(after)) as since:
        while len(numbers) < count:
            numbers += await lot(since)
    assert len(numbers) == count
    return numbers


async def lot(since: AsyncGenerator[Sequence[Notice], None]) -> list[int]:
    """The numbers of the next ones."""
    return [notice.number for notice in await anext(since)]


async def test_one_that_fell_behind_is_cut_and_resumes_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "RECENT_MAX", 10)
    async with hub(tmp_path) as (the, journal):
        publish(the, journal, 1, 3)
        async with aclosing(the.since(0)) as since:
            seen = await lot(since)
            waiting = asyncio.get_running_loop().create_task(lot(since))
            await asyncio.sleep(0)
            publish(the, journal, 4, 4)
            seen += await waiting
            publish(the, journal, 5, 30)  # while the watcher does not read
            with pytest.raises(CutError, match="too slow; resume after 4") as cut:
                await anext(since)
        assert seen == [1, 2, 3, 4]
        assert await take(the, the.start(cut.value.after), 26) == list(range(5, 31))


async def test_one_that_reads_the_past_more_slowly_than_it_goes_is_cut_before_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "NOTICES_MAX", 2_000)
    monkeypatch.setattr(notices_module, "RECENT_MAX", 10)
    async with hub(tmp_path, past=2_000) as (the, journal):
        async with aclosing(the.since(the.start(0))) as since:
            seen = await lot(since)
            publish(the, journal, 2_001, 4_000)
            with pytest.raises(CutError, match=f"not kept any more; resume after {len(seen)}"):
                await anext(since)
        with pytest.raises(RejectedError, match="first: 2001"):
            the.start(len(seen))


async def test_an_end_of_the_daemon_cuts_after_all_was_seen(tmp_path: Path) -> None:
    async with hub(tmp_path, past=2) as (the, _):
        the.close("the daemon is shutting down")
        async with aclosing(the.since(0)) as since:
            assert await lot(since) == [1, 2]
            with pytest.raises(CutError, match="the daemon is shutting down; resume after 2"):
                await anext(since)


async def test_a_beginning_that_would_leave_a_gap_is_refused(tmp_path: Path) -> None:
    async with hub(tmp_path, past=5) as (the, journal):
        with pytest.raises(SpecError, match="after = 6: the last notice is 5"):
            the.start(6)
        with pytest.raises(SpecError, match="-1 or more"):
            the.start(-2)
        journal.first_notice = 4
        with pytest.raises(RejectedError, match="not kept any more; first: 4"):
            the.start(2)
        assert the.start(3) == 3
        assert the.start(0) == 3
