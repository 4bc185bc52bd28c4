"""Machines and the three generators of tasks (SQ 5.2), a random stream for each purpose."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice
from typing import NamedTuple

from koala.core.model.values import Instant, Seconds
from koala.lab.papers.synchronous.simulation.setting import Setting
from koala.lab.workload.random_streams import stream


class QosTask(NamedTuple):
    """A Grid QoS task; it demands a percentage of the standard machine for a duration, divided
    among its subtasks by their relative weights."""

    number: int
    submitted_at: Instant
    demand: float
    duration_s: Seconds
    relative: tuple[float, ...]
    asynchrony_s: Seconds
    deviation_s: Seconds


class OtherTask(NamedTuple):
    """A local or best-effort task: one machine, and the seconds that the standard machine would
    need for it."""

    submitted_at: Instant
    machine: int
    work_s: Seconds


def speeds(setting: Setting, seed: int) -> list[float]:
    """Draw the speeds of the machines, in GHz."""
    random = stream(seed, "speeds")
    return [random.uniform(*setting.speed_ghz) for _ in range(setting.machines)]


def qos_tasks(setting: Setting, seed: int) -> list[QosTask]:
    """Draw all Grid QoS tasks, in order of arrival."""
    random = stream(seed, "qos tasks")
    parts = stream(seed, "subtasks")
    tasks = []
    for number, at in enumerate(_instants(setting, seed, "qos arrivals")):
        count = parts.randint(1, setting.machines)
        tasks.append(
            QosTask(
                number=number,
                submitted_at=at,
                demand=random.uniform(*setting.demand),
                duration_s=random.uniform(*setting.duration_s),
                asynchrony_s=random.uniform(*setting.window_s),
                deviation_s=random.uniform(*setting.window_s),
                relative=tuple(parts.uniform(*setting.relative) for _ in range(count)),
            )
        )
    return tasks


def other_tasks(setting: Setting, seed: int, flow: str) -> list[OtherTask]:
    """Draw all tasks of the flow `local` or `best effort`."""
    random = stream(seed, f"{flow} tasks")
    return [
        OtherTask(
            submitted_at=at,
            machine=random.randrange(setting.machines),
            work_s=random.uniform(*setting.demand) / 100 * random.uniform(*setting.duration_s),
        )
        for at in _instants(setting, seed, f"{flow} arrivals")
    ]


def _instants(setting: Setting, seed: int, purpose: str) -> Iterator[Instant]:
    random = stream(seed, purpose)
    gaps = (random.expovariate(1 / setting.interarrival_s) for _ in range(setting.tasks))
    return islice(accumulate(gaps), setting.tasks)
