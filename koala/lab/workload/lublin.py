"""The model of Lublin and Feitelson (JPDC 63(11), 2003): sizes, run times and arrivals of a typical
parallel machine, fitted to three logs.

- *Size*: a part of the jobs is serial. log2 of the others is uniform on [low, middle] or, seldom,
  on [middle, high], and for many rounded to a power of two.
- *Run time*: its log is from one of two gamma distributions; larger jobs are more often of the
  longer one.
- *Arrivals*: the log of the time between them in the rush hours is gamma distributed. Through the
  day such a time covers as many half hours as their weights allow, which come from a gamma
  distribution over the day.

Batch and interactive jobs have parameters of their own, or all jobs share one set (`ALL`). The
constants are those of the program that its authors publish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log2
from random import Random
from typing import NamedTuple

HALF_HOUR_S = 1_800
HALF_HOURS = 48
DAY_BEGINS_AT = 11
"""The daily cycle is fitted to a day that begins with this half hour."""
PROCESSORS = 128
"""Processors of the machine to which the constants belong."""
LOG_RUN_MAX = 12.0
LOG_BETWEEN_MAX = 13.0
"""Larger draws are repeated."""


class Job(NamedTuple):
    """A job with instants and durations in whole seconds, as in the authors' program."""

    submit_at: int
    processors: int
    run_s: int
    is_batch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of one kind of jobs in the paper's symbols. Gamma: by shape, scale."""

    serial: float
    power_of_two: float
    low: float
    middle: float
    high: float
    """log2 of sizes; the middle lies 1.5 to 3.5 below the highest."""
    share_below: float
    """U: share of jobs with log2 of a size below the middle."""
    run_short: tuple[float, float]
    """a1, b1."""
    run_long: tuple[float, float]
    """a2, b2."""
    short_by_size: tuple[float, float]
    """pa, pb: a job of n processors is of the short kind with probability pa n + pb."""
    between: tuple[float, float]
    """aarr, barr."""
    over_day: tuple[float, float]
    """anum, bnum."""
    rush: float
    """ARAR: ratio of the rush hours to the whole day; it multiplies aarr."""

    def on(self, processors: int) -> Parameters:
        """Scale to a machine with so many processors, instead of the 128 of the constants: the
        largest jobs and the middle grow with it."""
        more = log2(processors / PROCESSORS)
        high = max(self.low, self.high + more)
        return replace(self, high=high, middle=min(high, max(self.low, self.middle + more)))


ALL = Parameters(
    serial=0.244, power_of_two=0.576, low=0.8, middle=4.5, high=7, share_below=0.86,
    run_short=(4.2, 0.94), run_long=(312, 0.03), short_by_size=(-0.0054, 0.78),
    between=(10.2303, 0.4871), over_day=(8.1737, 3.9631), rush=1.0225,
)  # fmt: skip
BATCH = Parameters(
    serial=0.2927, power_of_two=0.6686, low=1.2, middle=5, high=7, share_below=0.875,
    run_short=(6.57, 0.823), run_long=(639.1, 0.0156), short_by_size=(-0.003, 0.6986),
    between=(6.0415, 0.8531), over_day=(6.1271, 5.2740), rush=1.0519,
)  # fmt: skip
INTERACTIVE = Parameters(
    serial=0.1541, power_of_two=0.625, low=1, middle=3, high=5.5, share_below=0.705,
    run_short=(3.8351, 0.6605), run_long=(7.073, 0.6856), short_by_size=(-0.0118, 0.9156),
    between=(6.5510, 0.6621), over_day=(8.9186, 3.6680), rush=0.9797,
)  # fmt: skip


def jobs(*kinds: Parameters, random: Random) -> Iterator[Job]:
    """Yield jobs without end, in the order of their submission. Several kinds arrive independently,
    the first of them being batch jobs if there is more than one."""
    streams = [_arrivals(kind, random) for kind in kinds]
    coming = [next(stream) for stream in streams]
    while True:
        index = min(range(len(kinds)), key=coming.__getitem__)
        at = coming[index]
        coming[index] = next(streams[index])
        processors = size(kinds[index], random)
        run_s = run_time_s(kinds[index], processors, random)
        yield Job(int(at), processors, run_s, is_batch=len(kinds) > 1 and index == 0)


def size(kind: Parameters, random: Random) -> int:
    """Draw the processors of a job. On a machine whose size is no power of two the next larger
    power can come out; it is drawn again."""
    drawn = random.random()
    if drawn <= kind.serial:
        return 1
    while True:
        is_below = random.random() <= kind.share_below
        low, high = (kind.low, kind.middle) if is_below else (kind.middle, kind.high)
        exponent = low + (high - low) * random.random()
        if drawn <= kind.serial + kind.power_of_two:
            exponent = int(exponent + 0.5)
        if exponent <= kind.high:
            return int(2**exponent + 0.5)


def run_time_s(kind: Parameters, processors: int, random: Random) -> int:
    """Draw the run time of a job of that size."""
    slope, share = kind.short_by_size
    while True:
        is_short = random.random() <= slope * processors + share
        log_run = random.gammavariate(*(kind.run_short if is_short else kind.run_long))
        if log_run <= LOG_RUN_MAX:
            return int(exp(log_run))


def _arrivals(kind: Parameters, random: Random) -> Iterator[float]:
    """Yield instants of arrival from midnight on."""
    weights = half_hour_weights(kind.over_day)
    shape, scale = kind.between
    at = 0.0
    half_hour = 0
    left = 0.0
    """Remaining weight that is not yet covered."""
    while True:
        log_between = LOG_BETWEEN_MAX + 1
        while log_between > LOG_BETWEEN_MAX:
            log_between = random.gammavariate(shape * kind.rush, scale)
        left += exp(log_between) / HALF_HOUR_S
        while left > weights[half_hour % HALF_HOURS]:
            left -= weights[half_hour % HALF_HOURS]
            half_hour += 1
        at = HALF_HOUR_S * (half_hour + left / weights[half_hour % HALF_HOURS])
        yield at


def half_hour_weights(over_day: tuple[float, float]) -> list[float]:
    """Return the relative number of arrivals in each half hour from midnight on (mean 1)."""
    from scipy.special import gammainc  # noqa: PLC0415 - takes longer to import than a short log

    shape, scale = over_day
    weights = [0.0] * HALF_HOURS
    for number in range(DAY_BEGINS_AT, DAY_BEGINS_AT + HALF_HOURS):
        low, high = ((number + offset) / scale for offset in (-0.5, 0.5))
        weights[(number - 1) % HALF_HOURS] = float(gammainc(shape, high) - gammainc(shape, low))
    mean = sum(weights) / HALF_HOURS
    return [weight / mean for weight in weights]
