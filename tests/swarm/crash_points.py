"""Crash three scenarios at every point: `python -m tests.swarm.crash_points [--pairs 5000]`.

The first has three components on four sites, a copy of an input file, a preemption and a cancel. In
the second a job waits in the queues of two busy sites: claims are gated, opened, held, given back
and started. In the third one of these sites is booked, refuses, and begins late.

A *point* is an observable step of a process: before and after each durable write, before each
message that leaves it, at each command to a batch system; or a message with which its connection
breaks. A scenario runs once for each point, and then for pairs of them: a second crash during the
recovery from the first. Every promise is checked as in the swarm.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from random import Random

from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, InputFile, JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import FileName, JobId, Priority, SiteName, UserName
from tests.swarm.run import Run
from tests.swarm.scenario import BANDWIDTH_BPS, Scenario
from tests.swarm.swarm import begin
from tests.swarm.system.agents import MUTE
from tests.swarm.system.daemons import Custody
from tests.swarm.system.faults import Chances, Fault
from tests.swarm.system.world import Pace, Setting

EVERY_POINT = Chances(crash_daemon=1.0, crash_agent=1.0, crash_starter=1.0, cut=1.0)
RECOVERY_POINTS = 60
"""Number of points after the first crash that count as its recovery."""
SITES = tuple(SiteName(name) for name in ("s1", "s2", "s3", "s4"))
LOW, HIGH, UNWANTED = (JobId(name) for name in ("j1", "j2", "j3"))
PARAMETERS = Parameters(
    bandwidth_default_bps=BANDWIDTH_BPS,
    claim_fraction=0.5,
    claiming_step_min_s=0.5,
    hold_lease_s=20.0,
    run_lease_s=20.0,
    kill_s=1.0,
    pause_max_s=0.0,
    probe_after_s=5.0,
)


def preempted() -> Scenario:
    """Return the scenario: a high job waits for its file while a low one takes the processors of
    its placement, and is preempted; a third one runs beside them, and is cancelled."""
    file = FileName("file")
    low = JobSpec(
        components=_components(4, 4, 4),
        owner=UserName("ann"),
        priority=Priority.LOW,
    )
    high = JobSpec(
        components=_components(3, 3, 3),
        owner=UserName("bob"),
        priority=Priority.HIGH,
        input_file=InputFile(name=file),
    )
    unwanted = replace(low, components=_components(1, 1, 1), owner=UserName("bob"))
    specs = {LOW: low, HIGH: high, UNWANTED: unwanted}
    run_s = {LOW: 8.0, HIGH: 4.0, UNWANTED: 30.0}
    return Scenario(
        seed=0,
        settings=tuple(
            Setting(
                name=name,
                facts=SiteFacts(processors=4, grace_s=2.0, starts_after_stop=True),
            )
            for name in SITES
        ),
        parameters=PARAMETERS,
        specs=specs,
        arrivals={HIGH: 0.5, LOW: 1.0, UNWANTED: 4.0},
        programs={
            (job, component): (run_s[job], 0)
            for job, spec in specs.items()
            for component in range(len(spec.components))
        },
        replicas=((file, SITES[3], 4_000_000),),
        locals_=(),
        chances=EVERY_POINT,
        kinds=(),
        placement="CF",
        queueing="koala",
        latency_s=0.005,
        pace=Pace(custody=Custody(snapshot_events=25)),
        faults_s=30.0,
        only=frozenset(),
        again={HIGH: (0.501, 30.0)},
        cancels={UNWANTED: 7.0},
    )


def queued() -> Scenario:
    """Return the scenario: a pair waits for local jobs at two sites. One site tells no expected
    starts, so the components take turns: the first comes up early and gives back."""
    pair = JobSpec(components=_components(3, 3), owner=UserName("ann"))
    first, last, *_ = SITES
    return replace(
        preempted(),
        settings=tuple(
            Setting(name=name, facts=SiteFacts(processors=4, grace_s=2.0, gate=gate))
            for name, gate in ((first, MUTE), (last, "queue"))
        ),
        parameters=replace(
            PARAMETERS,
            tickets_max=2,
            ticket_plan_s=2.0,
            ticket_slack_s=1.0,
            ticket_hold_min_s=6.0,
            ticket_hold_max_s=6.0,
        ),
        specs={LOW: pair},
        arrivals={LOW: 1.0},
        programs={(LOW, component): (4.0, 0) for component in range(2)},
        replicas=(),
        locals_=((0.0, first, 4, 40.0), (0.0, last, 4, 60.0)),
        tickets="dodge",
        faults_s=200.0,
        again={},
        cancels={},
    )


def booked() -> Scenario:
    """Return the scenario: a pair waits in the queue of a site, and for a booking at another, which
    is full until later, and where the booking is moved."""
    waiting = queued()
    first, last, *_ = SITES
    (pair,) = waiting.specs.values()
    limited = tuple(replace(one, wall_time_s=20.0) for one in pair.components)
    return replace(
        waiting,
        settings=tuple(
            Setting(name=name, facts=SiteFacts(processors=4, grace_s=2.0, gate=gate, books=books))
            for name, gate, books in ((first, "", "calendar"), (last, "queue", ""))
        ),
        specs={LOW: replace(pair, components=limited)},
        locals_=((0.0, first, 4, 70.0), (0.0, last, 4, 50.0)),
        tickets="book",
    )


STORIES: dict[str, Callable[[], Scenario]] = {
    "preempted": preempted,
    "queued": queued,
    "booked": booked,
}


def _components(*sizes: int) -> tuple[ComponentSpec, ...]:
    return tuple(ComponentSpec(executable="/bin/true", processors=size) for size in sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a run: the failure (empty: none), and its points in order: all of them without a
    crash, and the recovery's after the first one."""

    faults: tuple[Fault, ...]
    broken: str
    points: tuple[Fault, ...]
    seen: dict[str, int]


def play(faults: Sequence[Fault], story: str) -> Result:
    """Run a scenario with these crashes."""
    run = Run(replace(STORIES[story](), only=frozenset(faults)))
    broken = ""
    try:
        run.play()
    except Exception:  # noqa: BLE001 - whatever breaks is what is looked for
        last = "\n".join(run.oracle.record.last)
        broken = f"{last}\n{traceback.format_exc(limit=-4)}"
    points = tuple(run.plan.struck)
    if faults:  # a thousand results with thousands of points each do not fit into memory
        after = points.index(faults[0]) + 1 if faults[0] in points else 0
        points = points[after : after + RECOVERY_POINTS]
    return Result(faults=tuple(faults), broken=broken, points=points, seen=run.oracle.record.seen)


def pairs(firsts: Iterable[Result], count: int) -> list[tuple[Fault, Fault]]:
    """Sample the pairs of crashes: each second one is among the points that follow a first one."""
    random = Random(0)
    every: list[tuple[Fault, Fault]] = []
    for result in firsts:
        (first,) = result.faults
        every += [(first, second) for second in result.points]
    return random.sample(every, k=min(count, len(every)))


def play_all(lots: Sequence[Sequence[Fault]], story: str, jobs: int) -> Iterator[Result]:
    """Run all lots of crashes."""
    told = partial(play, story=story)
    if jobs == 1:
        yield from map(told, lots)
        return
    with get_context("spawn").Pool(jobs, begin, (os.getpid(),)) as pool:
        yield from pool.imap(told, lots, chunksize=10)


def with_progress(results: Iterable[Result]) -> Iterator[Result]:
    """Pass the results on, and print progress now and then."""
    broken = 0
    for number, result in enumerate(results, 1):
        broken += bool(result.broken)
        if number % 500 == 0:
            print(f"{number} runs, {broken} broken", file=sys.stderr, flush=True)
        yield result


def main(arguments: list[str] | None = None) -> int:
    """Sweep; return 1 when a promise broke."""
    parser = argparse.ArgumentParser(prog="tests.swarm.crash_points", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="these crashes: kind:number,...")
    parser.add_argument("--story", choices=STORIES, action="append", help="by default all")
    options = parser.parse_args(arguments)
    stories = options.story or [*STORIES]
    if options.only:
        words = (entry.rsplit(":", 1) for entry in options.only.split(","))
        result = play([(kind, int(number)) for kind, number in words], stories[0])
        print(result.broken or "nothing breaks")
        return 1 if result.broken else 0
    return max(sweep(story, options.pairs // len(stories), options.jobs) for story in stories)


def sweep(story: str, count: int, jobs: int) -> int:
    """Crash a scenario at every point, and at so many pairs; return 1 when a promise broke."""
    whole = play((), story)
    points = [(point,) for point in whole.points]
    singles = list(with_progress(play_all(points, story, jobs)))
    doubles = list(with_progress(play_all(pairs(singles, count), story, jobs)))
    broken = [result for result in (whole, *singles, *doubles) if result.broken]
    for result in broken[:3]:
        print(result.broken)
        print(f"repeat with: {command(story, result.faults)}")
    print(f"{story}: {len(singles)} points, {len(doubles)} pairs of them, {len(broken)} broken")
    return 1 if broken else 0


def command(story: str, faults: Sequence[Fault]) -> str:
    """Return the command that repeats a run."""
    crashes = ",".join(f"{kind}:{number}" for kind, number in faults)
    return f"python -m tests.swarm.crash_points --story {story} --only {crashes}"


if __name__ == "__main__":
    sys.exit(main())
