"""First come, first served."""

from __future__ import annotations

from collections import deque

from koala.queue_model.queue import Discipline, Key, LocalQueue, Waiting


class FCFSQueue(LocalQueue[Key]):
    """Queue whose jobs start from its head; the first that does not fit ends the pass."""

    discipline = Discipline.FCFS

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._order: deque[Waiting[Key]] = deque()

    def _start_at_once(self, key: Key, *, processors: int, estimate_s: float, now: float) -> bool:
        """Start a job that arrives at an empty queue, if it fits."""
        if self._waiting or not 0 < processors <= self.idle:
            return False
        self._running[key] = (now + estimate_s, processors)
        self.idle -= processors
        return True

    def _pass(self, now: float) -> list[Key]:
        """Make one scheduling pass by the rule of the class."""
        started: list[Key] = []
        order = self._order
        while order:
            key, processors, estimate_s = order[0]
            if processors > self.idle:
                break
            order.popleft()
            del self._waiting[key]
            self._running[key] = (now + estimate_s, processors)
            self.idle -= processors
            started.append(key)
        return started

    def _is_settled(self) -> bool:
        """Return True while no job waits."""
        return not self._waiting

    def _startable(self, now: float, estimate_s: float) -> int:
        """Return the idle processors; none while jobs wait, which nothing may overtake."""
        return 0 if self._waiting else self.idle

    def _queue(self, job: Waiting[Key]) -> None:
        self._order.append(job)

    def _queue_first(self, job: Waiting[Key]) -> None:
        self._order.appendleft(job)

    def _queue_before(self, job: Waiting[Key], behind: Waiting[Key] | None) -> None:
        order = self._order
        order.insert(len(order) if behind is None else order.index(behind), job)

    def _unqueue(self, job: Waiting[Key]) -> None:
        self._order.remove(job)

    def _hold(self, release: tuple[float, int]) -> None:
        """Nothing to record: expected ends are not used."""

    def _free(self, release: tuple[float, int]) -> None:
        """Nothing to record."""

    def _disturb(self) -> None:
        """Nothing to invalidate."""

    def _unshare(self) -> None:
        super()._unshare()
        self._order = self._order.copy()
