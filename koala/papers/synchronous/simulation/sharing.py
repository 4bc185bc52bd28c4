"""Sharing of a machine's quanta: start-time fair queuing between and within queues, round-robin.

Each flow's next quantum has a start tag. The least tag goes first, ties in the order of the flows.
A served quantum moves its flow's tag by 1/weight. The virtual time of the queue is the tag that was
served last; a flow that comes back begins there at the earliest (SQ 4.2.1, 4.4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from math import ceil, inf
from typing import Any, NamedTuple

from koala.core.model.values import Instant
from koala.papers.synchronous.simulation.setting import SHARES

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


class Turns:
    """A round-robin queue; of each task only its remaining quanta matter."""

    __slots__ = ("_tasks", "left")

    def __init__(self) -> None:
        self.left = 0
        self._tasks: deque[int] = deque()

    def add(self, quanta: int) -> None:
        """Add a task behind the others."""
        self._tasks.append(quanta)
        self.left += quanta

    def serve(self, quanta: int) -> None:
        """Give out so many quanta, or fewer when there is no more to do."""
        tasks = self._tasks
        if len(tasks) == 1:
            self.left = max(0, self.left - quanta)
            if self.left:
                tasks[0] = self.left
            else:
                tasks.clear()
            return
        served = min(quanta, self.left)
        self.left -= served
        for _ in range(served):
            task = tasks.popleft() - 1
            if task:
                tasks.append(task)


def whole_quanta(quanta: float) -> int:
    """Round up to whole quanta; what is only a rounding error more than a whole number is not."""
    return ceil(quanta * (1 - DUST))


@dataclass(slots=True, eq=False)
class Flow:
    """A flow with a weight in a Grid QoS queue: a subtask, or the dummy, which has no end."""

    number: int
    _: KW_ONLY
    weight: float
    agreed: float  # quanta a cycle: x
    needed: float  # quanta in all
    admitted: float = field(init=False)
    whole: float = field(init=False)
    delivered: int = 0
    tag: float = 0.0
    ended_at: Instant | None = None

    def __post_init__(self) -> None:
        self.admitted = self.weight
        self.whole = whole_quanta(self.needed) if self.needed < inf else inf

    @property
    def left(self) -> float:
        """Remaining whole quanta."""
        return self.whole - self.delivered

    @property
    def done(self) -> float:
        """Quanta of work done; it may use only a part of the last one."""
        return min(self.delivered, self.needed)


DUMMY = 1 << 60
"""The dummy's number: behind all subtasks where tags are equal."""


class QosQueue:
    """The Grid QoS queue of a machine. `has_dummy`: a dummy holds the unallocated weight from the
    start. Without a controller (`is_controlled`) there is no dummy at all."""

    __slots__ = ("_dummy", "_has_dummy", "_is_controlled", "_virtual", "flows")

    def __init__(self, *, is_controlled: bool, has_dummy: bool) -> None:
        self.flows: dict[int, Flow] = {}
        self._is_controlled = is_controlled
        self._has_dummy = has_dummy
        self._virtual = 0.0
        self._dummy = Flow(DUMMY, weight=0.0, agreed=inf, needed=inf)
        self.settle()

    @property
    def left(self) -> float:
        """Quanta that the queue can use."""
        return inf if self._dummy.weight else sum(flow.left for flow in self.flows.values())

    @property
    def spare(self) -> float:
        """Weight of the dummy."""
        return self._dummy.weight

    def add(self, flow: Flow) -> None:
        """Begin a subtask."""
        flow.tag = self._virtual
        self.flows[flow.number] = flow

    def change(self, flow: Flow, weight: float) -> None:
        """Change its weight. The rest of its wait for the next quantum scales with it, so that a
        correction acts at once."""
        wait = max(0.0, flow.tag - self._virtual)  # none for a dummy that had no weight
        flow.tag = self._virtual + wait * flow.weight / weight
        flow.weight = weight

    def settle(self) -> None:
        """Give the dummy the weight that the subtasks leave."""
        if not self._is_controlled:
            return
        admitted = sum(flow.admitted for flow in self.flows.values())
        whole = max(1.0, admitted) if self._has_dummy else admitted
        weight = whole - sum(flow.weight for flow in self.flows.values())
        if weight < 1e-12:  # what is left of rounding is no weight
            self._dummy.weight = 0.0
        elif weight != self._dummy.weight:
            self.change(self._dummy, weight)

    def serve(self, quanta: int) -> Sequence[tuple[Flow, int]]:
        """Give out so many quanta; return the subtasks that ended, each with the quanta given out
        by then."""
        # The heap holds copies of what changes, because most of a run is this loop.
        heap: list[list[Any]] = [
            [flow.tag, number, flow.weight, flow.whole - flow.delivered, flow]
            for number, flow in self.flows.items()
        ]
        if self._dummy.weight:
            heap.append([self._dummy.tag, DUMMY, self._dummy.weight, inf, self._dummy])
        heapify(heap)
        ended: list[tuple[Flow, int]] = []
        left, present, virtual = quanta, len(heap), self._virtual
        while left and present:
            entry = heap[0]
            tag, number, weight, needed, flow = entry
            run = left
            if present > 1:  # in one go what comes before the second least tag
                second = heap[1][0]
                if present > 2 and heap[2][0] < second:
                    second = heap[2][0]
                run = int((second - tag) * weight) or 1
                if run > left:  # noqa: PLR1730 - quicker than a call
                    run = left
            if run < needed:
                entry[0] = tag + run / weight
                entry[3] = needed - run
                heapreplace(heap, entry)
            else:
                run = needed
                flow.delivered = flow.whole
                heappop(heap)
                present -= 1
                del self.flows[number]
                ended.append((flow, quanta - left + run))
            left -= run
            virtual = tag + (run - 1) / weight
        self._virtual = virtual
        for tag, number, _, needed, flow in heap:
            flow.tag = tag
            if number != DUMMY:
                flow.delivered = flow.whole - needed
        return ended


class Machine:
    """A machine with its three queues; it runs cycle after cycle."""

    __slots__ = ("_is_hard", "_tags", "best_effort", "local", "qos", "speed_ghz")

    def __init__(self, speed_ghz: float, *, qos: QosQueue, is_hard: bool) -> None:
        self.speed_ghz = speed_ghz
        self.local = Turns()
        self.qos = qos
        self.best_effort = Turns()
        self._is_hard = is_hard
        self._tags: Tags = (0.0,) * len(SHARES)

    def run(self, quanta: int) -> list[tuple[Flow, int]]:
        """Give out the quanta of a cycle; return the subtasks that ended, each with its last
        quantum."""
        ended: list[tuple[Flow, int]] = []
        done = 0
        while done < quanta:
            lefts = (self.local.left, self.qos.left, self.best_effort.left)
            backlog = HARD if self._is_hard else (lefts[0] > 0, lefts[1] > 0, lefts[2] > 0)
            if backlog == NOTHING:
                self._tags = (0.0,) * len(SHARES)
                break
            found = picks(self._tags, backlog, quanta - done)
            if not self._is_hard and (cut := _until_one_is_empty(found, lefts)) < quanta - done:
                found = picks(self._tags, backlog, cut)
            self._tags = found.tags
            local, qos, best_effort = found.counts
            if local:
                self.local.serve(local)
            if best_effort:
                self.best_effort.serve(best_effort)
            if qos:
                for flow, nth in self.qos.serve(qos):
                    ended.append((flow, done + _place(found.order, 1, nth)))
            done += len(found.order)
        return ended


def _until_one_is_empty(found: Picks, lefts: tuple[float, ...]) -> int:
    """Return the number of quanta after which a queue would be asked for more than it has."""
    cut = len(found.order)
    for flow, count in enumerate(found.counts):
        if 0 < lefts[flow] < count:
            cut = min(cut, _place(found.order, flow, int(lefts[flow])))
    return cut


def _place(order: bytes, flow: int, nth: int) -> int:
    """Return the quanta given out when this queue has got its n-th."""
    place = -1
    for _ in range(nth):
        place = order.index(flow, place + 1)
    return place + 1
