"""Use of the processors over time (KOALA, figure 2).

Integrals of step functions, kept in bins of equal length. The series count only sites that the
scheduler may use at the time; the totals count all.

Changes are kept, and integrated some hundred at a time in one loop over local names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from koala.core.model.values import Instant, Seconds, SiteName

PENDING_MAX = 256
"""Changes that are kept until they are integrated; with thousands they leave the processor's
cache, which takes longer."""


class Use(IntEnum):
    """Use of a processor."""

    LOCAL = 0  # a job of the site's own users
    HELD = 1  # a claim before the barrier
    RUNNING = 2  # a component


_HELD = int(Use.HELD)  # a member takes four times as long to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Means over a bin of time: processors at usable sites, and those in use there."""

    begin_at: Instant
    duration_s: Seconds
    processors: float
    local: float
    held: float
    running: float

    @property
    def koala(self) -> float:
        """Processors that the scheduler's jobs have."""
        return self.held + self.running

    @property
    def busy(self) -> float:
        """Processors in use of any kind."""
        return self.local + self.koala


class Usage:
    """Counters of one run; `add` and `set_usable` come in order of their instants."""

    def __init__(self, processors: dict[SiteName, int], *, bin_s: Seconds) -> None:
        self.bin_s = bin_s
        self.totals_s = [0.0, 0.0, 0.0]  # processor-seconds of each use, at all sites
        self._processors = processors
        self._used = {site: [0, 0, 0] for site in processors}
        self._is_usable = dict.fromkeys(processors, False)
        self._now: Instant = 0.0
        self._whole = [0, 0, 0]
        self._level = [0, 0, 0, 0]  # at usable sites; the last is what there is of processors
        self._pending: list[tuple[Instant, int, int, int]] = []
        """Changes since `_now`: instant, use, at all sites, and at usable ones."""
        self._bins: list[list[float]] = []
        self._bin_until: Instant = 0.0
        self._open_bin()

    def add(self, site: SiteName, use: int, processors: int, now: Instant) -> None:
        """Change the number of used processors from now on; the change may be negative. `use` is
        a `Use`."""
        pending = self._pending
        self._used[site][use] += processors
        pending.append((now, use, processors, processors if self._is_usable[site] else 0))
        if len(pending) > PENDING_MAX:
            self.advance(now)

    def set_usable(self, site: SiteName, now: Instant, *, is_usable: bool) -> None:
        """Set whether the scheduler may use the site from now on."""
        if self._is_usable[site] == is_usable:
            return
        self.advance(now)
        self._is_usable[site] = is_usable
        sign = 1 if is_usable else -1
        for index, processors in enumerate((*self._used[site], self._processors[site])):
            self._level[index] += sign * processors

    def used(self, site: SiteName) -> int:
        """Return the processors in use at a site now."""
        return sum(self._used[site])

    def used_by(self, site: SiteName, use: int) -> int:
        """Return the processors in one use at a site now."""
        return self._used[site][use]

    def advance(self, until: Instant) -> None:
        """Integrate the use up to an instant."""
        now, bin_until = self._now, self._bin_until
        local_s, held_s, running_s = self.totals_s
        whole_local, whole_held, whole_running = self._whole
        local, held, running, processors = self._level
        bin_local, bin_held, bin_running, bin_processors = self._bins[-1]
        for at, use, change, usable_change in (*self._pending, (until, 0, 0, 0)):
            duration_s = at - now
            if duration_s > 0:
                local_s += whole_local * duration_s
                is_shared = whole_held or whole_running  # seldom; else only zeros would be added
                if is_shared:
                    held_s += whole_held * duration_s
                    running_s += whole_running * duration_s
                while at > bin_until:
                    duration_s = bin_until - now
                    self._bins[-1][:] = (
                        bin_local + local * duration_s,
                        bin_held + held * duration_s,
                        bin_running + running * duration_s,
                        bin_processors + processors * duration_s,
                    )
                    self._open_bin()
                    bin_local = bin_held = bin_running = bin_processors = 0.0
                    now, bin_until = bin_until, self._bin_until
                    duration_s = at - now
                bin_local += local * duration_s
                bin_processors += processors * duration_s
                if is_shared:
                    bin_held += held * duration_s
                    bin_running += running * duration_s
                now = at
            if not use:  # most changes are of local jobs
                whole_local += change
                local += usable_change
            elif use == _HELD:
                whole_held += change
                held += usable_change
            else:
                whole_running += change
                running += usable_change
        self._pending.clear()
        self._now = now
        self.totals_s = [local_s, held_s, running_s]
        self._whole = [whole_local, whole_held, whole_running]
        self._level = [local, held, running, processors]
        self._bins[-1][:] = bin_local, bin_held, bin_running, bin_processors

    def _open_bin(self) -> None:
        self._bins.append([0.0] * 4)
        self._bin_until = len(self._bins) * self.bin_s

    def spans(self) -> tuple[Span, ...]:
        """List the bins up to where the use was integrated; the last one may be shorter."""
        found = []
        for index, counts in enumerate(self._bins):
            begin_at = index * self.bin_s
            duration_s = min(self.bin_s, self._now - begin_at)
            if duration_s <= 0:
                break
            local, held, running, processors = (count / duration_s for count in counts)
            found.append(
                Span(
                    begin_at=begin_at,
                    duration_s=duration_s,
                    processors=processors,
                    local=local,
                    held=held,
                    running=running,
                )
            )
        return tuple(found)
