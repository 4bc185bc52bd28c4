"""An event loop over a real scheduler and journal, for tests of the loop and of its commits."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from koala.common.runtime.clock import Clock
from koala.core.digest import digest
from koala.core.model.actions import Action
from koala.core.model.events import JobSubmitted, SiteRegistered
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Notice
from koala.policies import chosen

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
