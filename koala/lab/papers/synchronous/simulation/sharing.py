"""Sharing of a machine's quanta: start-time fair queuing between its queues and within Grid QoS.

Each flow's next quantum has a start tag. The least tag goes first, ties in the order of the flows.
A served quantum moves its flow's tag by 1/weight. The virtual time of the queue is the tag that was
served last; a flow that comes back begins there at the earliest (SQ 4.2.1, 4.4).

Of the round-robin queues (local, best effort) only the quanta of all tasks together matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush, heappushpop
from math import ceil, inf
from typing import Any, NamedTuple

from koala.core.model.values import Instant
from koala.lab.papers.synchronous.simulation.setting import SHARES

DUST = 1e-12
"""Rounding tolerance, as a share."""
Tags = tuple[float, ...]
HARD, NOTHING = (True, True, True), (False, False, False)
"""Queues with work: with hard partitions all three count as such."""


class Picks(NamedTuple):
    """Queues that get each quantum, the count per queue, and the tags afterwards."""

    order: bytes
    counts: tuple[int, ...]
    tags: Tags


@lru_cache(maxsize=65536)
def picks(tags: Tags, backlog: tuple[bool, ...], quanta: int) -> Picks:
    """Share a number of quanta by start-time fair queuing between the queues that have work. Tags
    are relative to the virtual time, so that there are few different ones, and none is negative."""
    now = list(tags)
    virtual = 0.0
    order = bytearray()
    present = [flow for flow, has_work in enumerate(backlog) if has_work]
    for _ in range(quanta):
        flow = min(present, key=now.__getitem__)
        virtual = now[flow]
        now[flow] += 1 / SHARES[flow]
        order.append(flow)
    counts = tuple(order.count(flow) for flow in range(len(SHARES)))
    return Picks(bytes(order), counts, tuple(max(0.0, tag - virtual) for tag in now))


def whole_quanta(quanta: float) -> int:
    """Round up to whole quanta; what is only a rounding error more than a whole number is not."""
    return ceil(quanta * (1 - DUST))


Entry = list[Any]
"""Place of a flow in the heap of its queue: tag, number, weight, remaining whole quanta, and the
flow itself. A list, because most of a run is the loop that serves them."""
TAG, _NUMBER, WEIGHT, LEFT = range(4)


class Flow:
    """A flow with a weight in a Grid QoS queue: a subtask, or the dummy, which has no end.

    - `agreed`: quanta a cycle, x in the paper.
    - `needed`: quanta in all; `whole`: the same in whole quanta.
    - `admitted`: the weight with which it began.
    """

    __slots__ = ("admitted", "agreed", "ended_at", "entry", "needed", "whole")

    def __init__(self, number: int, *, weight: float, agreed: float, needed: float) -> None:
        self.admitted = weight
        self.agreed = agreed
        self.needed = needed
        self.whole = whole_quanta(needed) if needed < inf else inf
        self.ended_at: Instant | None = None
        self.entry: Entry = [0.0, number, weight, self.whole, self]

    @property
    def number(self) -> int:
        """Its number: where tags are equal, the least is served first."""
        number: int = self.entry[_NUMBER]
        return number

    @property
    def weight(self) -> float:
        """Its present weight."""
        weight: float = self.entry[WEIGHT]
        return weight

    @property
    def delivered(self) -> float:
        """Quanta that it got."""
        left: float = self.entry[LEFT]
        return self.whole - left


DUMMY = 1 << 60
"""The dummy's number: behind all subtasks where tags are equal."""
_LAST: Entry = [1e300, inf, 0.0, 0, None]
"""Last entry of a heap: its tag is later than that of any flow."""


class QosQueue:
    """The Grid QoS queue of a machine. `has_dummy`: a dummy holds the unallocated weight from the
    start. Without a controller (`is_controlled`) there is no dummy at all."""

    __slots__ = (
        *("_admitted", "_dummy", "_has_dummy", "_heap", "_is_controlled", "_virtual", "_weights"),
        *("flows", "spare"),
    )

    def __init__(self, *, is_controlled: bool, has_dummy: bool) -> None:
        self.flows: dict[int, Flow] = {}
        # By number, too: dicts of floats are summed without a look at each flow.
        self._weights: dict[int, float] = {}
        self._admitted: dict[int, float] = {}
        self.spare = 0.0
        """Weight of the dummy."""
        self._is_controlled = is_controlled
        self._has_dummy = has_dummy
        self._virtual = 0.0
        self._dummy = Flow(DUMMY, weight=0.0, agreed=inf, needed=inf)
        self._heap: list[Entry] | None = None
        """Entries of all flows with a weight, and the last one; None: flows or tags have
        changed."""
        self.update_dummy()

    @property
    def left(self) -> float:
        """Quanta that the queue can use."""
        if self.spare:
            return inf
        left = 0
        for flow in self.flows.values():
            left += flow.entry[LEFT]
        return left

    def add(self, flow: Flow) -> None:
        """Begin a subtask."""
        flow.entry[TAG] = self._virtual
        number = flow.number
        self.flows[number] = flow
        self._weights[number] = flow.weight
        self._admitted[number] = flow.admitted
        self._heap = None

    def change(self, flow: Flow, weight: float) -> None:
        """Change the weight of a subtask."""
        self._weights[flow.number] = weight
        self._change(flow, weight)

    def _change(self, flow: Flow, weight: float) -> None:
        """Change its weight. The rest of its wait for the next quantum scales with it, so that a
        correction acts at once."""
        entry = flow.entry
        wait = max(0.0, entry[TAG] - self._virtual)  # none for a dummy that had no weight
        entry[TAG] = self._virtual + wait * entry[WEIGHT] / weight
        entry[WEIGHT] = weight
        self._heap = None

    def update_dummy(self) -> None:
        """Give the dummy the weight that the subtasks leave."""
        if not self._is_controlled:
            return
        admitted = sum(self._admitted.values())
        whole = max(1.0, admitted) if self._has_dummy else admitted
        weight = whole - sum(self._weights.values())
        if weight < DUST:  # what is left of rounding is no weight
            self.spare = self._dummy.entry[WEIGHT] = 0.0
            self._heap = None
        elif weight != self.spare:
            self.spare = weight
            self._change(self._dummy, weight)

    def serve(self, quanta: int) -> Sequence[tuple[Flow, int]]:
        """Give out so many quanta; return the subtasks that ended, each with the quanta given out
        by then."""
        heap = self._heap
        if heap is None:
            heap = [flow.entry for flow in self.flows.values()]
            if self.spare:
                heap.append(self._dummy.entry)
            heapify(heap)
            heap.append(_LAST)
            self._heap = heap
        ended: list[tuple[Flow, int]] = []
        left = quanta
        tag, run, weight = self._virtual, 1, 1.0
        entry = heappop(heap)
        while left and entry is not _LAST:
            tag, number, weight, needed, flow = entry
            # In one go what comes before the second least tag.
            ahead = (heap[0][0] - tag) * weight
            run = 1 if ahead < 2.0 else int(ahead)
            if run > left:  # noqa: PLR1730 - quicker than a call
                run = left
            if run < needed:
                entry[0] = tag + run / weight
                entry[3] = needed - run
                left -= run
                entry = heappushpop(heap, entry)
            else:
                run = needed
                left -= run
                entry[3] = 0
                del self.flows[number], self._weights[number], self._admitted[number]
                ended.append((flow, quanta - left))
                entry = heappop(heap)
        self._virtual = tag + (run - 1) / weight
        heappush(heap, entry)
        return ended


class Machine:
    """A machine with its three queues; it runs cycle after cycle."""

    __slots__ = ("_is_hard", "_tags", "best_effort", "local", "qos", "speed_ghz")

    def __init__(self, speed_ghz: float, *, qos: QosQueue, is_hard: bool) -> None:
        self.speed_ghz = speed_ghz
        self.qos = qos
        self.local = self.best_effort = 0
        """Quanta that the local and the best-effort tasks still need."""
        self._is_hard = is_hard
        self._tags: Tags = (0.0,) * len(SHARES)

    def run(self, quanta: int) -> list[tuple[Flow, int]]:
        """Give out the quanta of a cycle; return the subtasks that ended, each with its last
        quantum."""
        ended: list[tuple[Flow, int]] = []
        done = 0
        while done < quanta:
            found = self._share(quanta - done)
            if found is None:
                self._tags = (0.0,) * len(SHARES)
                break
            order, (local, qos, best_effort), self._tags = found
            if local:
                self.local = max(0, self.local - local)
            if best_effort:
                self.best_effort = max(0, self.best_effort - best_effort)
            if qos:
                for flow, nth in self.qos.serve(qos):
                    ended.append((flow, done + _place(order, 1, nth)))
            done += len(order)
        return ended

    def _share(self, quanta: int) -> Picks | None:
        """Share so many quanta between the queues, or as many as until one of them is empty. None
        if there is nothing to do."""
        if self._is_hard:
            return picks(self._tags, HARD, quanta)
        lefts = self.local, self.qos.left, self.best_effort
        backlog = (lefts[0] > 0, lefts[1] > 0, lefts[2] > 0)
        if backlog == NOTHING:
            return None
        found = picks(self._tags, backlog, quanta)
        order, counts, _ = found
        if lefts[0] >= counts[0] and lefts[1] >= counts[1] and lefts[2] >= counts[2]:
            return found
        cut = min(
            _place(order, flow, int(left))
            for flow, (left, count) in enumerate(zip(lefts, counts, strict=True))
            if left < count
        )
        return picks(self._tags, backlog, cut)


def _place(order: bytes, flow: int, nth: int) -> int:
    """Return the quanta given out when this queue has got its n-th."""
    place = -1
    for _ in range(nth):
        place = order.index(flow, place + 1)
    return place + 1
