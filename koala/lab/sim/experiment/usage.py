"""Use of the processors over time (KOALA, figure 2).

Integrals of step functions, kept in bins of equal length. The series count only sites that the
scheduler may use at the time; the totals count all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from koala.core.model.values import Instant, Seconds, SiteName


class Use(IntEnum):
    """Use of a processor."""

    LOCAL = 0  # a job of the site's own users
    HELD = 1  # a claim before the barrier
    RUNNING = 2  # a component


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
        self._bins: list[list[float]] = []
        self._bin_until: Instant = 0.0
        self._open_bin()

    def add(self, site: SiteName, use: int, processors: int, now: Instant) -> None:
        """Change the number of used processors from now on; the change may be negative. `use` is
        a `Use`."""
        self.advance(now)
        self._used[site][use] += processors
        self._whole[use] += processors
        if self._is_usable[site]:
            self._level[use] += processors

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
        now = self._now
        if until <= now:
            return
        whole, duration_s = self._whole, until - now
        self.totals_s[0] += whole[0] * duration_s
        if whole[1] or whole[2]:  # seldom; else only zeros would be added
            self.totals_s[1] += whole[1] * duration_s
            self.totals_s[2] += whole[2] * duration_s
        while until > self._bin_until:
            self._fill(self._bin_until - now)
            now = self._bin_until
            self._open_bin()
        self._fill(until - now)
        self._now = until

    def _fill(self, duration_s: Seconds) -> None:
        """Add so much time to the open bin."""
        local, held, running, processors = self._level
        bin_s = self._bins[-1]
        bin_s[0] += local * duration_s
        bin_s[3] += processors * duration_s
        if held or running:
            bin_s[1] += held * duration_s
            bin_s[2] += running * duration_s

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
