"""A queue whose jobs start in the order of a function of each."""

from __future__ import annotations

import math

from koala.protocol.ordering import OrderPolicy, QueuedJob, in_order
from koala_agent.lrm.model.queue import Key, LocalQueue, Waiting


class OrderedQueue(LocalQueue[Key]):
    """Queue whose jobs start in the order of a function; the first that does not fit ends the pass.
    The function is called in each pass: waiting times and the processors of users change."""

    def __init__(self, *, processors: int, order: OrderPolicy) -> None:
        super().__init__(processors=processors)
        self._order = order
        self._owners: dict[Key, tuple[str, int]] = {}  # user and priority, until the end
        self._since: dict[Key, float] = {}  # first pass that saw the waiting job
        self._held: dict[str, int] = {}

    def submit(
        self,
        key: Key,
        *,
        processors: int,
        estimate_s: float,
        user: str = "",
        priority: int = 0,
    ) -> None:
        """Queue a job of this user."""
        self._owners[key] = (user, priority)
        super().submit(key, processors=processors, estimate_s=estimate_s)

    def end(self, key: Key) -> None:
        """Release the processors of a running job that has ended."""
        user, _ = self._owners.pop(key, ("", 0))
        self._held[user] = self._held.get(user, 0) - self._running[key][1]
        super().end(key)

    def occupy(self, key: Key, *, processors: int, until: float) -> None:
        """Start a job past the queue."""
        super().occupy(key, processors=processors, until=until)
        self._count(key, processors)

    def advance(self, now: float) -> list[Key]:
        """Make one scheduling pass by the rule of the class."""
        started: list[Key] = []
        if not self._waiting or not self.idle:
            return started
        for key in in_order(self._queued(now), self._order):
            _, processors, estimate_s = self._waiting[key]
            if processors > self.idle:
                break
            del self._waiting[key], self._since[key]
            self._running[key] = (now + estimate_s, processors)
            self.idle -= processors
            self._count(key, processors)
            started.append(key)
        return started

    def startable(self, now: float, estimate_s: float = math.inf) -> int:
        """Return the idle processors; none while jobs wait, which may sort before the new one."""
        return 0 if self._waiting else self.idle

    def _queued(self, now: float) -> dict[Key, QueuedJob]:
        found: dict[Key, QueuedJob] = {}
        for key, processors, estimate_s in self._waiting.values():
            user, priority = self._owners.get(key, ("", 0))
            found[key] = QueuedJob(
                user=user,
                processors=processors,
                estimate_s=estimate_s,
                waited_s=now - self._since.setdefault(key, now),
                priority=priority,
                held=self._held.get(user, 0),
            )
        return found

    def _count(self, key: Key, processors: int) -> None:
        user, _ = self._owners.get(key, ("", 0))
        self._held[user] = self._held.get(user, 0) + processors

    def _queue(self, job: Waiting[Key]) -> None:
        """Nothing to record: the order is found in each pass."""

    def _queue_first(self, job: Waiting[Key]) -> None:
        """Nothing to record."""

    def _unqueue(self, job: Waiting[Key]) -> None:
        self._owners.pop(job[0], None)
        self._since.pop(job[0], None)

    def _hold(self, release: tuple[float, int]) -> None:
        """Nothing to record: expected ends are not used."""

    def _free(self, release: tuple[float, int]) -> None:
        """Nothing to record."""

    def _disturb(self) -> None:
        """Nothing to invalidate."""
