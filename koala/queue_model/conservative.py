"""Conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort

from koala.queue_model.profile import Profile
from koala.queue_model.queue import Discipline, Key, LocalQueue, Waiting


class ConservativeQueue(LocalQueue[Key]):
    """Queue with conservative backfilling: every job gets a reservation at its arrival, for the
    earliest instant from which its processors are free for as long as its estimate. Running jobs
    are expected to end at their start + their estimate, and earlier reservations are kept. The job
    starts then, never later.

    When a job ends early, or is withdrawn, the reservations are compressed: the waiting jobs are
    gone through once in queue order, and each is moved to the earliest instant that has become
    possible, all other reservations staying as they are at that moment. All that ends at one
    instant ends before one compression, and that comes before the arrivals of the instant.

    When a job overruns its estimate it is expected to end now, at each instant until it does.
    Reservations that counted on its processors cannot be kept; so while there is such a job, and
    when processors come or go past the queue, a job is put back at its head or a gated one is
    opened, all reservations are made again, in queue order. The reservation of a job that is gated
    is dropped, as that of one that is withdrawn. A reservation for now whose processors are not
    there yet waits for them.
    """

    discipline = Discipline.CONSERVATIVE
    planned_max = math.inf

    def __init__(self, *, processors: int) -> None:
        super().__init__(processors=processors)
        self._profile = Profile(processors)
        self._arrivals = 0
        self._firsts = 0
        self._newcomers: list[Key] = []
        self._reserved: dict[Key, tuple[float, int, Key]] = {}
        """Start and number of arrival of each waiting job that has taken part in a pass."""
        self._due: list[tuple[float, int, Key]] = []
        """The same in order of the starts."""
        self._releases: list[tuple[float, int]] = []
        self._ended: list[tuple[float, int]] = []
        self._has_room = False
        """Something has left, so that reservations may move forward."""
        self._is_void = False
        """Set when reservations must be made again."""

    def _pass(self, now: float) -> list[Key]:
        """Make one scheduling pass by the rule of the class."""
        self._profile.forget(now)
        for until, processors in self._ended:
            if until > now:
                self._profile.add(processors, now, until)
                self._has_room = True
        self._ended.clear()
        if self._is_void or self._is_late(now):
            self._renew(now)
        elif self._has_room:
            self._compress(now)
        self._is_void = self._has_room = False
        for key in self._newcomers:
            self._reserve(key, now)
        self._newcomers.clear()
        started = self._start_due(now)
        self.wake_at = self._next_start(now)
        return started

    def _startable(self, now: float, estimate_s: float) -> int:
        """Return the idle processors that are not reserved for the length of the estimate."""
        return min(self.idle, self._profile.least(begin=now, end=now + estimate_s))

    @property
    def reservations(self) -> dict[Key, float]:
        """Expected start of each job that has taken part in a pass, in queue order."""
        return {key: self._reserved[key][0] for key in self._waiting if key in self._reserved}

    # How --------------------------------------------------------------------------------------

    def _is_late(self, now: float) -> bool:
        """Test for a job that overruns its estimate, or a reservation that could not be kept."""
        releases, due = self._releases, self._due
        return bool(releases and releases[0][0] < now) or bool(due and due[0][0] < now)

    def _renew(self, now: float) -> None:
        self._profile = self._of_running(now)
        known = [key for key in self._waiting if key in self._reserved]
        self._due.clear()
        for key in known:
            self._reserve(key, now)

    def _of_running(self, now: float) -> Profile:
        profile = Profile(self.available)
        profile.forget(now)
        for until, processors in self._releases:
            profile.add(-processors, now, until)
        return profile

    def _compress(self, now: float) -> None:
        profile = self._profile
        for key, processors, estimate_s in self._waiting.values():
            reserved = self._reserved.get(key)
            if reserved is None:
                break  # the newcomers
            start = reserved[0]
            if processors > profile.most_before(start):
                continue
            sooner = profile.earliest(processors, estimate_s, begin=now, before=start)
            if sooner < start:
                profile.add(processors, start, start + estimate_s)
                del self._due[bisect_left(self._due, reserved)]
                self._set(key, sooner)

    def _reserve(self, key: Key, now: float) -> None:
        _, processors, estimate_s = self._waiting[key]
        self._set(key, self._profile.earliest(processors, estimate_s, begin=now))

    def _set(self, key: Key, start: float) -> None:
        """Reserve the processors of a job from an instant on."""
        _, processors, estimate_s = self._waiting[key]
        if key in self._reserved:
            number = self._reserved[key][1]
        else:
            number = self._arrivals
            self._arrivals += 1
        if start < math.inf:
            self._profile.add(-processors, start, start + estimate_s)
        self._reserved[key] = reserved = (start, number, key)
        insort(self._due, reserved)

    def _start_due(self, now: float) -> list[Key]:
        """Start, in queue order, the jobs that are reserved for now and whose processors are not
        held by a job that overruns."""
        due = self._due[: bisect_right(self._due, now, key=_start_of)]
        started = []
        for reserved in sorted(due, key=_number_of):
            key = reserved[2]
            _, processors, estimate_s = self._waiting[key]
            if processors > self.idle:
                continue
            del self._due[bisect_left(self._due, reserved)]
            del self._reserved[key]
            del self._waiting[key]
            self._running[key] = release = (now + estimate_s, processors)
            insort(self._releases, release)
            self.idle -= processors
            started.append(key)
        return started

    def _next_start(self, now: float) -> float:
        after = bisect_right(self._due, now, key=_start_of)
        return self._due[after][0] if after < len(self._due) else math.inf

    def _queue(self, job: Waiting[Key]) -> None:
        self._newcomers.append(job[0])

    def _queue_first(self, job: Waiting[Key]) -> None:
        key = job[0]
        self._firsts -= 1
        self._reserved[key] = reserved = (math.inf, self._firsts, key)
        insort(self._due, reserved)
        self._is_void = True

    def _queue_before(self, job: Waiting[Key], behind: Waiting[Key] | None) -> None:
        """Record it and all newcomers, some of which may be before it, as known without a
        reservation; number all again."""
        self._newcomers.clear()
        starts = {key: self._reserved[key][0] for key in self._waiting if key in self._reserved}
        self._reserved = {
            key: (starts.get(key, math.inf), number, key)
            for number, key in enumerate(self._waiting)
        }
        self._due = sorted(self._reserved.values())
        self._arrivals, self._firsts = len(self._reserved), 0
        self._is_void = True

    def _unqueue(self, job: Waiting[Key]) -> None:
        key, processors, estimate_s = job
        reserved = self._reserved.pop(key, None)
        if reserved is None:
            self._newcomers.remove(key)
            return
        del self._due[bisect_left(self._due, reserved)]
        if reserved[0] < math.inf:
            self._profile.add(processors, reserved[0], reserved[0] + estimate_s)
        self._has_room = True

    def _hold(self, release: tuple[float, int]) -> None:
        insort(self._releases, release)

    def _free(self, release: tuple[float, int]) -> None:
        del self._releases[bisect_left(self._releases, release)]
        self._ended.append(release)

    def _disturb(self) -> None:
        self._is_void = True

    def _unshare(self) -> None:
        super()._unshare()
        self._profile = self._profile.copy()
        self._newcomers = self._newcomers.copy()
        self._reserved = self._reserved.copy()
        self._due = self._due.copy()
        self._releases = self._releases.copy()
        self._ended = self._ended.copy()


def _start_of(reserved: tuple[float, int, object]) -> float:
    return reserved[0]


def _number_of(reserved: tuple[float, int, object]) -> int:
    return reserved[1]
