"""A queue-based local manager as a state machine: N processors behind one queue.

Pure: standard library only, no clock and no I/O. `submit`, `withdraw` and `end` are events,
`advance(now)` makes one scheduling pass and returns the jobs that start; `wake_at` is the next
instant at which a pass is due even if nothing happens. The emulated manager runs it on the wall
clock, the simulator on simulated time, with the same results.

A job with a known start is booked (`book`): its processors are free then, whatever waits.

Each discipline is a class in a module of its own, whose text defines it exactly: `fcfs`, `easy`,
`conservative`; `ordered` takes a function of a job. `queue` is their base class, and
`local_schedulers` finds them by name. `backfill_queue` and `profile` make backfilling fast.

`local_users` draws the jobs of a site's own users.

At one instant all completions come first, then all arrivals in order, then one pass. Instants and
durations are in seconds of the caller's clock.
"""

from __future__ import annotations

from koala.common.protocol.ordering import OrderPolicy
from koala.queue_model.conservative import ConservativeQueue
from koala.queue_model.easy import EASYQueue
from koala.queue_model.fcfs import FCFSQueue
from koala.queue_model.local_schedulers import LOCAL_SCHEDULERS, local_scheduler
from koala.queue_model.ordered import OrderedQueue
from koala.queue_model.queue import Discipline, Key, LocalQueue

__all__ = [
    "LOCAL_SCHEDULERS",
    "ConservativeQueue",
    "Discipline",
    "Key",
    "LocalQueue",
    "local_queue",
    "local_scheduler",
]


def local_queue(*, processors: int, discipline: Discipline | OrderPolicy) -> LocalQueue[Key]:
    """Make a queue in front of that many processors; a function orders its jobs."""
    if not isinstance(discipline, Discipline):
        return OrderedQueue(processors=processors, order=discipline)
    match discipline:
        case Discipline.FCFS:
            return FCFSQueue(processors=processors)
        case Discipline.EASY:
            return EASYQueue(processors=processors)
        case Discipline.CONSERVATIVE:
            return ConservativeQueue(processors=processors)
