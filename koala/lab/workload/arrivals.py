"""Arrivals of a log's jobs at one machine, in order and in bounded memory.

Jobs that cannot be replayed are dropped, missing values are filled in, and both are counted.

- Size: allocated processors if positive, else those requested.
- Dropped, in this order: no size, a negative run time, a negative submit time, a size above the
  machine's.
- A run time of 0 becomes 1 s; a missing estimate becomes the run time.
- Order: submit time, then place in the log.
- Submit times are shifted so that the first is 0.
"""

from __future__ import annotations

import heapq
import marshal
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice, pairwise
from operator import itemgetter
from typing import IO

from koala.errors import WorkloadError
from koala.lab.workload.logs import Columns, Header, Log

WINDOW = 10_000
"""Number of jobs that are held back, in case a job that was submitted earlier comes later in the
log."""
PORTION = 50_000
"""Number of jobs that are sorted at a time when a log is in no order at all."""

Arrival = tuple[int, int, int, int, int]
"""Submit time, number in the log, processors, run time, estimate."""

_by_submit = itemgetter(0)


class Overrun(StrEnum):
    """Treatment of a job that runs longer than its estimate."""

    RAISE = "raise"
    """Its estimate is raised to its run time."""
    KILL = "kill"
    """It ends at its estimate."""
    EXTEND = "extend"
    """It runs on, and is expected to end at any moment from then on."""


class DisorderError(WorkloadError):
    """Error of a log that is further out of order than the jobs that are held back."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """Counts of the jobs read, dropped and changed."""

    read: int = 0
    without_size: int = 0
    without_run_time: int = 0
    without_submit_time: int = 0
    too_large: int = 0
    run_time_zero: int = 0
    estimate_missing: int = 0
    over_estimate: int = 0
    fractions_cut: int = 0
    out_of_order: int = 0

    @property
    def dropped(self) -> dict[str, int]:
        """Jobs left out, by reason."""
        return {
            "without_size": self.without_size,
            "without_run_time": self.without_run_time,
            "without_submit_time": self.without_submit_time,
            "too_large": self.too_large,
        }

    @property
    def kept(self) -> int:
        """Number of jobs that arrive."""
        return self.read - sum(self.dropped.values())

    @property
    def changed(self) -> dict[str, int]:
        """Jobs kept but changed, by reason."""
        return {
            name: count
            for name, count in asdict(self).items()
            if name != "read" and name not in self.dropped
        }


def machine(log: Log, header: Header) -> tuple[int, str]:
    """Return the number of processors of a log's machine, and its source. Reads the whole log if
    its header does not have it. Raises WorkloadError when no job has it either."""
    for key in ("MaxProcs", "MaxNodes"):
        if (found := header.whole(key)) is not None:
            return found, key
    largest, counts = 0, Summary()
    for columns in log.columns():
        for _, _, processors, _, _ in _kept(columns, 1 << 62, Overrun.RAISE, counts):
            largest = max(largest, processors)
    if not largest:
        reasons = (f", {name.replace('_', ' ')} {n}" for name, n in counts.dropped.items() if n)
        told = f"{counts.read} read{''.join(reasons)}"
        raise WorkloadError(f"{log.path}: no job that could be replayed ({told})")
    return largest, "the largest job"


class Arrivals:
    """The jobs of a log at a machine with so many processors. `summary` is complete when all have
    been yielded; `shift` is known when the first has been."""

    def __init__(self, log: Log, *, processors: int, overrun: Overrun = Overrun.RAISE) -> None:
        self._log = log
        self._processors = processors
        self._overrun = overrun
        self.summary = Summary()
        self._has_begun = False
        self.shift = 0
        """Submit time in the log of the job that is submitted at 0."""

    def blocks(self, *, window: int = WINDOW) -> Iterator[list[Arrival]]:
        """Yield all jobs in order, for logs that are nearly in order. Raises DisorderError when one
        comes more than `window` jobs later than its submit time says."""
        self._begin()
        held: list[Arrival] = []
        passed = -1
        for block in self._kept_blocks():
            if block[0][0] < passed:
                raise DisorderError(f"{self._log.path} is not in order of submit times")
            is_late = held and block[0][0] < held[-1][0]
            held += block
            if is_late:
                held.sort(key=_by_submit)
            if len(held) > window:
                passed = held[-window - 1][0]
                yield self._shifted(held[:-window])
                del held[:-window]
        yield self._shifted(held)

    def sorted_blocks(self, *, portion: int = PORTION) -> Iterator[list[Arrival]]:
        """Yield all jobs in order, for logs in any order: sorted portions go to a temporary
        file."""
        self._begin()
        import tempfile  # noqa: PLC0415 - hardly any log needs it

        with tempfile.TemporaryFile(prefix="koala-") as file:
            portions: list[list[int]] = []
            held: list[Arrival] = []
            for block in self._kept_blocks():
                held += block
                if len(held) >= portion:
                    portions.append(_put(file, held))
                    held = []
            held.sort(key=_by_submit)
            stored = [_got(file, at) for at in portions]
            merged = heapq.merge(*stored, held, key=_by_submit)
            while block := [*islice(merged, WINDOW)]:
                yield self._shifted(block)

    def _begin(self) -> None:
        self.summary = Summary()
        self._has_begun = False

    def _kept_blocks(self) -> Iterator[list[Arrival]]:
        """Yield the jobs of each block of the log, in order within it."""
        last = -1
        for columns in self._log.columns():
            block = _kept(columns, self._processors, self._overrun, self.summary)
            if not block:
                continue
            submits = [last, *map(_by_submit, block)]
            last = submits[-1]
            if sorted(submits) != submits:
                late = sum(after < before for before, after in pairwise(submits))
                self.summary.out_of_order += late
                block.sort(key=_by_submit)
            yield block

    def _shifted(self, block: list[Arrival]) -> list[Arrival]:
        if not self._has_begun and block:
            self._has_begun = True
            self.shift = block[0][0]
        shift = self.shift
        if not shift:
            return block
        return [(job[0] - shift, job[1], job[2], job[3], job[4]) for job in block]


def _kept(  # noqa: C901 - all rules in one loop: a call a job would cost as much as they do
    columns: Columns, largest: int, overrun: Overrun, summary: Summary
) -> list[Arrival]:
    """Apply the rules at the top of this module to a block."""
    kept: list[Arrival] = []
    for number, submit, run_s, allocated, requested, estimate_s in zip(*columns[:6], strict=True):
        processors = allocated if allocated > 0 else requested
        if processors <= 0:
            summary.without_size += 1
        elif run_s < 0:
            summary.without_run_time += 1
        elif submit < 0:
            summary.without_submit_time += 1
        elif processors > largest:
            summary.too_large += 1
        else:
            run, estimate = run_s or 1, estimate_s
            if not run_s:
                summary.run_time_zero += 1
            if estimate <= 0:
                estimate = run
                summary.estimate_missing += 1
            elif estimate < run:
                summary.over_estimate += 1
                if overrun is Overrun.RAISE:
                    estimate = run
                elif overrun is Overrun.KILL:
                    run = estimate
            kept.append((submit, number, processors, run, estimate))
    summary.read += len(columns.numbers)
    summary.fractions_cut += columns.cut
    return kept


_CHUNK = 1_000


def _put(file: IO[bytes], jobs: list[Arrival]) -> list[int]:
    """Store jobs in order; return the offset of each chunk of them."""
    jobs.sort(key=_by_submit)
    begins = []
    file.seek(0, os.SEEK_END)
    for first in range(0, len(jobs), _CHUNK):
        begins.append(file.tell())
        marshal.dump(jobs[first : first + _CHUNK], file)
    return begins


def _got(file: IO[bytes], begins: list[int]) -> Iterator[Arrival]:
    """Read the jobs of one portion; the others are read from the same file in between."""
    for begin in begins:
        file.seek(begin)
        yield from marshal.load(file)  # what `_put` wrote
