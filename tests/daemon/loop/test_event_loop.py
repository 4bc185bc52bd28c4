"""The event loop: one order of events, nothing before its commit, and limits that hold."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from koala.core.model.actions import Action, ClaimProcessors
from koala.core.model.events import DaemonStarted, Event, JobSubmitted, SiteRegistered, Woken
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.config import Config
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, GroupCommit
from koala.daemon.state.folder import FILE
from koala.daemon.state.recovery import recover
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Notice, Record
from koala.errors import JournalError, RejectedError, UnreachableError
from koala.policies import chosen
from koala.runtime.clock import Clock
from koala.views.digest import digest
from tests.daemon.running import config_of

SPEC = JobSpec(components=(ComponentSpec(executable="/bin/true", processors=2),))
REGISTERED = SiteRegistered(site=SiteName("delft"), facts=SiteFacts(processors=4), idle=4)


def register(turn: BatchContext) -> None:
    turn.emit(REGISTERED)


@dataclass
class Recording:
    """Record what was delivered, with the number of events that were durable then."""

    journal: Journal
    actions: list[tuple[int, Action]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def carry_out(self, actions: Sequence[Action]) -> None:
        self.actions += [(self.journal.seq, action) for action in actions]

    def publish(self, notices: Sequence[Notice]) -> None:
        self.notices += notices


class SlowClock(Clock):
    """Each look at it takes so long."""

    step_s = 0.0
    at = 100.0

    def now(self) -> float:
        self.at += self.step_s
        return self.at


@dataclass
class Bench:
    """An event loop over a real scheduler and journal, in a task of the test."""

    scheduler: Scheduler
    journal: Journal
    event_loop: EventLoop
    received: Recording
    running: asyncio.Task[None]


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    journal = Journal.open(folder)
    assert list(journal.records()) == []
    scheduler = Scheduler(Parameters(), chosen())
    clock = Clock()
    received = Recording(journal)
    event_loop = EventLoop(scheduler, journal, clock, digest=digest, jobs=0, receiver=received)
    running = asyncio.get_running_loop().create_task(event_loop.run())
    try:
        yield Bench(scheduler, journal, event_loop, received, running)
    finally:
        event_loop.close()
        async with asyncio.timeout(90):
            await asyncio.wait({running})
        journal.close()


def submit(turn: BatchContext) -> JobId:
    job = turn.new_job()
    turn.emit(JobSubmitted(job=job, spec=SPEC))
    return job


def kinds(folder: Path) -> list[str]:
    journal = Journal.open(folder)
    found = [type(record.event).__name__ for record in journal.records()]
    journal.close()
    return found


async def test_an_answer_comes_when_its_event_is_durable(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        job = await the.event_loop.ask(submit)
        assert job == "j1"
        assert the.journal.seq >= 1
        assert [notice.job for notice in the.received.notices] == ["j1"]
    assert kinds(tmp_path)[0] == "JobSubmitted"


async def test_an_action_leaves_after_the_commit_of_its_event(tmp_path: Path) -> None:
    async with bench(tmp_path) as the:
        the.event_loop.post(register)
        await the.event_loop.ask(submit)
        async with asyncio.timeout(90):
            while not the.received.actions:
                await the.event_loop.ask(lambda turn: None)
        durable, action = the.received.actions[0]
        assert isinstance(action, ClaimProcessors)
    story = kinds(tmp_path)  # in which a busy machine may have more than one Woken
    scan = story.index("Woken", story.index("JobSubmitted"))
    assert durable >= scan + 1, story


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
    turns = GroupCommit(Scheduler(Parameters(), chosen()), journal, clock, digest=digest, jobs=0)
    for _ in range(2):
        turns.post(submit)
    clock.step_s = 1.0
    told = []
    for _ in range(3):
        turns.handle_batch()
        batch = turns.prepare_commit()
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
            with pytest.raises(UnreachableError, match="the daemon ends"):
                answers.append(await the.event_loop.ask(submit))

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            with pytest.raises(JournalError, match="cannot be written"):
                await the.running
        await ask()  # nor does one who comes later wait for ever
        assert not answers
        assert not the.received.actions
        assert not the.event_loop.can_renew_leases(0.0)


async def test_a_tripped_assertion_is_not_in_the_journal_to_trip_it_again(tmp_path: Path) -> None:
    def trip(turn: BatchContext) -> None:
        turn.emit(REGISTERED)
        raise AssertionError("a bug")

    async with bench(tmp_path) as the:
        the.event_loop.post(trip)
        with pytest.raises(AssertionError, match="a bug"):
            await the.running
    assert kinds(tmp_path) == []


async def test_an_error_of_ours_goes_to_who_asked_and_to_nobody_else(tmp_path: Path) -> None:
    def refuse(turn: BatchContext) -> None:
        raise RejectedError(f"not at {turn.now:.0f}")

    async with bench(tmp_path) as the:
        with pytest.raises(RejectedError, match="not at"):
            await the.event_loop.ask(refuse)
        assert await the.event_loop.ask(submit) == "j1"


async def test_a_cancelled_asker_does_not_take_its_event_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as the, asyncio.TaskGroup() as group:
        asking = group.create_task(the.event_loop.ask(submit))
        await asyncio.sleep(0)
        asking.cancel()
    assert kinds(tmp_path)[0] == "JobSubmitted"


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


# --- recovery -------------------------------------------------------------------------------------


def recovered(config: Config) -> tuple[Scheduler, int, list[Event]]:
    journal = Journal.open(config.state_dir)
    try:
        found = recover(journal, config)
        return found.scheduler, found.jobs, [r.event for r in list(journal.records())]
    finally:
        journal.close()


def test_each_start_is_a_new_epoch_and_says_parameters_only_when_they_changed(
    tmp_path: Path,
) -> None:
    first, _, events = recovered(config_of(tmp_path))
    assert first.epoch == 1
    assert [type(event).__name__ for event in events] == ["ParametersChanged", "DaemonStarted"]
    second, _, events = recovered(config_of(tmp_path))
    assert second.epoch == 2
    assert events[2:] == [DaemonStarted(epoch=2)]
    third, _, events = recovered(config_of(tmp_path, parameters="hold_s = 5.0"))
    assert [type(event).__name__ for event in events[3:]] == ["ParametersChanged", "DaemonStarted"]
    assert third.parameters.hold_s == 5.0


def test_a_clock_never_runs_behind_the_journal(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "state")
    assert list(journal.records()) == []
    far_at = Clock().now() + 1e6
    journal.append(Batch(records=[Record(seq=1, at=far_at, event=Woken(), answers=[])]))
    journal.close()
    journal = Journal.open(tmp_path / "state")
    found = recover(journal, config_of(tmp_path))
    assert found.clock.now() >= far_at
    journal.close()


def test_a_replay_to_another_state_refuses_to_start_and_says_where(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    recovered(config)
    journal = Journal.open(config.state_dir)
    assert len(list(journal.records())) == 2
    journal.append(Batch(records=[], digest="0" * 64))
    journal.close()
    with pytest.raises(JournalError, match="up to event 2 gives another state"):
        recovered(config)
