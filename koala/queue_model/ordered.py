"""A queue whose jobs start in the order of a function of each."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Any

from koala.common.protocol.ordering import DECIDING_FIELDS, OrderPolicy, QueuedJob
from koala.queue_model.queue import Key, LocalQueue, Waiting

_Place = tuple[Any, int, Hashable]
"""Sort key of a job, its number in the queue, and what it has in common with those alike."""
NOBODY = ("", 0)
"""User and priority of a job that was put back after its end."""


class OrderedQueue(LocalQueue[Key]):
    """Queue whose jobs start in the order of a function; the first that does not fit ends the pass.
    The function is called in each pass: waiting times and the processors of users change. Of jobs
    that it cannot tell apart it is asked about the first one only, so that a long queue costs no
    more than it has different jobs. Where nothing is known of the function, all are different.
    """

    def __init__(self, *, processors: int, order: OrderPolicy) -> None:
        super().__init__(processors=processors)
        self._order = order
        self._field = next((name for known, name in DECIDING_FIELDS.items() if known is order), "")
        self._owners: dict[Key, tuple[str, int]] = {}  # user and priority, until the end
        self._since: dict[Key, float] = {}  # first pass that saw the waiting job
        self._unseen: dict[Key, None] = {}  # by any pass
        self._held: dict[str, int] = {}
        self._alike: dict[Hashable, dict[Key, int]] = {}
        """The waiting jobs that have equal sort keys, with their numbers, in order of the queue."""
        self._keys: dict[Hashable, _Place] = {}
        """Places of the first of these jobs, as far as they still hold."""
        self._heap: list[_Place] = []  # also those that do not hold any more
        self._changed: dict[Hashable, None] = {}  # groups that have no place, or another first job
        self._kept: dict[Key, int] = {}  # numbers of the gated jobs
        self._last = self._first = 0  # numbers at both ends of the queue

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

    def withdraw(self, key: Key) -> None:
        """Remove a waiting job from the queue."""
        super().withdraw(key)
        self._kept.pop(key, None)
        self._forget(key)
        self._owners.pop(key, None)

    def gate(self, key: Key) -> None:
        """Keep a waiting job from starting; it goes on waiting for the order."""
        if key in self._waiting:
            self._kept[key] = self._alike[self._group(self._waiting[key])][key]
        super().gate(key)

    def end(self, key: Key) -> None:
        """Release the processors of a running job that has ended."""
        self._count(key, -self._running[key][1])
        self._owners.pop(key, None)
        super().end(key)

    def occupy(self, key: Key, *, processors: int, until: float) -> None:
        """Start a job past the queue."""
        super().occupy(key, processors=processors, until=until)
        self._count(key, processors)

    def _pass(self, now: float) -> list[Key]:
        """Make one scheduling pass by the rule of the class."""
        started: list[Key] = []
        if not self._waiting or not self.idle:
            return started
        self._since.update(dict.fromkeys(self._unseen, now))
        self._unseen.clear()
        if not self._field:
            self._keys = {one: self._place(one, now) for one in self._alike}
            self._heap = [*self._keys.values()]
            heapify(self._heap)
            self._changed.clear()
        while place := self._next(now):
            key = self._first_of(place[2])
            _, processors, estimate_s = self._waiting[key]
            if processors > self.idle:
                break
            self._unqueue(self._waiting.pop(key))
            self._forget(key)
            self._running[key] = (now + estimate_s, processors)
            self.idle -= processors
            user = self._count(key, processors)
            started.append(key)
            if not self._field:
                self._changed.update(dict.fromkeys(self._all_of(user)))
        return started

    def _startable(self, now: float, estimate_s: float) -> int:
        """Return the idle processors; none while jobs wait, which may sort before the new one."""
        return 0 if self._waiting else self.idle

    def _in_order(self, now: float) -> list[Waiting[Key]]:
        self._since.update(dict.fromkeys(self._unseen, now))
        self._unseen.clear()
        groups = sorted(self._place(group, now) for group in self._alike)
        return [self._waiting[key] for place in groups for key in self._alike[place[2]]]

    def _begin(self, job: Waiting[Key], until: float) -> None:
        super()._begin(job, until)
        self._forget(job[0])
        self._count(job[0], job[1])

    def _next(self, now: float) -> _Place | None:
        """Return the place of the next job in the order."""
        for group in self._changed:
            if group in self._alike:
                self._keys[group] = place = self._place(group, now)
                heappush(self._heap, place)
        self._changed.clear()
        while self._heap and self._keys.get(self._heap[0][2]) is not self._heap[0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _place(self, group: Hashable, now: float) -> _Place:
        """Return the place of the first of some jobs that are alike."""
        key, number = next(iter(self._alike[group].items()))
        _, processors, estimate_s = self._waiting[key]
        user, priority = self._owners.get(key, NOBODY)
        job = QueuedJob(
            user=user,
            processors=processors,
            estimate_s=estimate_s,
            waited_s=now - self._since[key],
            priority=priority,
            held=self._held.get(user, 0),
        )
        return self._order(job), number, group

    def _first_of(self, group: Hashable) -> Key:
        return next(iter(self._alike[group]))

    def _all_of(self, user: str) -> list[Hashable]:
        return [one for one in self._alike if self._owner(self._first_of(one))[0] == user]

    def _owner(self, key: Key) -> tuple[str, int]:
        return self._owners.get(key, NOBODY)

    def _group(self, job: Waiting[Key]) -> Hashable:
        """Return what a job has in common with those that are alike."""
        key, _, estimate_s = job
        user, priority = self._owner(key)
        values = {"estimate_s": estimate_s, "priority": priority, "user": user}
        return values[self._field] if self._field else key

    def _count(self, key: Key, processors: int) -> str:
        """Count the processors of a job as held by its user, who is returned."""
        user, _ = self._owner(key)
        self._held[user] = self._held.get(user, 0) + processors
        if self._field == "user":
            self._changed[user] = None
        return user

    def _queue(self, job: Waiting[Key]) -> None:
        self._last += 1
        jobs = self._alike.setdefault(group := self._group(job), {})
        if not jobs:
            self._changed[group] = None
        jobs[job[0]] = self._last
        self._unseen[job[0]] = None

    def _queue_first(self, job: Waiting[Key]) -> None:
        self._first -= 1
        group = self._group(job)
        self._alike[group] = {job[0]: self._first, **self._alike.get(group, {})}
        self._changed[group] = None
        self._unseen[job[0]] = None

    def _queue_before(self, job: Waiting[Key], behind: Waiting[Key] | None) -> None:
        key, group = job[0], self._group(job)
        numbers = {**self._alike.get(group, {}), key: self._kept.pop(key)}
        self._alike[group] = dict(sorted(numbers.items(), key=_number_of))
        self._changed[group] = None

    def _unqueue(self, job: Waiting[Key]) -> None:
        key, group = job[0], self._group(job)
        self._keys.pop(group, None)
        self._changed[group] = None
        del self._alike[group][key]
        if not self._alike[group]:
            del self._alike[group]

    def _forget(self, key: Key) -> None:
        """Drop what is known of the waiting of a job."""
        self._since.pop(key, None)
        self._unseen.pop(key, None)

    def _hold(self, release: tuple[float, int]) -> None:
        """Nothing to record: expected ends are not used."""

    def _free(self, release: tuple[float, int]) -> None:
        """Nothing to record."""

    def _disturb(self) -> None:
        """Nothing to invalidate."""

    def _unshare(self) -> None:
        super()._unshare()
        self._owners = self._owners.copy()
        self._since = self._since.copy()
        self._unseen = self._unseen.copy()
        self._held = self._held.copy()
        self._alike = {group: jobs.copy() for group, jobs in self._alike.items()}
        self._keys = self._keys.copy()
        self._heap = self._heap.copy()
        self._changed = self._changed.copy()
        self._kept = self._kept.copy()


def _number_of(one: tuple[object, int]) -> int:
    return one[1]
