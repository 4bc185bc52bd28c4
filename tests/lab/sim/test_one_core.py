"""One core: the live event loop and simulated time do the same at the same instants.

The same sites on the same engine once answer the daemon's own event loop, with its journal and a
clock that the test sets, and once the driver of experiments. Messages take time, as they do;
whoever carried the core out of turn, woke it late or lost an action would be seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from koala.common.runtime.clock import Clock
from koala.core.digest import digest
from koala.core.model.actions import Action, Announce
from koala.core.model.events import Event
from koala.core.model.job import TERMINAL_PHASES
from koala.core.model.parameters import PAPER, Parameters
from koala.core.model.values import Instant
from koala.core.scheduler import Scheduler
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Notice
from koala.lab.sim.engine import Engine
from koala.lab.sim.experiment.setting import (
    FaultRates,
    Faults,
    Links,
    RandomFaults,
    SiteSetting,
    Submission,
)
from koala.lab.sim.experiment.world import Grid, World
from koala.policies import chosen
from tests.harness.builders import HIGH, LOW
from tests.lab.sim.experiment.small import local, outage, site, submission

JOBS = 20
SEED = 31
"""With it jobs are preempted, refused and failed."""
LINKS = Links(is_shared=True)


@dataclass(frozen=True, kw_only=True)
class EventSchedule:
    """Schedule what happens, whoever drives."""

    sites: tuple[SiteSetting, ...]
    submissions: tuple[Submission, ...]
    parameters: Parameters

    def faults(self) -> Faults:
        rates = {one.name: FaultRates(claim=0.04, component=0.08) for one in self.sites}
        return RandomFaults(2, rates, outages=(outage("leiden", 500.0, until=900.0),))


@dataclass
class Told:
    """Keep what was seen of a run."""

    events: list[tuple[Instant, Event]] = field(default_factory=list)
    actions: list[tuple[Instant, Action]] = field(default_factory=list)
    said: list[tuple[Instant, str, str, str, str]] = field(default_factory=list)
    over: int = 0

    def say(self, at: Instant, job: str, site: str, phase: str, text: str) -> None:
        self.said.append((at, job, site, phase, text))
        self.over += bool(job) and phase in TERMINAL_PHASES


def scripted(parameters: Parameters) -> EventSchedule:
    """Jobs that get in each other's way, local users, files, faults and an outage."""
    draws = Random(SEED)
    places = ("delft", "leiden", "utrecht")
    users = {
        place: tuple(
            local(at, draws.randint(1, 4), draws.uniform(20.0, 90.0))
            for at in sorted(draws.uniform(0.0, 1500.0) for _ in range(25))
        )
        for place in places
    }
    submissions = []
    for number, at in enumerate(sorted(draws.uniform(5.0, 1200.0) for _ in range(JOBS)), start=1):
        submissions.append(
            submission(
                f"j{number}",
                at,
                *[draws.randint(1, 5)] * draws.randint(1, 3),
                run_s=draws.uniform(10.0, 120.0),
                file_bytes=draws.choice((500, 2000)),
                replicas=(draws.choice(places),) if draws.random() < 0.7 else (),
                priority=draws.choice((HIGH, LOW)),
            )
        )
    sites = tuple(
        site(place, 8, *users[place], latency_s=latency_s, grace_s=2.0)
        for place, latency_s in zip(places, (0.011, 0.023, 0.037), strict=True)
    )
    return EventSchedule(sites=sites, submissions=tuple(submissions), parameters=parameters)


# --- simulated time ---


def simulated(script: EventSchedule) -> Told:
    told = Told()

    def watch(_: Scheduler, event: Event, actions: Sequence[Action], now: Instant) -> None:
        told.events.append((now, event))
        for action in actions:
            if isinstance(action, Announce):
                told.say(action.at, action.job or "", action.site or "", action.phase, action.text)
            else:
                told.actions.append((now, action))

    World(
        sites=script.sites,
        submissions=script.submissions,
        parameters=script.parameters,
        policies=chosen(),
        links=LINKS,
        faults=script.faults(),
        watch=watch,
    ).run(until=1e6)
    return told


# --- the daemon's event_loop ---


class SetClock(Clock):
    """A clock that somebody sets."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        super().__init__()
        self.at: Instant = 0.0

    def now(self) -> Instant:
        return self.at


class Live:
    """An event loop whose agents are simulated sites."""

    def __init__(self, script: EventSchedule, folder: Path) -> None:
        self.told = Told()
        self.journal = Journal.open(folder)
        assert list(self.journal.records()) == []
        self.clock = SetClock()
        self.engine = Engine()
        self.scheduler = Scheduler(script.parameters, chosen())
        self.event_loop = EventLoop(
            self.scheduler, self.journal, self.clock, digest=digest, jobs=0, receiver=self
        )
        self.grid = Grid(
            self.engine,
            script.sites,
            parameters=script.parameters,
            links=LINKS,
            faults=script.faults(),
            bin_s=600.0,
            emit=lambda event: self.event_loop.post(lambda turn: turn.emit(event)),
        )
        self._submissions = script.submissions

    def carry_out(self, actions: Sequence[Action]) -> None:
        self.told.actions += [(self.clock.at, action) for action in actions]
        self.grid.carry_out(actions)

    def publish(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            self.told.say(notice.at, notice.job, notice.site, notice.phase, notice.text)

    async def play(self) -> Told:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.event_loop.run())
            self.grid.begin()
            for one in self._submissions:
                self.engine.at(one.at, partial(self.grid.submit, one))
            while self.told.over < JOBS or self.scheduler.ledger:
                await self.event_loop.ask(
                    lambda turn: None
                )  # what was posted is handled, and durable
                instants = (self.engine.next_at, self.scheduler.wake_at)
                self.clock.at = min(at for at in instants if at is not None)
                self.engine.run(self.clock.at)
            self.event_loop.close()
        self.told.events = [(record.at, record.event) for record in self.journal.records()]
        self.journal.close()
        return self.told


@pytest.mark.parametrize(
    "parameters",
    [
        replace(PAPER, bandwidth_default_bps=50.0, scan_interval_s=60.0),
        Parameters(bandwidth_default_bps=50.0, scan_interval_s=60.0, probe_after_s=300.0),
    ],
    ids=["paper", "live"],
)
async def test_the_live_event_loop_and_simulated_time_do_the_same_at_the_same_instants(
    parameters: Parameters, tmp_path: Path
) -> None:
    script = scripted(parameters)
    expected = simulated(script)
    found = await Live(script, tmp_path).play()
    kinds = {type(action).__name__ for _, action in expected.actions}
    assert {"ClaimProcessors", "ReleaseClaim", "StopClaim", "StartTransfer"} <= kinds
    for word in ("preempted by", "REFUSED", "EndKind.FAILED", "EndKind.VANISHED"):
        assert word in repr((expected.events, expected.said)), word
    assert expected.over == JOBS
    end_at = expected.events[-1][0]  # when a run stops is each driver's own
    for one, other in (
        (found.events, expected.events),
        (found.actions, expected.actions),
        (found.said, expected.said),
    ):
        _same(_before(end_at, one), _before(end_at, other))


def _before(end_at: Instant, seen: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [one for one in seen if one[0] < end_at]


def _same(found: Sequence[object], expected: Sequence[object]) -> None:
    """Equal; the first difference is shown, not thousands of lines."""
    for index, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, f"number {index}"
    assert len(found) == len(expected)
