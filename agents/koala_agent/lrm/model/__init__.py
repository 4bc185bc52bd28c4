"""A queue-based local manager as a state machine: N processors behind one queue.

Pure: standard library only, no clock and no I/O. `submit`, `withdraw` and `end` say what happened,
`advance(now)` makes one scheduling pass and answers what starts; `wake_at` is the next instant at
which a pass is due although nothing will have happened. The emulated manager puts it on the wall
clock, the simulator puts it on simulated time; neither can tell the other's from its own.

Each discipline is a class in a module of its own, whose text defines it exactly: `fcfs`, `easy`,
`conservative`. At one instant all completions come first, then all arrivals in order, then one
pass. Instants and durations are in seconds of whatever clock the caller has.
"""

from __future__ import annotations

from koala_agent.lrm.model.conservative import ConservativeQueue
from koala_agent.lrm.model.easy import EASYQueue
from koala_agent.lrm.model.fcfs import FCFSQueue
from koala_agent.lrm.model.queue import Discipline, Key, LocalQueue

__all__ = ["ConservativeQueue", "Discipline", "Key", "LocalQueue", "local_queue"]


def local_queue(*, processors: int, discipline: Discipline) -> LocalQueue[Key]:
    """A queue in front of that many processors."""
    match discipline:
        case Discipline.FCFS:
            return FCFSQueue(processors=processors)
        case Discipline.EASY:
            return EASYQueue(processors=processors)
        case Discipline.CONSERVATIVE:
            return ConservativeQueue(processors=processors)
