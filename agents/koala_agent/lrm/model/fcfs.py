"""First come, first served."""

from __future__ import annotations

import math
from collections import deque

from koala_agent.lrm.model.queue import Discipline, Key, LocalQueue


class FCFSQueue(LocalQueue[Key]):
    """Jobs start from the head of the queue while they fit; the first that does not fit ends the
    pass."""

    discipline = Discipline.FCFS

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._order: deque[Key] = deque()

    def advance(self, now: float) -> list[Key]:
        """One scheduling pass, as above."""
        started: list[Key] = []
        order = self._order
        while order:
            key = order[0]
            processors, estimate_s = self._requests[key]
            if processors > self.idle:
                break
            order.popleft()
            del self._requests[key]
            self._running[key] = (now + estimate_s, processors)
            self.idle -= processors
            started.append(key)
        return started

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Nothing passes those who wait."""
        return 0 if self._requests else self.idle

    def _queue(self, key: Key, request: tuple[int, float]) -> None:
        self._order.append(key)

    def _queue_first(self, key: Key, request: tuple[int, float]) -> None:
        self._order.appendleft(key)

    def _unqueue(self, key: Key, request: tuple[int, float]) -> None:
        self._order.remove(key)

    def _hold(self, release: tuple[float, int]) -> None:
        """Nobody asks when a job will leave."""

    def _free(self, release: tuple[float, int]) -> None:
        """Nobody asked."""

    def _disturb(self) -> None:
        """Nothing is concluded."""
