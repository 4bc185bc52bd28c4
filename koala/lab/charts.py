"""Charts of means with intervals, and of distributions, in matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, isfinite
from textwrap import fill
from typing import TYPE_CHECKING, Any

from koala.errors import ConfigError
from koala.lab.drawing import Picture
from koala.lab.measures import Measure
from koala.lab.sim.drawing import (
    COLOURS,
    DASHES,
    MARKERS,
    STYLE,
    draw_shares,
    mark_saturated,
    scale_durations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICKS_MAX = 12
"""A chart over at most so many numbers has its ticks at these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A mean with the ends of its interval, at a place of the x axis; nan where there is none."""

    x: Any
    mean: float
    low: float
    high: float
    is_saturated: bool = False


@dataclass(slots=True, kw_only=True)
class Chart:
    """A chart: dots by the name of their line."""

    title: str = ""
    lines: dict[str, list[Dot]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTexts:
    """ChartTexts of a picture, and the scale of its numbers."""

    x: str
    y: Measure
    legend: str = ""
    title: str = ""
    note: str = ""
    """Further line at the y axis."""


def draw_means(charts: Sequence[Chart], words: ChartTexts, ax: Axes | None = None) -> Picture:
    """Draw means from 0: lines over numbers, bars over words, side by side."""
    return _draw(charts, words, ax, is_difference=False)


def draw_differences(charts: Sequence[Chart], words: ChartTexts, ax: Axes | None = None) -> Picture:
    """Draw differences with their intervals around a line at 0."""
    return _draw(charts, words, ax, is_difference=True)


def draw_distributions(
    charts: Mapping[str, Mapping[str, Sequence[float | None]]],
    words: ChartTexts,
    ax: Axes | None = None,
) -> Picture:
    """Draw the share of values that are at most so large: a chart for each name, with a line for
    each name in it. None counts as larger than all numbers."""
    with _axes(len(charts), ax, title=words.title) as (picture, all_axes):
        numbers = [v for lines in charts.values() for of in lines.values() for v in _known(of)]
        for axes, (title, lines) in zip(all_axes, charts.items(), strict=True):
            _label(axes, title, words.x, words.note)
            for number, (name, values) in enumerate(lines.items()):
                counts = Counter(_known(values))
                draw_shares(axes, counts, label=name, number=number, of=len(values))
            if words.y.unit == "s":
                scale_durations(axes, max(numbers, default=0.0))
            axes.set_ylim(0, 1.02)
        _add_legend(picture, all_axes, words.legend, is_own=ax is not None)
    return picture


def _known(values: Sequence[float | None]) -> list[float]:
    return [one for one in values if one is not None and isfinite(one)]


@contextmanager
def _axes(count: int, ax: Axes | None, *, title: str) -> Iterator[tuple[Picture, list[Axes]]]:
    """Yield a picture with so many axes in Koala's style, or that of the axes `ax` as it is. Raises
    ConfigError if there are more charts than axes."""
    if ax is not None:
        if count != 1:
            raise ConfigError(f"ax: {count} charts (expected x and by that leave one)")
        if title:
            ax.set_title(title)
        yield Picture(ax.figure), [ax]  # type: ignore[arg-type]  # of a subfigure, too
        return
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        columns = min(count, 3) if count != 4 else 2
        rows = ceil(count / columns)
        size = (1.4 + 3.6 * columns, 0.4 + 2.8 * rows)
        drawing = Figure(figsize=size, layout="constrained")
        if title:
            drawing.suptitle(fill(title, round(11 * (size[0] - 1.4))), fontsize=10)
        yield (
            Picture(drawing),
            [drawing.add_subplot(rows, columns, place + 1) for place in range(count)],
        )


def _draw(
    charts: Sequence[Chart], words: ChartTexts, ax: Axes | None, *, is_difference: bool
) -> Picture:
    with _axes(len(charts), ax, title=words.title) as (picture, all_axes):
        for axes, chart in zip(all_axes, charts, strict=True):
            y_label = "\n".join(filter(None, [str(words.y), words.note]))
            _label(axes, chart.title, words.x, y_label)
            _draw_dots(axes, chart, words.y.divisor, is_difference=is_difference)
        _add_legend(picture, all_axes, words.legend, is_own=ax is not None)
    return picture


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    if title:
        axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _draw_dots(axes: Axes, chart: Chart, divisor: float, *, is_difference: bool) -> None:
    places = list(dict.fromkeys(dot.x for line in chart.lines.values() for dot in line))
    is_numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in places)
    places = sorted(places) if is_numbers else places
    at = {x: float(x) if is_numbers else float(place) for place, x in enumerate(places)}
    share = 0.8 / len(chart.lines)
    step = _dodge(sorted(at.values()), len(chart.lines)) if is_numbers else share
    is_bars = not is_numbers and not is_difference
    low = high = 0.0
    for number, (name, line) in enumerate(chart.lines.items()):
        shift = (number - (len(chart.lines) - 1) / 2) * step
        colour = COLOURS[number % len(COLOURS)]
        for dot in line:
            if dot.is_saturated:
                mark_saturated(axes, at[dot.x] + shift, colour)
        dots = sorted(
            (dot for dot in line if isfinite(dot.mean) and not dot.is_saturated),
            key=lambda dot: at[dot.x],
        )
        x = [at[dot.x] + shift for dot in dots]
        means = [dot.mean / divisor for dot in dots]
        ends = [_ends(dot, divisor) for dot in dots]
        low = min([low, *(m - below for m, (below, _) in zip(means, ends, strict=True))])
        high = max([high, *(m + above for m, (_, above) in zip(means, ends, strict=True))])
        if is_bars:
            axes.bar(x, means, width=0.92 * share, label=name, color=colour)
        axes.errorbar(
            x, means, yerr=list(zip(*ends, strict=True)) if ends else None,
            label=None if is_bars else name, color="black" if is_bars else colour,
            marker="" if is_bars else MARKERS[number % len(MARKERS)], markersize=3.5,
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)] if is_numbers else "",
            linewidth=1, elinewidth=0.8, capsize=2,
        )  # fmt: skip
    if is_difference:
        axes.axhline(0, color="black", linewidth=0.6, zorder=0)
    margin = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - margin if low < 0 else 0, high + margin if high > 0 else margin)
    if max(map(abs, axes.get_ylim())) >= 10_000:
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if not is_numbers:
        axes.set_xticks(list(at.values()), [str(x) for x in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
    elif len(places) <= TICKS_MAX:
        axes.set_xticks(list(at.values()), [f"{x:g}" for x in places])


def _dodge(places: Sequence[float], lines: int) -> float:
    """Return the distance between lines over numbers, at which none hides the intervals of
    another."""
    if len(places) < 2:
        return 0.04 * (abs(places[0]) or 1.0) if places else 0.0
    nearest = min(after - before for before, after in pairwise(places))
    return min(0.012 * (places[-1] - places[0]), 0.5 * nearest / lines)


def _ends(dot: Dot, divisor: float) -> tuple[float, float]:
    """Return how far the interval reaches below and above; 0 where it has no end."""
    below, above = (dot.mean - dot.low) / divisor, (dot.high - dot.mean) / divisor
    return (below if isfinite(below) else 0.0), (above if isfinite(above) else 0.0)


def _add_legend(picture: Picture, all_axes: Sequence[Axes], title: str, *, is_own: bool) -> None:
    """Add one legend with a title, unless there is but one name."""
    names: dict[str, Any] = {}
    for axes in all_axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            names.setdefault(name, handle)
    if is_own and names:
        all_axes[0].legend(title=title)
    elif len(names) > 1:
        picture.figure.legend(
            list(names.values()), list(names), loc="outside right upper", title=title
        )
