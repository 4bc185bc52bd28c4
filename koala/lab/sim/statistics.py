"""Means with 95 % confidence intervals: over replications, or over the batches of one long run.

The half-width uses Student's t distribution, so it is right for few values, and assumes that they
are independent and about normal, which means of many jobs are (Law, Simulation Modeling and
Analysis, 9.4 and 9.5). One value says nothing about its spread: its half-width is infinite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, floor, inf, isfinite, isnan, log, log10, nan, sqrt
from statistics import fmean, stdev

CONFIDENCE = 0.95
BATCHES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and the half-width of its 95 % confidence interval, from `values` values."""

    mean: float
    ci95: float
    values: int

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.ci95

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.ci95

    @property
    def is_positive(self) -> bool:
        """True if all of it lies above 0."""
        return self.low > 0

    @property
    def is_negative(self) -> bool:
        """True if all of it lies below 0."""
        return self.high < 0

    def verdict(self, higher: str = "higher", lower: str = "lower") -> str:
        """Say what the interval of a difference shows: these words, `equal` or `undecided`."""
        if self.mean == 0 == self.ci95:
            return "equal"
        if self.is_positive:
            return higher
        return lower if self.is_negative else "undecided"

    def document(self) -> dict[str, float | None]:
        """Return the document for JSON, which has no infinity and no not-a-number: null stands for
        "not known"."""
        return {name: value if isfinite(value) else None for name, value in self._fields()}

    def _fields(self) -> tuple[tuple[str, float], ...]:
        return ("mean", self.mean), ("ci95", self.ci95)

    def __str__(self) -> str:
        """Write both numbers to the same place: no digit of the mean is less than its width."""
        if isnan(self.mean):
            return "-"
        if not (isfinite(self.ci95) and isfinite(self.mean)) or self.ci95 <= 0:
            return f"{self.mean:.6g}" + (" ± 0" if self.ci95 == 0 else "")
        place = 1 - floor(log10(self.ci95))  # two digits of the half-width, and as many of the mean
        mean, width = (round(value, place) for value in (self.mean, self.ci95))
        return f"{mean:.{max(0, place)}f} ± {width:.{max(0, place)}f}"


def mean(values: Iterable[float | None]) -> float:
    """Compute the mean of the values that are not None; nan without any."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else nan


def ratio(part: float, whole: float) -> float:
    """Divide; nan if the whole is 0."""
    return part / whole if whole else nan


def percent(part: float, whole: float) -> float:
    """Return the part in percent of the whole; nan if that is 0."""
    return 100.0 * part / whole if whole else nan


def interval(values: Sequence[float]) -> Interval:
    """Compute the interval of the mean of independent values, one per replication. Values that are
    nan (a replication in which nothing of the kind happened) are left out."""
    known = [value for value in values if value == value]  # noqa: PLR0124 - only nan differs from itself
    if not known:
        return Interval(mean=nan, ci95=inf, values=0)
    if len(known) == 1:
        return Interval(mean=known[0], ci95=inf, values=1)
    spread = stdev(known) if isfinite(sum(known)) else inf
    half_width = student(len(known) - 1) * spread / sqrt(len(known))
    return Interval(mean=fmean(known), ci95=half_width, values=len(known))


def intervals(runs: Sequence[Mapping[str, float]], names: Iterable[str]) -> dict[str, Interval]:
    """Compute the interval of each named value over the runs."""
    return {name: interval([run[name] for run in runs]) for name in names}


def geometric(ratios: Iterable[float]) -> tuple[float, float, float]:
    """Compute the geometric mean of ratios, and the ends of its 95 % confidence interval."""
    found = interval([log(ratio) for ratio in ratios])
    return exp(found.mean), exp(found.low), exp(found.high)


def paired(ones: Sequence[float], others: Sequence[float]) -> Interval:
    """Compute the mean difference, one less other, over replications with common random numbers.
    The i-th values of both come from the same seed. Their shared variation cancels, so the interval
    is narrow."""
    return interval([one - other for one, other in zip(ones, others, strict=True)])


def batch_means(values: Sequence[float], batches: int = BATCHES) -> Interval:
    """Compute the mean of one long run whose values depend on their neighbours. Consecutive batches
    of equal size count as independent; a remainder is left out at the beginning."""
    return interval(means_of_batches(values, batches))


def means_of_batches(values: Sequence[float], batches: int = BATCHES) -> list[float]:
    """Return the means of `batches` consecutive batches; one value a batch when there are fewer
    values."""
    count = min(batches, len(values))
    if count == 0:
        return []
    size = len(values) // count
    first = len(values) - size * count
    bounds = range(first, len(values) + 1, size)
    return [fmean(values[low:high]) for low, high in pairwise(bounds)]


def student(degrees: int, *, confidence: float = CONFIDENCE) -> float:
    """Return the factor of a two-sided interval with so many degrees of freedom."""
    from scipy.special import stdtrit  # noqa: PLC0415 - takes longer to import than a short run

    return float(stdtrit(degrees, (1 + confidence) / 2))
