"""Steps of the wall clock decide nothing: it is looked at once in a life."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from koala.common.runtime.clock import Clock
from koala.core.digest import digest
from koala.core.model.actions import Action, ArmClaim, ClaimProcessors, ReleaseClaim
from koala.core.model.events import ClaimArmed, ClaimGranted, ClaimPassed, Event
from koala.core.model.parameters import Parameters
from koala.core.model.values import JobId
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import BatchContext, GroupCommit
from koala.daemon.storage.records import Record
from koala.policies import chosen
from tests.harness.builders import a_job, a_site

HOUR_S = 3600.0
WALL_S = 1_800_000_000.0


@dataclass
class Machine:
    """A machine's two clocks; somebody steps one of them."""

    steps: Iterator[float]
    boot_s: float = 1000.0
    stepped_s: float = 0.0

    def boot(self) -> float:
        return self.boot_s

    def wall(self) -> float:
        return WALL_S + self.boot_s + self.stepped_s

    def step(self) -> None:
        self.stepped_s = next(self.steps)


def tell(event: Event, turn: BatchContext) -> None:
    turn.emit(event)


@dataclass
class NoJournal:
    """Nothing was ever written."""

    seq: int = 0
    notice_number: int = 0


@dataclass
class Run:
    """A site and its agent, which answers as it is told, in batches of the daemon."""

    machine: Machine
    records: list[Record] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

    def go(self) -> list[Record]:
        clock = Clock(wall=self.machine.wall, boot=self.machine.boot)
        scheduler = Scheduler(Parameters(), chosen())
        group = GroupCommit(scheduler, NoJournal(), clock, digest=digest, jobs=0, receiver=self)
        said: list[Event] = [a_site("a", 4), a_site("b", 4), a_job("j1", 4, 4), a_job("j2", 3)]
        for _ in range(40):
            for event in said:
                group.post(partial(tell, event))
            said = []
            items = group.handle_batch()
            batch = group.prepare_commit()
            if batch is not None:
                self.records += batch.records
                group.on_committed(batch)
            group.deliver(items, ())
            said += [answer for action in self.actions for answer in self.answers(action, clock)]
            self.actions = []
            self.machine.boot_s += 0.02
            self.machine.step()
        assert scheduler.jobs[JobId("j1")].phase_name == "Running"
        return self.records

    def answers(self, action: Action, clock: Clock) -> Iterator[Event]:
        if isinstance(action, ClaimProcessors):
            yield ClaimGranted(claim=action.claim, nonce="n")
        elif isinstance(action, ArmClaim):
            yield ClaimArmed(claim=action.claim, number=action.number)
        elif isinstance(action, ReleaseClaim):
            yield ClaimPassed(claim=action.claim, passed_at=clock.now())

    def carry_out(self, actions: object) -> None:
        assert isinstance(actions, list)
        self.actions += actions

    def publish(self, _: object) -> None:
        """Nobody watches."""


def still() -> Iterator[float]:
    while True:
        yield 0.0


def jumping() -> Iterator[float]:
    while True:
        yield from (HOUR_S, -HOUR_S, 0.0)


def test_no_decision_changes_when_the_wall_clock_jumps_by_an_hour() -> None:
    assert Run(Machine(jumping())).go() == Run(Machine(still())).go()


@pytest.mark.parametrize("stepped_s", [-HOUR_S, HOUR_S])
def test_a_life_after_a_step_does_not_begin_before_the_last_one_ended(stepped_s: float) -> None:
    machine = Machine(iter([stepped_s]))
    clock = Clock(wall=machine.wall, boot=machine.boot)
    machine.boot_s += 10.0
    ended_at = clock.now()
    machine.step()
    machine.boot_s = 5.0  # started again
    later = Clock(ended_at, wall=machine.wall, boot=machine.boot)
    assert later.now() >= ended_at
    before = later.now()
    machine.boot_s += 2.5
    assert later.now() == before + 2.5
