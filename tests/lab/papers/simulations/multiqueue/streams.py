"""Job streams of a few jobs, and when the simulator starts each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

from koala.core.model.values import FOREVER
from koala.lab.papers.multiqueue.simulation.arrivals import StreamJob
from koala.lab.papers.multiqueue.simulation.model import Started, System
from koala.policies.queueing.multiqueue import DISCIPLINES


def a_stream(*jobs: tuple[float, tuple[int, ...], float, int]) -> list[StreamJob]:
    """Jobs as (arrival, sizes, service, home)."""
    return [
        StreamJob(at, service, tuple(sorted(sizes, reverse=True)), home)
        for at, sizes, service, home in jobs
    ]


def coins(*draws: float) -> Callable[[], float]:
    """These draws, again and again."""
    return cycle(draws).__next__


def simulated(
    policy: str,
    jobs: Sequence[StreamJob],
    *,
    sites: Sequence[int],
    coin: Callable[[], float],
    ageing: float = FOREVER,
) -> list[Started]:
    """The jobs in the order in which they start."""
    started: list[Started] = []
    system = System(DISCIPLINES[policy], sites, coin=coin, on_start=started.append, ageing=ageing)
    for number, job in enumerate(jobs):
        system.depart_until(job.at)
        system.arrive(number, job)
    system.depart_until(FOREVER)
    return started


def starts(started: Sequence[Started]) -> list[float]:
    """The instants, by number of the job."""
    return [start.at for start in sorted(started)]
